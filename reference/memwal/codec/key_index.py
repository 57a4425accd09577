"""The key index of a generation in revision R: two Lance files that map key values to row offsets.

``page_data.lance`` holds all keys in order with their row offsets; ``page_lookup.lance`` the bounds of each page of
`PAGE_ROWS` keys. A composite key is one binary value whose byte order is the key's order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from . import canonical, data_file

PAGE_ROWS = 8192
PAGE_DATA = "_pk_index/page_data.lance"
PAGE_LOOKUP = "_pk_index/page_lookup.lance"

_LOOKUP_METADATA = {"batch_size": str(PAGE_ROWS), "range_partitioned": "false"}


def encode(keys: pa.Table) -> dict[str, bytes]:
    """Names and bytes of the two files for ``keys``: the key columns, in row order, without NULLs."""
    values = keys.column(0).combine_chunks() if keys.num_columns == 1 else composite(keys)
    order, ordered = _sorted(values)
    data = pa.table(
        [ordered, order.cast(pa.uint64())],
        schema=pa.schema([pa.field("values", values.type), pa.field("ids", pa.uint64(), nullable=False)]),
    )
    starts = np.arange(0, len(ordered), PAGE_ROWS)
    ends = np.minimum(starts + PAGE_ROWS, len(ordered)) - 1
    pages = len(starts)
    lookup = pa.table(
        [
            ordered.take(pa.array(starts)),
            ordered.take(pa.array(ends)),
            pa.array(np.zeros(pages), pa.uint32()),
            pa.array(np.arange(pages), pa.uint32()),
        ],
        schema=pa.schema(
            [
                pa.field("min", values.type),
                pa.field("max", values.type),
                pa.field("null_count", pa.uint32(), nullable=False),
                pa.field("page_idx", pa.uint32(), nullable=False),
            ],
            metadata=_LOOKUP_METADATA,
        ),
    )
    return {PAGE_DATA: data_file.encode(data), PAGE_LOOKUP: data_file.encode(lookup)}


def _sorted(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Row offsets in the order of the values, equal ones in row order, and the values in that order."""
    if len(values) and pa.types.is_signed_integer(values.type):
        numbers = values.to_numpy().astype(np.int64, copy=False)
        order, ordered = canonical.ordered(numbers, *canonical.span_of(numbers))
        return pa.array(order), pa.array(ordered).cast(values.type)
    found = pc.sort_indices(values, sort_keys=[("", "ascending")])
    return found, values.take(found)


def composite(keys: pa.Table) -> pa.Array:
    """Composite keys as binary values in key order: per column ``01`` and order-preserving bytes.

    Integers of any width are 8 bytes, big-endian, signed ones with the sign flipped; text and binary have ``00``
    written as ``00 ff`` and end with ``00 00``.
    Raises `InvalidArgument` for a key column of a type whose bytes are not known.
    """
    columns = [_ordered_bytes(keys.column(i).combine_chunks(), keys.schema.names[i]) for i in range(keys.num_columns)]
    return pa.array([b"".join(parts) for parts in zip(*columns, strict=True)], pa.binary())


def _terminated(value: bytes) -> bytes:
    return b"\x01" + value.replace(b"\0", b"\0\xff") + b"\0\0"


def _ordered_bytes(column: pa.Array, name: str) -> list[bytes]:
    arrow = column.type
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return [_terminated(value.encode()) for value in column.to_pylist()]
    fixed = pa.types.is_fixed_size_binary(arrow) and not pa.types.is_decimal(arrow)
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or fixed:
        return [_terminated(value) for value in column.to_pylist()]
    if pa.types.is_boolean(arrow):
        return [b"\x01\x01" if value else b"\x01\x00" for value in column.to_pylist()]
    if pa.types.is_temporal(arrow):
        column = column.cast(pa.int32() if arrow.bit_width == 32 else pa.int64())
    if pa.types.is_integer(column.type):
        flip = 1 << 63 if pa.types.is_signed_integer(column.type) else 0
        return [b"\x01" + (value + flip).to_bytes(8, "big") for value in column.to_pylist()]
    raise InvalidArgument(f"key column {name!r} of type {arrow} has no known byte order in revision R")


def check(schema: pa.Schema, key: Sequence[str]) -> None:
    """Raise `InvalidArgument` for a composite key that cannot be encoded; better now than at the first flush."""
    if len(key) > 1:
        composite(pa.schema([schema.field(name) for name in key]).empty_table())
