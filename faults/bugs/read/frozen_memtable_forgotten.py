"""Sealed MemTables are not read."""

from memwal.read.sources import MemoryView
from memwal.region.writer import Writer
from memwal_sim.bugs import Bug


def _active_only(writer: Writer) -> MemoryView:
    """In place of all MemTables that are not flushed."""
    table = writer.memtable
    return MemoryView(writer.region.region_id, writer.epoch, ((table.generation, table.table()),))


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
    replaced={"memwal_sim.scenarios.actors:memory_of": _active_only},
)
