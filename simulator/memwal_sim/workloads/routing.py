"""Region specs and routing: processes that change the spec, and writers that follow the one that they know."""

from __future__ import annotations

from ..histories.history import History
from ..histories.notes import observe_condensed
from ..scenarios import one_region, sharded
from ..scenarios.scenario import ScenarioSetting
from ..store import Contents
from ..world import Oracle
from .clients import client
from .workload import Workload


def _contents(setting: ScenarioSetting) -> Contents:
    return sharded.table(setting.revision, sharded.spec(1))


def oracles(setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    return one_region.world(setting, _contents(setting)).oracles


WORKLOAD = Workload(
    name="routing",
    title="changes of region specs, and writers that follow the spec that they know",
    roles={
        "writer": client(sharded.place, words=sharded.WORDS),
        "administrator": client(sharded.place, words=sharded.WORDS),
        "drainer": client(sharded.place, {"drain": None}, words=sharded.WORDS),
        "snapshotter": client(sharded.place, {"snapshot": None}, words=sharded.WORDS),
        "reader": client(sharded.place, {"read": None}, words=sharded.WORDS),
    },
    contents=_contents,
    ghosts=History(),
    observe=observe_condensed,
    oracles=oracles,
)
