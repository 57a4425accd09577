"""A merge leaves the marks of finished tasks behind in the generation."""

from collections.abc import Iterable, Mapping

from memwal.codec.marks import Mark
from memwal.effects import Io
from memwal.ids import RegionId
from memwal.table.state import TableState, latest
from memwal_sim.bugs import Bug


async def _forgotten(io: Io, _marks: Mapping[RegionId, Iterable[Mark]]) -> TableState:
    """In place of recording them in the table."""
    return await latest(io)


BUG = Bug(
    name="mark_not_merged",
    clause="AMB-149",
    what="A merge moves the rows of a finished task into the base table, and not the mark that it is finished.",
    why=(
        "A generation that is merged is not looked into: an attempt that comes late finds no mark, and puts the rows "
        "of the task once more."
    ),
    scenario="late_task_after_a_flush",
    oracle="a finished task puts nothing",
    violated="AMB-149",
    replaced={"memwal.table.marks:record": _forgotten},
)
