"""A search leaves out the MemTable that takes writes."""

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import Generation
from memwal.read.sources import MemoryView
from memwal_sim.bugs import Bug


def _above(manifest: RegionManifest | None, held: MemoryView | None, *, live: bool) -> tuple[Generation, ...]:
    """In place of the generations in memory: those above the current one."""
    current = manifest.generation_current if manifest is not None and live else Generation(0)
    return tuple(generation for generation, _ in held.tables if generation > current) if held is not None else ()


BUG = Bug(
    name="newest_memory_left_out",
    clause="CATCHUP-011",
    what="The plan of a search leaves out the rows in memory whose generation is the current one.",
    why=(
        "Whether the current generation is the last one that was flushed or the next one is a matter of one, and only "
        "rows that are not flushed yet tell."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-001",
    unseen=(
        "run, and not seen: the engine's searches take what is in memory from the writers that the message names, not "
        "from the replaced function"
    ),
    replaced={"memwal.read.gap:_memory": _above},
)
