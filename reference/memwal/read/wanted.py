"""The values that a filter asks an index for, as values of a column's type.

Whatever is not exactly a value of the type becomes the value beside it, and an end of a range then counts in: an index
gives some rows too many, never one too few, and the filter looks at each of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .. import truths
from ..maintained.scalar import Between, comparable
from .conditions import Compare
from .values import Values

Mask = npt.NDArray[np.bool_]
"""One truth value per value. Shape (values,)."""


class TooMany(Exception):
    """An index would give more rows than are wanted from it."""


@dataclass(frozen=True)
class Wanted:
    """Single values or a range of values of ``kind``."""

    kind: pa.DataType
    values: Values

    @cached_property
    def points(self) -> tuple[Any, ...] | None:
        """The single values without NULL, both zeros if there is one; None for a range."""
        if isinstance(self.values, Between):
            return None
        found = [value for value in self.values if value is not None]
        return (*found, 0.0, -0.0) if pa.types.is_floating(self.kind) and 0.0 in found else tuple(found)

    @cached_property
    def _set(self) -> pa.Array | None:
        return None if self.points is None else pa.array(self.points, self.kind)

    @cached_property
    def null(self) -> bool:
        """Whether NULL is wanted."""
        return not isinstance(self.values, Between) and None in self.values

    @property
    def codes(self) -> list[Any] | Between:
        """The values as `memwal.maintained.scalar.comparable` has them. Raises `InvalidArgument` for other types."""
        if not isinstance(self.values, Between):
            return comparable(pa.array(list(self.values), self.kind))
        lower, upper = comparable(pa.array([self.values.lower, self.values.upper], self.kind))
        return replace(self.values, lower=lower, upper=upper)

    def holds(self, column: pa.Array | pa.ChunkedArray) -> Mask:
        """Which of the values may be wanted. A range may have NaN in it: where it lies, filters do not agree."""
        held = self._set
        if held is not None:
            found = pc.equal(column, held[0]) if len(held) == 1 else pc.is_in(column, value_set=held)
        else:
            assert isinstance(self.values, Between)
            found = pa.scalar(True)
            for compare, end in _ends(self.values):
                found = pc.and_(found, compare(column, pa.scalar(end, self.kind)))
            if pa.types.is_floating(self.kind):
                found = pc.or_(found, pc.is_nan(column))
            if isinstance(found, pa.Scalar):
                found = pc.is_valid(column)
        mask: Mask = truths.of_arrow(found)
        return mask | truths.of_arrow(pc.is_null(column)) if self.null else mask

    def overlaps(self, low: Sequence[Any] | pa.Array, high: Sequence[Any] | pa.Array) -> Mask:
        """Which of the ranges from ``low`` to ``high``, both ends included, may have a wanted value besides NULL.

        NULL and NaN are open ends. Raises `pa.ArrowException` for a type without an order.
        """
        ends: list[Any] = list(self.points or ())
        if isinstance(self.values, Between):
            ends = [end for _, end in _ends(self.values)]
        lows, highs = (_plain(pa.array(each, self.kind)) for each in (low, high))
        every = pa.concat_arrays([lows, highs, _plain(pa.array(ends, self.kind))])
        ranks = pc.rank(every, tiebreaker="min").to_numpy().astype(np.int64)
        count = len(lows)
        first = np.where(_open(lows), -1, ranks[:count])
        last = np.where(_open(highs), len(every) + 1, ranks[count : 2 * count])
        wanted = np.sort(ranks[2 * count :])
        if not isinstance(self.values, Between):
            return np.searchsorted(wanted, first, "left") < np.searchsorted(wanted, last, "right")
        lower, upper = self.values.lower is not None, self.values.upper is not None
        found = np.ones(count, np.bool_)
        if lower:
            found &= last >= ranks[2 * count]
        if upper:
            found &= first <= ranks[-1]
        return found


def asked(leaf: Compare, kind: pa.DataType) -> Wanted | None:
    """What a comparison asks of a column of type ``kind``; worked out once, however many sources are asked."""
    if kind not in leaf.asked:
        leaf.asked[kind] = fitted(leaf.values, kind)
    found: Wanted | None = leaf.asked[kind]
    return found


def fitted(values: Values, kind: pa.DataType) -> Wanted | None:
    """``values`` as those of a column of type ``kind``; None where that cannot be told."""
    if isinstance(values, Between):
        lower, upper = _end(values.lower, kind), _end(values.upper, kind)
        if lower is None or upper is None:
            return None
        return Wanted(
            kind,
            Between(
                lower=lower[0],
                upper=upper[0],
                with_lower=values.with_lower or not lower[1],
                with_upper=values.with_upper or not upper[1],
            ),
        )
    found = [_end(value, kind) for value in values]
    kept = [each[0] for each in found if each is not None]
    return Wanted(kind, frozenset(kept)) if len(kept) == len(found) else None


def _end(value: object, kind: pa.DataType) -> tuple[Any, bool] | None:
    """``value`` as one of ``kind``, and whether it is exactly that; None if it is of another sort."""
    if value is None:
        return None, True
    if not any(fits(kind) for sort, fits in _SORTS if type(value) is sort):
        return None
    if isinstance(value, datetime) and (value.tzinfo is None) != (kind.tz is None):
        return None
    try:
        found = pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None
    # Zeros are two for some comparisons and one for others.
    return (found, found == value and not (pa.types.is_floating(kind) and found == 0)) if found == found else None


def _ends(wanted: Between) -> list[tuple[Callable[..., Any], Any]]:
    found: list[tuple[Callable[..., Any], Any]] = []
    if wanted.lower is not None:
        found.append((pc.greater_equal if wanted.with_lower else pc.greater, wanted.lower))
    if wanted.upper is not None:
        found.append((pc.less_equal if wanted.with_upper else pc.less, wanted.upper))
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_SORTS: tuple[tuple[type, Callable[[pa.DataType], bool]], ...] = (
    (int, _is_number),
    (float, pa.types.is_floating),
    (Decimal, pa.types.is_decimal),
    (bool, pa.types.is_boolean),
    (str, _is_text),
    (bytes, _is_bytes),
    (datetime, pa.types.is_timestamp),
    (date, pa.types.is_date),
)
"""Sorts of literals, and the types of columns that they are compared with as they are."""


def _plain(array: pa.Array) -> pa.Array:
    """``array`` with one zero."""
    return pc.add(array, pa.scalar(0.0, array.type)) if pa.types.is_floating(array.type) else array


def _open(ends: pa.Array) -> Mask:
    found = truths.of_arrow(pc.is_null(ends))
    return found | truths.of_arrow(pc.is_nan(ends)) if pa.types.is_floating(ends.type) else found
