"""One region's life: writers that claim it, write, flush, stall and die, and readers beside them."""

from __future__ import annotations

from ..scenarios import clients, ground
from ..scenarios.scenario import ScenarioSetting
from ..scenarios.survivor import survives
from ..world import Oracle
from . import verdicts
from .clients import client
from .workload import Workload


def oracles(setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of the region at any time."""
    here = clients.place(setting)
    return (verdicts.reads_agree, survives(here, verdicts.judge), *ground.stored_invariants())


WORKLOAD = Workload(
    name="region_life",
    title="writers of one region that write, flush, stall and die, and strong readers",
    roles={"writer": client(clients.place), "reader": client(clients.place, {"read": None})},
    contents=lambda setting: ground.table(setting.revision),
    oracles=oracles,
)
