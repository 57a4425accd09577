"""Merge progress is committed before the rows."""

from dataclasses import replace
from typing import Any

from memwal.codec.index_details import IndexDetails, Progress
from memwal.effects import Io
from memwal.index import mem_wal
from memwal.table import upsert as upserts
from memwal.table.state import TableState, latest
from memwal.table.upsert import Work
from memwal_sim.bugs import Bug

_upsert = upserts.upsert


async def _in_two_steps(io: Io, _state: TableState, work: Work, *, progress: Progress = (), **_: Any) -> TableState:
    """In place of one commit of both."""

    async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
        return replace(details, merged=tuple({**dict(details.merged), **dict(progress)}.items()))

    await mem_wal.change(io, derive)
    return await _upsert(io, await latest(io), work)


BUG = Bug(
    name="progress_first",
    clause="MERGE-006",
    what="A merger commits the progress in a version of its own, and then the rows.",
    why=(
        "After a crash between the two commits the generation counts as merged, and its rows are in no place that "
        "is read. The progress belongs into the commit of the rows."
    ),
    scenario="two_mergers",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.table.upsert:upsert": _in_two_steps},
)
