"""Indexes that say which values may be in each zone of some thousand rows: zone maps and bloom filters, in their files.

Source: files that pylance 14.0 writes; the filters are those of the Parquet format.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from ..codec.canonical import stored_numbers
from ..codec.pb.lance import table_pb2
from ..codec.split_block import BLOCK_BYTES, SALTS
from ..codec.xxhash64 import xxhash64
from ..effects import Io
from ..table.reuse import Addresses
from ..table.state import TableState
from ..table.stored_index import open_index_file
from .conditions import Compare
from .wanted import Mask, TooMany, fitted

_ZONES = "zonemap.lance"
_FILTERS = "bloomfilter.lance"
_PLACE = ["fragment_id", "zone_start", "zone_length"]


async def by_ends(
    io: Io, state: TableState, entry: table_pb2.IndexMetadata, leaf: Compare, most: int | None
) -> Addresses | None:
    """All rows of the zones whose least and largest value leave room for wanted ones, by a zone map."""
    zones = await _read(io, entry, _ZONES, ["min", "max", "null_count", *_PLACE])
    wanted = fitted(leaf.values, zones.schema.field("min").type) if zones is not None else None
    if zones is None or wanted is None:
        return None
    there = wanted.overlaps(*(zones.column(name).combine_chunks() for name in ("min", "max")))
    if wanted.null:
        there |= zones.column("null_count").to_numpy() > 0
    return _rows(zones, there, state, most)


async def by_filters(
    io: Io, state: TableState, entry: table_pb2.IndexMetadata, leaf: Compare, kind: pa.DataType, most: int | None
) -> Addresses | None:
    """All rows of the zones whose filter does not deny one of the wanted values of ``kind``."""
    wanted = fitted(leaf.values, kind)
    hashes = (
        [_hash(point, kind) for point in wanted.points] if wanted is not None and wanted.points is not None else None
    )
    if wanted is None or hashes is None or None in hashes:
        return None
    zones = await _read(io, entry, _FILTERS, ["has_null", "bloom_filter_data", *_PLACE])
    if zones is None:
        return None
    filters = zones.column("bloom_filter_data")
    there = np.array([any(_perhaps(data.as_py(), each) for each in hashes if each is not None) for data in filters])
    if wanted.null:
        there = there | zones.column("has_null").to_numpy()
    return _rows(zones, there.astype(np.bool_), state, most)


async def _read(io: Io, entry: table_pb2.IndexMetadata, name: str, columns: list[str]) -> pa.Table | None:
    file = await open_index_file(io, entry, name)
    return await file.read(columns) if file is not None and {*columns} <= {*file.schema.names} else None


def _rows(zones: pa.Table, there: Mask, state: TableState, most: int | None) -> Addresses:
    """All rows of the chosen zones. A zone reaches to the one behind it, and the last of a fragment to its end."""
    fragments, starts, lengths = (zones.column(name).to_numpy().astype(np.int64) for name in _PLACE)
    physical = {int(fragment.id): int(fragment.physical_rows) for fragment in state.fragments}
    order = np.lexsort((starts, fragments))
    ends = starts + lengths
    for at, behind in zip(order, [*order[1:], -1], strict=True):
        if behind >= 0 and fragments[behind] == fragments[at]:
            ends[at] = max(ends[at], starts[behind])
        else:
            ends[at] = max(ends[at], physical.get(int(fragments[at]), 0))
    chosen = np.flatnonzero(there)
    if most is not None and int((ends[chosen] - starts[chosen]).sum()) > most:
        raise TooMany
    parts = [np.uint64(int(fragments[at]) << 32) + np.arange(starts[at], ends[at], dtype=np.uint64) for at in chosen]
    return np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))


def _hash(value: object, kind: pa.DataType) -> int | None:
    """The hash of a value's bytes: numbers as they are stored, least byte first. None for another type."""
    if isinstance(value, str):
        return xxhash64(value.encode())
    if isinstance(value, bytes):
        return xxhash64(value)
    numbers = stored_numbers(pa.array([value], kind))
    return None if numbers is None else xxhash64(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())


def _perhaps(data: bytes, hashed: int) -> bool:
    blocks = len(data) // BLOCK_BYTES
    block = ((hashed >> 32) * blocks) >> 32
    words = struct.unpack_from(f"<{len(SALTS)}I", data, block * BLOCK_BYTES)
    low = hashed & 0xFFFFFFFF
    return all(word >> ((low * int(salt) & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, SALTS, strict=True))
