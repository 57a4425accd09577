"""Values that region fields are tried with when a spec is created: fixed, smallest first, extremes included.

Every type that a source column may have has its values here; nothing is drawn at random, so that every process judges
a spec alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

ROWS_MOST = 1_024
"""Combinations of source values that a field over several sources is tried with."""

_LEAST_HASHES = (2_841_062_569, -4_026_370_631)
"""They hash to the least 32-bit number (AMB-58)."""
_BOUNDS = tuple(bound for bits in (8, 16, 32, 64) for bound in (2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2**bits - 1))
_INTEGERS = (*_BOUNDS, 0, 1, -1, 2, 5, -5, 7, 10, -10, 100, 123, 1_000, 2**53 + 1, *_LEAST_HASHES)
_TEXTS = ("", "a", "b", "é", "日本", " ", "a'b", "ab", "abc", "abcd", "12", "-7", "1.5", "2024-02-29", "z" * 70)
_BYTES = (b"", b"\x00", b"\xff", b"a", b"ab", b"abc", b"abcd", b"\x00" * 17)
_SECONDS = (0, 1, -1, 86_399, 86_400, -86_400, 951_782_400, 1_709_251_199, 4_102_444_800, -2_208_988_801)
"""The epoch and its neighbours, ends of days, leap days of 2000 and 2024, and years far from both."""
_DAYS = (0, 1, -1, 31, 59, 365, -365, 11_016, 19_782, 47_482, -25_568)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LEAST = {"ns": 1_000}
"""Smallest step that is tried: messages name values as Python has them, which knows no nanoseconds."""


def of(kind: pa.DataType) -> pa.Array:
    """Values of type ``kind``, smallest first, without NULL and without duplicates; empty for a type without any."""
    if pa.types.is_dictionary(kind):
        return of(kind.value_type)
    if pa.types.is_boolean(kind):
        return pa.array([False, True])
    if pa.types.is_integer(kind):
        low, high = integer_range(kind)
        return pa.array([n for n in sorted(_INTEGERS, key=lambda n: (abs(n), n < 0)) if low <= n <= high], kind)
    if pa.types.is_floating(kind):
        return pa.array([0.0, 1.0, -1.0, 0.5, -2.5, 10.0, 1e4, -6.5e4, float("inf"), float("nan")], kind)
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        unscaled = dict.fromkeys([0, 1, -1, 5, -5, min(most, 99), min(most, 1234), most, -most])
        return pa.array([_decimal(n, kind) for n in unscaled], kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.array(_TEXTS, kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([b"\x00" * kind.byte_width, b"a" * kind.byte_width, b"\xff" * kind.byte_width], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.array(_BYTES, kind)
    return _moments(kind)


def _decimal(unscaled: int, kind: pa.DataType) -> Decimal:
    sign, digits = int(unscaled < 0), tuple(int(d) for d in str(abs(unscaled)))
    return Decimal((sign, digits, -kind.scale))


def _moments(kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(_DAYS, pa.int32()).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array([day * 86_400_000 for day in _DAYS], pa.int64()).cast(kind)
    if pa.types.is_timestamp(kind):
        fine, least = _PER_SECOND[kind.unit], _LEAST.get(kind.unit, 1)
        numbers = [second * fine for second in _SECONDS] + [fine - least, -fine + least]
        return pa.array(dict.fromkeys(numbers), pa.int64()).cast(kind)
    if pa.types.is_time(kind):
        fine, least = _PER_SECOND[kind.unit], _LEAST.get(kind.unit, 1)
        times = dict.fromkeys([0, least, fine, 3_600 * fine, 86_399 * fine, 86_400 * fine - least])
        return pa.array(times, pa.int32() if pa.types.is_time32(kind) else pa.int64()).cast(kind)
    return pa.array([], kind)


def integer_range(kind: pa.DataType) -> tuple[int, int]:
    """Least and largest value of an integer type."""
    bits = kind.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, 2**bits - 1)


def rows(kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """One column per source type: combinations of the values of each, NULL among them, smallest first.

    Every value of every column occurs, also where not every combination does. All columns are empty if a type has no
    values.
    """
    columns = [of(kind) for kind in kinds]
    if not all(len(column) for column in columns):
        return [pa.array([], kind) for kind in kinds]
    places = [range(len(column) + 1) for column in columns]  # the last place is NULL
    longest = max(len(each) for each in places)
    paired = [tuple(at % len(each) for each in places) for at in range(longest)]
    crossed: list[tuple[int, ...]] = []
    width = 1
    while width < longest and _count(places, width + 1) <= ROWS_MOST:
        width += 1
    crossed.extend(itertools.product(*(each[:width] for each in places)))
    alone = [tuple(len(each) - 1 if i == j else 0 for j, each in enumerate(places)) for i in range(len(places))]
    null = tuple(len(each) - 1 for each in places)
    chosen = sorted(dict.fromkeys([*crossed, *paired, *alone, null]), key=lambda places_: (sum(places_), places_))
    taken = list(zip(*chosen, strict=True)) if chosen else [()] * len(columns)
    with_null = [pa.concat_arrays([column, pa.nulls(1, column.type)]) for column in columns]
    return [column.take(pa.array(at, pa.int32())) for column, at in zip(with_null, taken, strict=True)]


def _count(places: Sequence[range], width: int) -> int:
    total = 1
    for each in places:
        total *= min(width, len(each))
    return total
