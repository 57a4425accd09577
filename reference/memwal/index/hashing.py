"""Murmur3 (x86, 32 bits) of whole columns, and buckets: which bytes are hashed is a profile.

Profile ``textbook`` (AMB-59): the canonical bytes of a value, so that a value keeps its hash when its column is
promoted. Profile ``R``: what the released native implementation hashes, that is integers of up to 32 bits, booleans,
dates and 32-bit times as 4 little-endian bytes, 64-bit values as 8, a float's own bytes with -0.0 as 0.0, and text with
each byte after the last whole word mixed as one sign-extended word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec.canonical import (
    Mask,
    by_length,
    each_word,
    flat,
    lengths_of,
    one_zero,
    stored_numbers,
    valid,
    variable_bytes,
    words,
)
from ..errors import InvalidArgument

Profile = Literal["textbook", "R"]
PROFILES: tuple[Profile, ...] = ("textbook", "R")

BUCKETS_MAX: dict[Profile, int] = {"textbook": 2**31 - 1, "R": 1024}
"""Largest number of buckets (AMB-61; R: what the native implementation accepts)."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
_Words = npt.NDArray[np.uint32]
_Hashes = npt.NDArray[np.int32]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_SIGN_BIT_OFF = 0x7FFFFFFF
_FEW_ROWS = 8
"""So few numbers are hashed one by one: the arrays of their hashing would take ten times as long."""
_SHORT_BYTES = 256
"""Longer values are hashed one by one: there are few of them in a batch, and each has many words."""


@implements("REGION-031", "REGION-035", "REGION-036", "AMB-59")
def murmur3(column: Column, profile: Profile = "textbook") -> pa.Int32Array:
    """Hash with seed 0 of each value; int32, NULL where ``column`` is NULL.

    Raises `InvalidArgument` (AMB-59) for a type whose bytes the profile does not define.
    """
    array = flat(column)
    return _masked(_hashes(array, column.type, None, profile), valid(array))


@implements("REGION-032", "REGION-037", "AMB-60")
def murmur3_multi(columns: Sequence[Column], profile: Profile = "textbook") -> pa.Int32Array:
    """Hash over several columns of equal length: the hash of each non-NULL value is the seed of the next.

    int32; NULL where all columns are NULL. Raises `InvalidArgument` as `murmur3` does, and for no columns.
    """
    if not columns:
        raise InvalidArgument("murmur3_multi needs at least one column", clause="REGION-032")
    seeds = np.zeros(len(columns[0]), np.int32)
    known = np.zeros(len(seeds), np.bool_)
    for column in columns:
        array = flat(column)
        present = valid(array)
        seeds = np.where(present, _hashes(array, column.type, seeds.view(np.uint32), profile), seeds)
        known |= present
    return _masked(seeds, known)


@implements("REGION-031", "REGION-036", "REGION-038", "AMB-57", "AMB-58", "AMB-61")
def bucket(hashes: pa.Int32Array, buckets: int, profile: Profile = "textbook") -> pa.Int32Array:
    """Bucket of each hash, int32 in [0, ``buckets``).

    ``textbook``: the absolute value, taken in 64 bits, modulo ``buckets``; NULL stays NULL. ``R``: the hash without its
    sign bit, modulo ``buckets``; NULL goes to bucket 0. Raises `InvalidArgument` for a number of buckets out of range.
    """
    if not 1 <= buckets <= BUCKETS_MAX[profile]:
        reason = f"the number of buckets is 1 to {BUCKETS_MAX[profile]}, not {buckets}"
        raise InvalidArgument(reason, clause="AMB-61")
    known = hashes.fill_null(0) if hashes.null_count else hashes
    wide = known.to_numpy(zero_copy_only=False).astype(np.int64)
    positive = np.abs(wide) if profile == "textbook" else wide & _SIGN_BIT_OFF
    found = (positive % buckets).astype(np.int32)
    # NULL stands as hash 0 here, and the bucket of that is 0.
    return pa.array(found) if profile == "R" else _masked(found, valid(hashes))


