"""A MemTable is sealed while rows of it are on their way to the WAL."""

from memwal.ids import Generation
from memwal.region.limits import Trigger
from memwal.region.writer import RegionWriter
from memwal_sim.bugs import Bug


async def _at_once(writer: RegionWriter, *, trigger: Trigger | None = None) -> Generation | None:  # noqa: ARG001
    """In place of waiting for the entry that is under way."""
    return await writer._seal(None)


BUG = Bug(
    name="sealed_under_a_put",
    clause="WAL-018",
    what="A freeze does not wait for a WAL flush that is under way, and seals a MemTable whose rows it is storing.",
    why=(
        "The rows belong to the sealed generation, and their entry is marked as one of the next. The replay pointer of "
        "the flush does not cover it."
    ),
    scenario="frozen_putters",
    oracle="no process breaks",
    violated="ENGINE",
    unseen="shows only in one order of the coroutines of two calls of a writer, which no case at the gate has made",
    replaced={"memwal.region.writer:RegionWriter.freeze": _at_once},
)
