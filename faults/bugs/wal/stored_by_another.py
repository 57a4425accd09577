"""A durable put takes the WAL entry of another one for its own."""

from memwal.coroutines import until
from memwal.region.limits import Trigger
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _waits_for_the_other(writer: RegionWriter, *, trigger: Trigger | None = None) -> None:
    """In place of storing what waits once it is this one's turn."""
    writer.check_open()
    if writer.storing.taken:
        await until(lambda: not writer.storing.taken)
        return
    async with writer.storing:
        await writer._store_waiting(trigger)


BUG = Bug(
    name="stored_by_another",
    clause="WRITER-003",
    what="A durable put that finds a WAL flush under way waits for the end of that one, and stores nothing itself.",
    why=(
        "The entry was cut before the rows of the second put came, so that it does not hold them. They are "
        "acknowledged and only in memory: a crash loses them."
    ),
    scenario="timed_putters",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    unseen="shows only in one order of the coroutines of two calls of a writer, which no case at the gate has made",
    replaced={"memwal.region.writer:RegionWriter.flush_wal": _waits_for_the_other},
)
