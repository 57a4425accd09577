"""Rewriting index files from row offsets of a MemTable to row addresses of the generation flushed from it.

Which files name rows: the pages of a btree, the row sets of a bitmap index, the document list of a full-text index; its
postings refer to that list. Addresses grow with offsets, so that whatever is sorted by rows stays sorted.
Source: MemWAL revision A, "WAL Fragment Mapping Construction"; AMB-19.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from ..clauses import implements
from ..codec import data_file, index_file
from ..errors import EngineBug
from ..table.reuse import Addresses

_COUNT = struct.Struct("<I")
_FRAGMENT = struct.Struct("<II")
"""Fragment id, and bytes of the bitmap of its row offsets."""


@implements("FLUSH-007", "AMB-19")
def file(kind: str, name: str, data: bytes, addresses: Addresses) -> bytes:
    """The index file ``name`` of an index of ``kind`` with its row offsets replaced; files that name no rows stay."""
    for matches, column, moved in _COLUMNS.get(kind, ()):
        if matches(name):
            table = data_file.decode(data, name)
            at = table.schema.get_field_index(column)
            values = moved(table.column(at), addresses)
            return index_file.encode(table.set_column(at, table.schema.field(at), values))
    return data


def _row_ids(column: pa.ChunkedArray, addresses: Addresses) -> pa.Array:
    return pa.array(addresses[column.to_numpy()], pa.uint64())


def _row_sets(column: pa.ChunkedArray, addresses: Addresses) -> pa.Array:
    return pa.array([encode_rows(addresses[decode_offsets(data)]) for data in column.to_pylist()], column.type)


def decode_offsets(data: bytes) -> npt.NDArray[np.int64]:
    """Row offsets in a set of row addresses of which all are in fragment 0."""
    if _COUNT.unpack_from(data)[0] == 0:
        return np.empty(0, np.int64)
    fragment, size_bytes = _FRAGMENT.unpack_from(data, _COUNT.size)
    start = _COUNT.size + _FRAGMENT.size
    if _COUNT.unpack_from(data)[0] != 1 or fragment != 0 or start + size_bytes != len(data):
        raise EngineBug("an index over one fragment names rows of others")
    return np.asarray(pyroaring.BitMap.deserialize(data[start:]).to_array(), np.int64)


def encode_rows(addresses: Addresses) -> bytes:
    """A set of row addresses: the number of fragments, then for each its id and a bitmap of offsets, with its size."""
    fragments = (addresses >> np.uint64(32)).astype(np.uint32)
    offsets = (addresses & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    parts = []
    for fragment in np.unique(fragments):
        bitmap = pyroaring.BitMap(offsets[fragments == fragment]).serialize()
        parts.append(_FRAGMENT.pack(fragment, len(bitmap)) + bitmap)
    return _COUNT.pack(len(parts)) + b"".join(parts)


_Move = Callable[[pa.ChunkedArray, Addresses], pa.Array]
_COLUMNS: dict[str, tuple[tuple[Callable[[str], bool], str, _Move], ...]] = {
    "btree": ((lambda name: name == "page_data.lance", "ids", _row_ids),),
    "bitmap": ((lambda name: name == "bitmap_page_lookup.lance", "bitmaps", _row_sets),),
    "inverted": ((lambda name: name.endswith("_docs.lance"), "_rowid", _row_ids),),
}
"""By kind: which files have which column to be replaced, and how."""
