"""Canonical bytes of a column's values: equal values of different width have equal bytes.

Integers, dates, times and booleans become 64-bit two's complement, timestamps first become microseconds (UTC), floats
become binary64 with one zero and one NaN; text is UTF-8, binary is as it is, a decimal is the shortest big-endian two's
complement of its unscaled value (AMB-59). The textbook hash profile and the key bloom filter are built on these bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..errors import InvalidArgument

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NANOSECONDS_PER_MICROSECOND = 1_000


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """``column`` as one array: dictionaries decoded, text and binary of any layout in their large layouts."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.large_binary())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def valid(array: pa.Array) -> Mask:
    """Shape (rows,): False where ``array`` is NULL."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    found: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return found


_BITS = 63
"""Of a number that is sorted, without its sign."""


def stored_numbers(array: pa.Array) -> npt.NDArray[Any] | None:
    """The numbers that a fixed-width array stores, in their own width, 0 under NULL; None for any other type.

    Booleans are uint8; temporal values are the integers behind them; floats are as they are. Shape (rows,).
    """
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    if array.null_count:
        array = array.fill_null(pa.scalar(0, pa.int64()).cast(array.type))
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def span_of(numbers: npt.NDArray[Any]) -> tuple[int, int]:
    """The least of some integers, and how many there are from it up to the largest."""
    low, high = int(numbers.min()), int(numbers.max())
    return low, high - low + 1


def ordered(numbers: npt.NDArray[np.int64], low: int, span: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions in the order of the numbers, equal ones in row order, and the numbers in that order.

    A stable sort of positions takes several times as long as one of numbers; where number and position fit into one,
    that is sorted; numbers that ascend are left as they are. ``low``, ``span``: as `span_of` has found them.
    """
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers)), numbers
    bits = len(numbers).bit_length()
    if span.bit_length() + bits > _BITS:
        order = np.argsort(numbers, kind="stable")
        return order, numbers[order]
    packed = (numbers - low) << bits | np.arange(len(numbers))
    packed.sort()
    return packed & ((1 << bits) - 1), (packed >> bits) + low


