"""Region values as values: when two of them are one region, and their bytes in revision R."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import stored_numbers, unscaled
from ..errors import InvalidArgument

RegionKey = tuple[tuple[str, object], ...]

_NAN = ("NaN",)


@implements("REGION-006", "AMB-57", "AMB-64")
def values_key(row: Mapping[str, object]) -> RegionKey:
    """A hashable form of region values by field id: equal exactly if the values name one region.

    NULL equals NULL, all NaN are equal, and so are both zeros; the order of ``row`` does not matter.
    """
    return tuple((name, _normal(row[name])) for name in sorted(row))


def _normal(value: object) -> object:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    return value


def encode_scalar_r(value: pa.Scalar) -> bytes:
    """Bytes of a region value in a shard field entry: little-endian, in the width of its type.

    Booleans are one byte, text is UTF-8, binary is as it is, decimals have their Arrow width. Raises `InvalidArgument`
    for NULL, which revision R has no bytes for, and for nested types.
    """
    if not value.is_valid:
        raise InvalidArgument("revision R has no bytes for a NULL region value", clause="AMB-57")
    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(value.as_py()).encode()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return bytes(value.as_py())
    array = pa.array([value.as_py()], kind) if pa.types.is_decimal(kind) else pa.repeat(value, 1)
    if pa.types.is_decimal(kind):
        (number,) = unscaled(array)
        assert number is not None
        return number.to_bytes(kind.byte_width, "little", signed=True)
    numbers = stored_numbers(array)
    if numbers is None:
        raise InvalidArgument(f"a region value of type {kind} has no bytes in revision R", clause="REGION-016")
    return numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()


def decode_scalar_r(data: bytes, kind: pa.DataType) -> pa.Scalar:
    """Inverse of `encode_scalar_r`. Raises ValueError for bytes that are no value of ``kind``."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.scalar(data.decode(), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(data, kind)
    width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
    if len(data) != width:
        raise ValueError(f"{len(data)} bytes are no {kind}")
    if pa.types.is_boolean(kind):
        return pa.scalar(data != b"\0")
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(data)])[0]
