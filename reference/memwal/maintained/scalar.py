"""Indexes over the scalar column of one MemTable: sorted runs (btree), and row sets by value (bitmap).

Values are compared as SQL does it: text by its UTF-8 bytes, floating numbers in total order with one zero, so that NaN
equals NaN and lies above everything else; NULL equals nothing.
Source: MemWAL revision A, "MemTable Indexing"; AMB-48.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..codec.canonical import flat, one_zero, stored_numbers, valid
from ..errors import InvalidArgument

Offsets = npt.NDArray[np.int64]
"""Row offsets, ascending. Shape (hits,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A range of comparable values; None leaves an end open."""

    lower: Any = None
    upper: Any = None
    with_lower: bool = True
    with_upper: bool = True

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is in the range."""
        above = self.lower is None or value > self.lower or (self.with_lower and value == self.lower)
        return above and (self.upper is None or value < self.upper or (self.with_upper and value == self.upper))

    def within(self, other: Between) -> Between:
        """The values that are in both."""
        found = self
        if found.lower is None or (other.lower is not None and _lower(other) > _lower(found)):
            found = replace(found, lower=other.lower, with_lower=other.with_lower)
        if found.upper is None or (other.upper is not None and _upper(other) < _upper(found)):
            found = replace(found, upper=other.upper, with_upper=other.with_upper)
        return found

    def around(self, other: Between) -> Between:
        """The values that are in one of both, or between them."""
        found = self
        if found.lower is not None and (other.lower is None or _lower(other) < _lower(found)):
            found = replace(found, lower=other.lower, with_lower=other.with_lower)
        if found.upper is not None and (other.upper is None or _upper(other) > _upper(found)):
            found = replace(found, upper=other.upper, with_upper=other.with_upper)
        return found


def _lower(of: Between) -> tuple[Any, bool]:
    """Orders lower ends: one that leaves its value out is above one that has it."""
    return of.lower, not of.with_lower


def _upper(of: Between) -> tuple[Any, bool]:
    return of.upper, of.with_upper


class ScalarIndex(Protocol):
    """An index over comparable values. Offsets come back in any order."""

    def insert(self, values: Sequence[Any], start: int) -> None:
        """Add the values of rows ``start`` and following; None is NULL."""

    def equal(self, value: Any) -> Iterable[int]:
        """Rows with ``value``; None asks for NULL."""

    def between(self, wanted: Between) -> Iterable[int]:
        """Rows with a value in the range."""

    def held(self) -> ScalarIndex:
        """The index as it is now, for readers: what is inserted later may be in it or not."""


@dataclass(slots=True)
class SortedRuns:
    """The counterpart of a btree: runs of values in order, each at least twice as long as the one behind it."""

    runs: list[list[tuple[Any, int]]] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)

    def insert(self, values: Sequence[Any], start: int) -> None:
        numbered = [(value, offset) for offset, value in enumerate(values, start) if value is not None]
        self.nulls += [offset for offset, value in enumerate(values, start) if value is None]
        numbered.sort()
        while self.runs and len(self.runs[-1]) < 2 * len(numbered):
            numbered += self.runs.pop()
            numbered.sort()
        if numbered:
            self.runs.append(numbered)

    def held(self) -> SortedRuns:
        return SortedRuns(list(self.runs), self.nulls)  # a run never changes, and NULLs are only added

    def equal(self, value: Any) -> Iterable[int]:
        return self.nulls if value is None else self.between(Between(lower=value, upper=value))

    def between(self, wanted: Between) -> Iterable[int]:
        low = bisect_left if wanted.with_lower else bisect_right
        high = bisect_right if wanted.with_upper else bisect_left
        found: list[int] = []
        for run in self.runs:
            first = 0 if wanted.lower is None else low(run, wanted.lower, key=_value)
            last = len(run) if wanted.upper is None else high(run, wanted.upper, key=_value)
            found += [offset for _, offset in run[first:last]]
        return found


def _value(pair: tuple[Any, int]) -> Any:
    return pair[0]


@dataclass(slots=True)
class RowSets:
    """The counterpart of a bitmap index: the rows of each value."""

    rows: dict[Any, list[int]] = field(default_factory=dict)
    """By value; None is NULL."""

    def insert(self, values: Sequence[Any], start: int) -> None:
        for offset, value in enumerate(values, start):
            self.rows.setdefault(value, []).append(offset)

    def held(self) -> RowSets:
        return RowSets(dict(self.rows))  # the rows of a value are only added

    def equal(self, value: Any) -> Iterable[int]:
        return self.rows.get(value, [])

    def between(self, wanted: Between) -> Iterable[int]:
        inside = (rows for value, rows in self.rows.items() if value is not None and wanted.holds(value))
        return [offset for rows in inside for offset in rows]


@lru_cache
def has_order(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared."""
    try:
        comparable(pa.array([], kind))
    except InvalidArgument:
        return False
    return True


@implements("WRITER-022")
def comparable(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of ``column`` as Python values that compare and hash like the column's; None for NULL.

    Raises `InvalidArgument` for a type without an order.
    """
    array = flat(column)
    found = codes(array)
    if isinstance(found, pa.Array):
        values: list[Any] = found.to_pylist()
        return values
    present = valid(array).tolist()
    return [value if there else None for value, there in zip(found.tolist(), present, strict=True)]


def codes(array: pa.Array) -> npt.NDArray[Any] | pa.Array:
    """What `comparable` gives, for many values at once: numbers, any under NULL; else the array itself, if it compares.

    ``array`` is `flat`. Raises `InvalidArgument` for a type without an order.
    """
    kind = array.type
    numbers = stored_numbers(array.view(pa.int64()) if pa.types.is_duration(kind) else array)
    if numbers is not None:
        return in_total_order(one_zero(numbers)) if numbers.dtype.kind == "f" else numbers
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_decimal(kind):
        return array
    raise InvalidArgument(f"values of type {kind} have no order", clause="AMB-48")


def in_total_order(floats: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Integers in the order of ``floats``: the bits, those of negative numbers turned round."""
    bits = floats.astype(np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def comparable_value(value: object, kind: pa.DataType) -> Any:
    """One value of a query, which the column's type has to hold; None is NULL. Raises `InvalidArgument`."""
    try:
        if pa.types.is_integer(kind) and isinstance(value, float):
            raise TypeError("a floating number")
        return comparable(pa.array([value], kind, from_pandas=False))[0]
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidArgument(f"{value!r} is not a value of a column of type {kind}: {reason}") from error


def sorted_offsets(found: Iterable[int]) -> Offsets:
    """Distinct row offsets in ascending order."""
    return np.unique(np.fromiter(found, np.int64))
