"""Memory is served without the epoch of its writer."""

from dataclasses import replace

from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.ids import UINT64_MAX, Epoch, RegionId
from memwal.read import collection
from memwal.read.memtable_part import MemTablePart
from memwal.read.sources import MemoryView
from memwal.read.view import View
from memwal.region.rows import Rows
from memwal_sim.bugs import Bug

_held = collection._held


def _of_anybody(
    io: Io, view: View, region: RegionId, manifest: RegionManifest | None, memory: MemoryView | None, shape: Rows
) -> list[MemTablePart]:
    """In place of comparing the epoch under which the rows were written with the manifest's."""
    unfenced = None if memory is None else replace(memory, epoch=Epoch(UINT64_MAX))
    return _held(io, view, region, manifest, unfenced, shape)


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
    replaced={"memwal.read.collection:_held": _of_anybody},
)
