"""A flush leaves the marks of finished tasks behind in the WAL."""

from dataclasses import replace

from memwal.codec.region_manifest import FlushedGeneration
from memwal.ids import Epoch, WalPosition
from memwal.region import flush
from memwal.region.memtable import MemTable
from memwal.region.region import Region
from memwal_sim.bugs import Bug

_write_generation = flush.write_generation


async def _without_marks(region: Region, epoch: Epoch, sealed: MemTable, start: WalPosition) -> FlushedGeneration:
    """In place of a generation whose config has them."""
    return await _write_generation(region, epoch, replace(sealed, done=()), start)


BUG = Bug(
    name="mark_not_flushed",
    clause="AMB-149",
    what="A flush writes the rows of a finished task into a generation, and not the mark that it is finished.",
    why=(
        "The replay pointer covers the entry with the mark from then on, so that it is not read again: an attempt "
        "that comes late puts the rows of the task once more."
    ),
    scenario="late_task",
    oracle="a finished task puts nothing",
    violated="AMB-149",
    replaced={"memwal.region.flush:write_generation": _without_marks},
)
