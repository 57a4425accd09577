"""Writers that compare their rows with what is stored (AMB-148), for scenarios: a row's value is its sequence too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memwal.ids import SpecId
from memwal.index.snapshot import RegionRow
from memwal.jobs.opening import open_region
from memwal.region.sequences import SequenceBy
from memwal.table.state import latest
from memwal.violations import Violation

from ..histories.history import History
from ..histories.notes import HEARD, observe_condensed
from ..process import Process
from ..world import World, says
from . import ground
from .actors import Acting
from .clients import COLLECTED, after_all, everything_can_finish, place
from .ground import VALUE
from .scenario import ScenarioSetting
from .scripts import WORDS as OF_ONE_REGION
from .scripts import Words
from .survivor import survives
from .writes import SURVIVE


async def opened(acting: Acting) -> None:
    """Open the region as `memwal.Table.writer` does, with the value as sequence column."""
    io = acting.place.table
    row = RegionRow(region_id=acting.place.region.region_id, spec_id=SpecId(0), values=(), manifest=None)
    sequence = SequenceBy(column=VALUE)
    acting.writer, _ = await open_region(io, await latest(io), row, registered=False, sequence=sequence)


WORDS: Words = {**OF_ONE_REGION, "open": lambda _: opened}
"""What a client may do; each that puts opens the region first."""


def world(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
    """``processes`` on an empty table whose WAL may be collected, after those of ``before`` ran alone."""
    begun, ghosts = after_all(ground.table(setting.revision, **COLLECTED), before)
    where = place(setting, collected=True)
    return World(
        contents=begun,
        processes=tuple(processes),
        ghosts=ghosts,
        observe=observe_condensed,
        heard=HEARD,
        oracles=(survives(where, explained=highest), *ground.stored_invariants()),
        liveness=(everything_can_finish(where),),
    )


@says(SURVIVE)
def highest(rows: Mapping[str, str], history: History) -> Violation | None:
    """Each key holds what somebody put, and nothing that is lower than what anybody was told to be stored."""
    for write in history.acknowledged:
        for key, value in write.rows:
            found = rows.get(key)
            if value is not None and (found is None or found < value):
                reason = f"write {write.name} put {key}={value} and was acknowledged, and {key} holds {found}"
                shown = (("acknowledged", ", ".join(each.name for each in history.acknowledged)),)
                return Violation("AMB-148", SURVIVE, reason, shown)
    put = {row for write in history.writes for row in write.rows}
    for row in sorted(rows.items()):
        if row not in put:
            return Violation("AMB-22", SURVIVE, f"{row[0]}={row[1]} is there, and nobody put it", ())
    return None
