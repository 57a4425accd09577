"""A split reads the WAL to the end that it finds, and not to that of its cut."""

from typing import Any

from memwal.read import tail
from memwal.read.tail import Tail
from memwal_sim.bugs import Bug

_wal_tail = tail.wal_tail


async def _to_the_end(*arguments: Any) -> Tail | None:
    """In place of stopping where the WAL ended when the read was planned."""
    return await _wal_tail(*arguments[:4])


BUG = Bug(
    name="split_reads_past_its_cut",
    clause="READ-008",
    what="A read is planned once and done in parts, and each part reads the WAL of its regions to its end by then.",
    why=(
        "The parts are of different moments. One misses a row of its region, and another one has a row of its own that "
        "was written after that."
    ),
    scenario="read_in_splits",
    oracle="reads are explained",
    violated="READ-008",
    unseen="no message of the protocol plans a read and does its parts later",
    replaced={"memwal.read.tail:wal_tail": _to_the_end},
)
