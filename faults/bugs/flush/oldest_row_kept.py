"""A flush hides the newer rows of a key behind its deletion file."""

import numpy as np
import pyarrow as pa
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.table.fragments import write_deletions
from memwal_sim.bugs import Bug


async def _hide_newer(
    io: Io, fragments: list[table_pb2.DataFragment], rows: pa.Table, key: tuple[str, ...]
) -> list[table_pb2.DataFragment]:
    """In place of hiding all but the newest row of each key; a generation of these scenarios is one fragment."""
    values = [tuple(row.values()) for row in rows.select(list(key)).to_pylist()]
    newer = np.array([at for at, value in enumerate(values) if value in values[:at]], dtype=np.uint32)
    if not len(newer):
        return fragments
    return [await write_deletions(io, fragments[0], newer, read_version=1)]


BUG = Bug(
    name="oldest_row_kept",
    clause="READ-005",
    what="The deletion file of a generation hides all but the oldest row of each key.",
    why="Readers that rely on the deletion file return a value that was overwritten before the flush.",
    scenario="one_writer_duplicates",
    oracle="a flush keeps all rows",
    violated="FLUSH-004",
    revision="R",
    replaced={"memwal.region.flush:_mask_older": _hide_newer},
)
