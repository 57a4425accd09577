"""The background ends while a put counts on it."""

from memwal.ids import Milliseconds
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _ends_slowly(writer: RegionWriter) -> None:
    """In place of ending in the step that finds nothing to do."""
    while not writer.stopped and not writer.closing and await writer._do_next():
        pass
    await writer.region.io.sleep(Milliseconds(1))
    writer.tending = False


BUG = Bug(
    name="lost_wake_up",
    clause="AMB-41",
    what="The background finds nothing to do, and is taken for being under way until it has ended.",
    why=(
        "A put that fills a MemTable in between does not begin it anew. That MemTable is not flushed, and the puts "
        "that wait for room wait for ever."
    ),
    scenario="crowded_putters",
    oracle="no process breaks",
    violated="ENGINE",
    unseen="shows only in one order of the coroutines of two calls of a writer, which no case at the gate has made",
    replaced={"memwal.region.writer:RegionWriter._tend": _ends_slowly},
)
