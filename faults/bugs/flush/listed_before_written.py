"""A generation is listed before its files are written."""

from memwal.codec.region_manifest import FlushedGeneration
from memwal.ids import Epoch, WalPosition
from memwal.region import flush
from memwal.region.commit import commit_flush
from memwal.region.memtable import MemTable
from memwal.region.region import Region
from memwal_sim.bugs import Bug

_write = flush.write_generation


async def _list_first(region: Region, epoch: Epoch, sealed: MemTable, start: WalPosition) -> FlushedGeneration:
    """In place of writing the files before anything names them."""
    folder = f"{await region.io.random_hex(8)}_gen_{sealed.generation}"
    listed = FlushedGeneration(generation=sealed.generation, path=folder)
    assert sealed.position_covered is not None
    await commit_flush(region, epoch, start, listed, sealed.position_covered)
    written = await _write(region, epoch, sealed, start)
    for name in await region.io.list(written.path):
        await region.io.copy(name, name.replace(written.path, folder))
    return listed


BUG = Bug(
    name="listed_before_written",
    clause="FLUSH-013",
    what="A flush commits the manifest entry first and writes the generation's table afterwards.",
    why=(
        "A crash between the two leaves a listed generation that cannot be opened, with the replay pointer past "
        "its rows."
    ),
    scenario="one_writer",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={"memwal.region.flush:write_generation": _list_first},
)
