"""As `merging`, without an index, on a table with a history: merged generations, retained versions, a tag."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..actor import Actor
from ..scenarios import clients, ground
from ..scenarios.actors import Workplace
from ..scenarios.questions import retained_versions_are_readable
from ..scenarios.scenario import ScenarioSetting
from ..scenarios.survivor import survives
from ..world import Oracle
from . import verdicts
from .clients import client
from .workload import Role, Workload


def _place(setting: ScenarioSetting) -> Workplace:
    return clients.place(setting, collected=True)


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "writer": client(_place),
        "reader": client(_place, {"read": None}),
        "merger": client(_place, {"merge": None}),
        "snapshotter": client(_place, {"snapshot": None}),
        "collector": client(_place, {"collect": {}}),
        "version-reader": client(_place, {"read_while_retained": None}, {"read_while_retained": None}),
        "tagger": client(_place, {"tag": None}),
    }
)


def oracles(setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    here = _place(setting)
    return (
        verdicts.reads_agree,
        survives(here, verdicts.judge),
        retained_versions_are_readable(here),
        *ground.stored_invariants(),
    )


_PAST = (
    {"put": ["a"]},
    {"flush": None},
    {"snapshot": None},
    {"tag": None},
    {"merge": None},
    {"put": ["a", "b"]},
    {"flush": None},
)
"""One generation is merged, and one is not; the first is in a snapshot that a tag keeps."""

WORKLOAD = Workload(
    name="collecting",
    title="collectors beside whoever needs something, on a table with a history",
    roles=ROLES,
    contents=lambda setting: ground.table(setting.revision, inline_regions="0", **clients.COLLECTED),
    before=(Actor(name="writer-0", role="writer", arguments={"script": list(_PAST)}),),
    oracles=oracles,
)