def one_zero(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of ``floats`` with -0.0 as 0.0; every other bit pattern, NaN included, stays."""
    changed = floats.copy()
    changed[np.abs(floats) == 0] = 0
    return changed


@implements("AMB-59", "AMB-64", "REGION-021")
def words(array: pa.Array) -> npt.NDArray[np.int64] | None:
    """The canonical 64-bit form of a fixed-width array, 0 under NULL; None for text, binary and decimals.

    ``array`` is `flat`. The bytes of a value are the 8 little-endian bytes of its word; a float's word is the bit
    pattern of its binary64. Shape (rows,).
    """
    numbers = stored_numbers(array)
    if numbers is None:
        return None
    if numbers.dtype.kind == "f":
        # NaN payloads differ between producers, so one bit pattern stands for all.
        floats = one_zero(numbers)
        floats[np.isnan(floats)] = np.nan
        return floats.astype(np.float64).view(np.int64)
    if pa.types.is_timestamp(array.type):
        if array.type.unit == "ns":
            numbers = np.floor_divide(numbers, _NANOSECONDS_PER_MICROSECOND)
        else:
            numbers = numbers * np.int64(_MICROSECONDS[array.type.unit])
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64)


@implements("AMB-59")
def variable_bytes(array: pa.Array) -> pa.LargeBinaryArray | None:
    """The canonical bytes of text, binary and decimals, NULL where NULL; None for fixed-width types.

    ``array`` is `flat`.
    """
    kind = array.type
    if pa.types.is_large_string(kind):
        return array.cast(pa.large_binary())
    if pa.types.is_large_binary(kind):
        return array
    if pa.types.is_decimal(kind):
        return pa.array([None if u is None else shortest_bytes(u) for u in unscaled(array)], pa.large_binary())
    return None


def canonical_bytes(column: pa.Array | pa.ChunkedArray, name: str = "") -> pa.LargeBinaryArray:
    """Canonical bytes of each value, NULL where NULL.

    Raises `InvalidArgument` (AMB-59) for a type that has none: nested types, durations and intervals. ``name`` is
    only for that message.
    """
    array = flat(column)
    fixed = words(array)
    if fixed is not None:
        return from_matrix(fixed.astype("<i8").view(np.uint8).reshape(len(array), 8), valid(array))
    found = variable_bytes(array)
    if found is None:
        label = f"column {name!r}" if name else "a column"
        raise InvalidArgument(f"{label} of type {column.type} has no canonical bytes", clause="AMB-59")
    return found


def unscaled(array: pa.Array) -> list[int | None]:
    """Unscaled values of a decimal array of any width."""
    width = array.type.byte_width
    data = array.buffers()[1]
    if data is None:
        return [None] * len(array)
    raw = data.to_pybytes()[array.offset * width : (array.offset + len(array)) * width]
    present = valid(array).tolist()
    return [
        int.from_bytes(raw[at * width : (at + 1) * width], "little", signed=True) if there else None
        for at, there in enumerate(present)
    ]


def shortest_bytes(number: int) -> bytes:
    """The shortest big-endian two's complement of ``number``; one byte for 0."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def from_matrix(matrix: npt.NDArray[np.uint8], present: Mask | None = None) -> pa.LargeBinaryArray:
    """Rows of a byte matrix of shape (rows, width) as binary values, NULL where ``present`` is False."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    validity, nulls = None, 0
    if present is not None and not present.all():
        validity = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
        nulls = int(rows - np.count_nonzero(present))
    data = np.ascontiguousarray(matrix)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), rows, buffers, nulls)


@dataclass(frozen=True, slots=True)
class SameLength:
    """The values of one length in a binary array."""

    positions: Positions
    """Rows of the array, ascending. Shape (rows,)."""
    data: npt.NDArray[np.uint8]
    """Their bytes, C-contiguous. Shape (rows, length)."""


def by_length(array: pa.LargeBinaryArray) -> Iterator[SameLength]:
    """The values of ``array`` grouped by length; NULL counts as a value of length 0."""
    if not len(array):
        return
    if array.null_count:
        array = array.fill_null(b"")
    offsets, data_buffer = _offsets(array), array.buffers()[2]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order])) + 1
    for positions in np.split(order, bounds):
        length = int(lengths[positions[0]])
        if len(positions) == len(array):
            matrix = data[offsets[0] : offsets[-1]].reshape(len(array), length)
        else:
            matrix = data[offsets[positions][:, None] + np.arange(length)]
        yield SameLength(positions, np.ascontiguousarray(matrix))


@dataclass(frozen=True, slots=True)
class Words:
    """One word of each of some values of a binary array, and how many bytes of the value are from there on."""

    rows: Positions | slice
    """Which values: all, or ascending positions."""
    words: npt.NDArray[Any]
    """Little-endian; bytes behind the end of the value are 0. Shape (rows,)."""
    left: npt.NDArray[np.int64]
    """Bytes of the value from the start of the word to its end, at least 1. Shape (rows,)."""


def lengths_of(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """How many bytes each value has. No value is NULL."""
    return np.diff(_offsets(array))


def each_word(array: pa.LargeBinaryArray, kind: np.dtype[Any]) -> Iterator[Words]:
    """The first word of each value that has one, then the second ones, and so on. No value is NULL.

    ``kind``: an unsigned little-endian number.
    """
    if not len(array):
        return
    width, offsets = kind.itemsize, _offsets(array)
    data = array.buffers()[2]
    held = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
    padded = np.concatenate([held, np.zeros(width, np.uint8)])
    # The word that begins at each byte.
    anywhere: npt.NDArray[Any] = np.ndarray(len(held) + 1, kind, padded, strides=(1,))
    kept = np.array([(1 << 8 * count) - 1 for count in range(width + 1)], kind)
    rows: Positions | slice = slice(None)
    at, left = offsets[:-1] - offsets[0], np.diff(offsets)
    while True:
        longer = left > 0
        if not longer.all():
            rows = np.flatnonzero(longer) if isinstance(rows, slice) else rows[longer]
            at, left = at[longer], left[longer]
        if not len(at):
            return
        yield Words(rows, anywhere[at] & kept[np.minimum(left, width)], left)
        at, left = at + width, left - width


def _offsets(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, 8 * array.offset)
