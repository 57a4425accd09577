"""Deletion files: bytes <-> sorted row offsets of one fragment.

Two flavours: an Arrow IPC file with one column ``row_id`` of unsigned 32-bit offsets, and a portable Roaring bitmap.
The texts want Arrow for sets that are small or sparse, and bitmaps for those that are large and dense. The measure of
density here is the size itself: of a set that is not small, the shorter of both files is written. An Arrow file costs
4 bytes per row wherever the row lies; a bitmap costs 2 bytes or much less where rows lie close together, and up to 10
for a row that has 65,536 rows of the fragment to itself.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from ..clauses import implements
from ..errors import ArtifactError
from ..words import counted
from . import ipc
from .pb.lance import table_pb2

Offsets = npt.NDArray[np.uint32]
"""Sorted, distinct row offsets, shape (n,)."""

ARROW = table_pb2.DeletionFile.ARROW_ARRAY
BITMAP = table_pb2.DeletionFile.BITMAP
BITMAP_FROM_ROWS = 1024
"""From this number of deleted rows on, a bitmap may be written: fewer are at most 4 KiB of offsets, one small read."""

EXTENSIONS = {ARROW: "arrow", BITMAP: "bin"}
_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def name(fragment: table_pb2.DataFragment) -> str:
    """File name of the fragment's deletion file (FORMAT-036)."""
    file = fragment.deletion_file
    return f"{fragment.id}-{file.read_version}-{file.id}.{EXTENSIONS[file.file_type]}"


@implements("FORMAT-037", "FORMAT-038", "FORMAT-039")
def encode(offsets: Offsets) -> tuple[int, bytes]:
    """File type (`ARROW` or `BITMAP`) and bytes for ``offsets``."""
    flat = _flat(offsets)
    if len(offsets) < BITMAP_FROM_ROWS:
        return ARROW, flat
    bitmap = pyroaring.BitMap(offsets)
    bitmap.run_optimize()
    packed: bytes = bitmap.serialize()
    return (BITMAP, packed) if len(packed) < len(flat) else (ARROW, flat)


def _flat(offsets: Offsets) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(pa.record_batch([pa.array(offsets, pa.uint32())], schema=_SCHEMA))
    return sink.getvalue()


@implements("AMB-144")
def decode(data: bytes, file_type: int, rows: int, path: str) -> Offsets:
    """Offsets in a deletion file of a fragment with ``rows`` physical rows; raises `ArtifactError`."""
    try:
        if file_type == BITMAP:
            bitmap = pyroaring.BitMap.deserialize(data)
            if len(bitmap) > rows:
                reason = f"names {counted(len(bitmap), 'row')} of a fragment that has {rows}"
                raise ArtifactError("AMB-144", path, reason)
            offsets = np.asarray(bitmap.to_array(), dtype=np.uint32)
        else:
            ipc.check_all(data, path, "FORMAT-006")
            with pa.ipc.open_file(data) as reader:
                column = reader.read_all().column(0)
            if not pa.types.is_integer(column.type) or column.null_count:
                reason = f"a column of {column.type} with {column.null_count} NULLs, not of row offsets"
                raise ArtifactError("FORMAT-037", path, reason)
            offsets = np.unique(column.combine_chunks().to_numpy(zero_copy_only=False))
    except (ValueError, pa.ArrowException, OSError, IndexError) as error:
        raise ArtifactError("FORMAT-006", path, f"it is not a readable deletion file: {error}") from error
    for offset in offsets[[0, -1]] if len(offsets) else ():
        if not 0 <= offset < rows:
            raise ArtifactError("FORMAT-035", path, f"deletes row {offset} of a fragment with {counted(rows, 'row')}")
    return offsets.astype(np.uint32, copy=False)
