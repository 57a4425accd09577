"""A flushed generation lacks the last write of its MemTable."""

from memwal.table.fragments import write_fragments
from memwal_sim.bugs import Bug


async def _all_but_one(io, rows, ids, *more):  # type: ignore[no-untyped-def]
    """In place of writing every row."""
    return await write_fragments(io, rows.slice(0, max(1, rows.num_rows - 1)) if io.root else rows, ids, *more)


def _unasserted(*_: object) -> None:
    """In place of comparing the rows of the files with those of the MemTable, which an engine need not do."""


BUG = Bug(
    name="last_write_left_out",
    clause="FLUSH-004",
    what=("The table that a flush writes lacks the last row of the MemTable, while the replay pointer covers it."),
    why=(
        "The row is acknowledged, is in the WAL below the replay pointer, and in no generation: it is gone as "
        "soon as the writer's memory is."
    ),
    scenario="one_writer_twice",
    oracle="a flush keeps all rows",
    violated="FLUSH-004",
    replaced={
        "memwal.region.flush:write_fragments": _all_but_one,
        "memwal.region.flush:_check_whole": _unasserted,
    },
)
