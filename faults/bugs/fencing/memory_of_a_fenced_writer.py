"""Memory is served without the epoch of its writer."""

from memwal.ids import UINT64_MAX, Epoch
from memwal.read.sources import MemoryView
from memwal.region.writer import Writer
from memwal_sim.bugs import Bug
from memwal_sim.scenarios import actors

_memory_of = actors.memory_of


def _of_anybody(writer: Writer) -> MemoryView:
    """In place of naming the epoch under which the rows were written."""
    view = _memory_of(writer)
    return MemoryView(view.region_id, Epoch(UINT64_MAX), view.tables)


BUG = Bug(
    name="memory_of_a_fenced_writer",
    clause="AMB-140",
    what=("A reader merges the memory of a writer without comparing the writer's epoch with the newest manifest's."),
    why=(
        "Another writer has claimed the region and acknowledged rows. They are in neither the old writer's memory "
        "nor a generation, so that a strong read misses them."
    ),
    scenario="fenced_memory",
    oracle="reads are explained",
    violated="READ-008",
    replaced={"memwal_sim.scenarios.actors:memory_of": _of_anybody},
)