def _hashes(array: pa.Array, declared: pa.DataType, seeds: _Words | None, profile: Profile) -> _Hashes:
    """Hashes of a flat array, of shape (rows,); those under NULL mean nothing. ``seeds`` None: 0 for all rows."""
    if profile == "R":
        return _native(array, declared, seeds)
    fixed = words(array)
    if fixed is not None:
        return _fixed(fixed.astype("<i8").view("<u4").reshape(len(array), 2), seeds)
    variable = variable_bytes(array)
    if variable is None:
        raise InvalidArgument(f"no bytes are defined for hashing a column of type {declared}", clause="AMB-59")
    return _variable(variable, seeds)


def _native(array: pa.Array, declared: pa.DataType, seeds: _Words | None) -> _Hashes:
    kind = array.type
    if pa.types.is_large_string(kind):
        return _spark_like(array.cast(pa.large_binary()), seeds)
    numbers = None if pa.types.is_date64(kind) or pa.types.is_float16(kind) else stored_numbers(array)
    if numbers is None:
        raise InvalidArgument(f"revision R does not hash columns of type {declared}", clause="AMB-59")
    if numbers.dtype.kind == "f":
        numbers = one_zero(numbers)
    elif numbers.dtype.itemsize < 4:
        numbers = numbers.astype(np.int32)
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return _fixed(little.view("<u4").reshape(len(array), numbers.dtype.itemsize // 4), seeds)


def _fixed(rows: _Words, seeds: _Words | None) -> _Hashes:
    """Hash of each row of whole words; shape (rows, words)."""
    if len(rows) <= _FEW_ROWS:
        given = zip(rows, [0] * len(rows) if seeds is None else seeds.tolist(), strict=True)
        return np.array([mmh3.hash(row.tobytes(), seed) for row, seed in given], np.int32)
    return _finished(_mixed(rows, seeds), 4 * rows.shape[1])


def _variable(values: pa.LargeBinaryArray, seeds: _Words | None) -> _Hashes:
    """Standard Murmur3 of each value: short ones all at once, a word of each at a time."""
    known = values.fill_null(b"") if values.null_count else values
    lengths = lengths_of(known)
    state = np.zeros(len(known), np.uint32) if seeds is None else seeds.copy()
    long = np.flatnonzero(lengths > _SHORT_BYTES)
    if len(long):
        given = zip(known.take(pa.array(long)).to_pylist(), state[long].tolist(), strict=True)
        hashed = np.array([mmh3.hash(value, seed) for value, seed in given], np.int32)
        lengths = np.where(lengths > _SHORT_BYTES, 0, lengths)
        known = pc.if_else(pa.array(lengths > 0), known, pa.scalar(b"", pa.large_binary()))
    for each in each_word(known, np.dtype("<u4")):
        mixed = state[each.rows] ^ _rotated(each.words * _C1, 15) * _C2
        # The last bytes, where they are no whole word, are mixed in and not rotated on.
        state[each.rows] = np.where(each.left >= 4, _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64), mixed)
    found = _finished(state, lengths)
    if len(long):
        found[long] = hashed
    return found


def _spark_like(values: pa.LargeBinaryArray, seeds: _Words | None) -> _Hashes:
    """The variant in which each byte after the last whole word is one sign-extended word."""
    hashes = np.empty(len(values), np.int32)
    for group in by_length(values):
        length = group.data.shape[1]
        whole = length - length % 4
        head = group.data[:, :whole].copy().view("<u4")
        tail = group.data[:, whole:].view(np.int8).astype(np.int32).view(np.uint32)
        own = None if seeds is None else seeds[group.positions]
        hashes[group.positions] = _finished(_mixed(np.hstack([head, tail]), own), length)
    return hashes


def _mixed(rows: _Words, seeds: _Words | None) -> _Words:
    """The state after mixing in the words of each row. Shape (rows,)."""
    state = np.zeros(len(rows), np.uint32) if seeds is None else seeds
    for word in rows.T:
        state = _rotated(state ^ _rotated(word * _C1, 15) * _C2, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return state


def _finished(state: _Words, length: int | npt.NDArray[np.int64]) -> _Hashes:
    state = state ^ np.uint32(length)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(state: _Words, bits: int) -> _Words:
    return (state << np.uint32(bits)) | (state >> np.uint32(32 - bits))


def _masked(hashes: _Hashes, present: Mask) -> pa.Int32Array:
    return pa.array(hashes, pa.int32(), mask=None if present.all() else ~present)
