"""Worlds in which clients write and read one region, and what must hold in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..histories.history import History
from ..histories.notes import HEARD, observe_condensed
from ..oracles import after_crash
from ..process import Process
from ..store import Contents
from ..world import Oracle, World, says
from . import ground
from .actors import Workplace
from .scenario import ScenarioSetting
from .scripts import process
from .survivor import survives
from .writes import reads_are_explained

COLLECTED = {"wal_collection": "on", "manifest_collection": "on"}
"""Config of a table whose WAL and region manifests may be collected."""


NOBODY = History()
"""Nothing was written yet."""
FINISH = "everything can finish"
"""Name of the oracle for liveness."""


def place(setting: ScenarioSetting, *, collected: bool = False) -> Workplace:
    """The one region, and the table around it; ``collected``: as `COLLECTED` says."""
    return Workplace(region=ground.region(setting, wal_collection=collected, manifest_collection=collected))


def world(
    setting: ScenarioSetting,
    *processes: Process,
    before: Sequence[Process] = (),
    config: dict[str, str] | None = None,
    contents: Contents | None = None,
    oracles: Sequence[Oracle] = (),
    settled: bool = False,
) -> World:
    """``processes`` on an empty table, after those of ``before`` ran alone, one after another.

    ``contents``: another table to begin with. ``oracles``: more than those that judge every such world: survival of
    acknowledged writes through recovery, flush and merge, reads, and the invariants of what is stored. ``settled``:
    what is written ``before`` is in the snapshot of the first version that others see: eventual reads find it.
    """
    begun = ground.table(setting.revision, **(config or {})) if contents is None else contents
    begun, ghosts = after_all(begun, before)
    if settled:
        ghosts = replace(ghosts, settled=frozenset(write.name for write in ghosts.acknowledged))
    where = place(setting, collected=config == COLLECTED)
    return World(
        contents=begun,
        processes=processes,
        ghosts=ghosts,
        observe=observe_condensed,
        heard=HEARD,
        oracles=(survives(where), reads_are_explained, *oracles, *ground.stored_invariants()),
        liveness=(everything_can_finish(where),),
    )


def after_all(contents: Contents, before: Sequence[Process], ghosts: History = NOBODY) -> tuple[Contents, History]:
    """Contents and ghosts after each of ``before`` ran alone on ``contents``, one after another.

    ``ghosts``: of what was written to ``contents`` before.
    """
    for process_ in before:
        alone = ground.after(contents, process_)
        contents = alone.contents
        for note in alone.notes:
            ghosts = observe_condensed(ghosts, process_.name, note)
    return contents, ghosts


def everything_can_finish(here: Workplace) -> Oracle:
    """The oracle that every kind of work still ends, done by one process without faults (AMB-138)."""
    steps = ("open", {"rows": {"live": "1"}}, "flush", "snapshot", "merge", "collect", "read")
    finisher = process(here, "finisher", *steps)
    return after_crash(finisher, says(FINISH)(lambda _found, _ghosts: None), clause="AMB-138", name=FINISH)
