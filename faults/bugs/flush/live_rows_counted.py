"""A flush lists as many rows of a generation as readers see of it."""

from dataclasses import replace

from memwal.codec.region_manifest import FlushedGeneration
from memwal.ids import Epoch, WalPosition
from memwal.region import flush
from memwal.region.memtable import MemTable
from memwal.region.region import Region
from memwal_sim.bugs import Bug

_write_generation = flush.write_generation


async def _counting_live_rows(region: Region, epoch: Epoch, sealed: MemTable, start: WalPosition) -> FlushedGeneration:
    """In place of counting what is stored."""
    listed = await _write_generation(region, epoch, sealed, start)
    rows = sealed.table().select(list(region.rows.key))
    return replace(listed, physical_rows=len(rows.group_by(rows.column_names).aggregate([])))


BUG = Bug(
    name="live_rows_counted",
    clause="FORMAT-017",
    what="The region manifest counts the rows of a generation without those that newer ones of it hide (R).",
    why=(
        "The member is called physical_rows, and hidden rows are stored, too. Readers do not look at it; who plans "
        "merges by it takes generations of many updates for small."
    ),
    scenario="one_writer_duplicates",
    oracle="listed_row_counts_are_right",
    violated="FORMAT-017",
    unseen="only R counts rows of generations, and no structural check compares the count",
    revision="R",
    replaced={"memwal.region.flush:write_generation": _counting_live_rows},
)
