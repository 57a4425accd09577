"""A region and its base table, which has an index: writers, mergers, index and snapshot builders, and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..actor import Actor
from ..scenarios import clients, ground, indexed
from ..scenarios.actors import Workplace
from ..scenarios.scenario import ScenarioSetting
from ..scenarios.survivor import survives
from ..world import Oracle
from . import verdicts
from .clients import client
from .workload import Role, Workload


def _place(setting: ScenarioSetting) -> Workplace:
    return clients.place(setting, collected=True)


def roles(place: Callable[[ScenarioSetting], Workplace] = _place) -> Mapping[str, Role]:
    """All that work on a region and its base table."""
    return {
        "writer": client(place, words=indexed.WORDS, first=("open",)),
        "reader": client(place, {"read": None}, words=indexed.WORDS),
        "merger": client(place, {"merge": None}, words=indexed.WORDS),
        "snapshotter": client(place, {"snapshot": None}, words=indexed.WORDS),
        "indexer": client(place, {"index": indexed.BY_VALUE}, words=indexed.WORDS),
    }


def oracles(setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    here = _place(setting)
    return (
        verdicts.reads_agree,
        survives(here, verdicts.judge),
        *indexed.index_oracles(here),
        *ground.stored_invariants(),
    )


WORKLOAD = Workload(
    name="merging",
    title="a region and its indexed base table: writers, mergers, index and snapshot builders, and readers",
    roles=roles(),
    contents=lambda setting: indexed.table(setting.revision, indexed.BY_VALUE),
    ghosts=indexed.BEGUN,
    before=(Actor(name="writer-0", role="writer", arguments={"script": [{"put": ["a"]}, {"flush": None}]}),),
    oracles=oracles,
)
