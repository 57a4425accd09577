"""Sealed MemTables are not read."""

from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.ids import RegionId
from memwal.read import collection
from memwal.read.memtable_part import MemTablePart
from memwal.read.sources import MemoryView
from memwal.read.view import View
from memwal.region.rows import Rows
from memwal_sim.bugs import Bug

_held = collection._held


def _active_only(
    io: Io, view: View, region: RegionId, manifest: RegionManifest | None, memory: MemoryView | None, shape: Rows
) -> list[MemTablePart]:
    """In place of all MemTables that are not flushed."""
    return _held(io, view, region, manifest, memory, shape)[-1:]


BUG = Bug(
    name="frozen_memtable_forgotten",
    clause="AMB-117",
    what="A reader in the writer's process looks into the active MemTable only.",
    why=(
        "Rows of a MemTable that is sealed and not flushed yet are in no generation: a read misses them although "
        "they were acknowledged."
    ),
    scenario="sealed_memory",
    oracle="reads are explained",
    violated="READ-008",
    replaced={"memwal.read.collection:_held": _active_only},
)
