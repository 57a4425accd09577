"""What may be in the columns of a row: single values or a range each, and how AND and OR join them.

Nothing here ever leaves out a value that a row may have: what is not known of a column is not said of it.
Source: MemWAL revisions A and B, "Region Pruning".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from ..maintained.scalar import Between

Values = frozenset[object] | Between
"""Single values, NULL being None; or a range, in which NULL is not."""
Predicate = Mapping[str, Values]
"""Column -> the values that a matching row may have in it; a column that is not here may have any."""

NOTHING: Predicate = {}
"""Nothing is known of any column."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.(\d{3}|\d{6}))?(Z|[+-]\d\d:\d\d)?)?")
_DAY_LENGTH = 10


def equals(column: str, value: object) -> Predicate:
    """``column`` = ``value``; nothing for NaN, and for a literal whose comparison may change its type."""
    return {column: frozenset([value])} if _is_plain(value) else NOTHING


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | bytes | date | Decimal) and value == value


_RANGES: Mapping[str, Callable[[object], Between]] = {
    "<": lambda value: Between(upper=value, with_upper=False),
    "<=": lambda value: Between(upper=value),
    ">": lambda value: Between(lower=value, with_lower=False),
    ">=": lambda value: Between(lower=value),
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
"""Comparison -> the same with its sides exchanged."""


def compared(column: str, sign: str, value: object) -> Predicate:
    """``column`` compared with ``value``; ``sign``: as in SQL."""
    if sign == "=":
        return equals(column, value)
    return {column: _RANGES[sign](value)} if sign in _RANGES and _is_plain(value) else NOTHING


def both(parts: Sequence[Predicate]) -> Predicate:
    """All of ``parts`` hold."""
    found: dict[str, Values] = {}
    for part in parts:
        for name, values in part.items():
            found[name] = _shared(found[name], values) if name in found else values
    return found


def _shared(one: Values, other: Values) -> Values:
    """What is in both; either of them where values cannot be compared."""
    try:
        if isinstance(one, Between):
            return one.within(other) if isinstance(other, Between) else _held(other, one)
        return _held(one, other) if isinstance(other, Between) else one & other
    except TypeError:
        return one


def _held(values: frozenset[object], wanted: Between) -> Values:
    return frozenset(value for value in values if value is not None and wanted.holds(value))


def either(parts: Sequence[Predicate]) -> Predicate:
    """One of ``parts`` holds."""
    shared = set.intersection(*(set(part) for part in parts)) if parts else set()
    found = {name: _united([part[name] for part in parts]) for name in shared}
    return {name: values for name, values in found.items() if values is not None}


def _united(parts: Sequence[Values]) -> Values | None:
    """All that is in one of ``parts``, and what lies between them if one is a range; None if that is not known."""
    single = frozenset[object]().union(*(part for part in parts if not isinstance(part, Between)))
    ranges = [part for part in parts if isinstance(part, Between)]
    if not ranges:
        return single
    if None in single:
        return None
    try:
        found = ranges[0]
        for part in (*ranges[1:], *(Between(lower=value, upper=value) for value in single)):
            found = found.around(part)
    except TypeError:
        return None
    return found


def said(value: object, kind: pa.DataType | None) -> object:
    """A literal that is compared with a column of type ``kind``: what it says to one of days or times.

    As it is for other columns, and where what it says depends on a time zone.
    """
    if kind is None or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return value
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        with suppress(ValueError):
            found = datetime.fromisoformat(value)
            if pa.types.is_date(kind):
                return found.date() if len(value) == _DAY_LENGTH else value
            return found if (found.tzinfo is None) == (kind.tz is None) else value
    if isinstance(value, date) and not isinstance(value, datetime) and pa.types.is_timestamp(kind) and kind.tz is None:
        return datetime(value.year, value.month, value.day)
    return value


def comparable(kind: pa.DataType) -> bool:
    """Whether equal values of a type have equal bytes, so that looking for one finds all of them."""
    return not pa.types.is_floating(kind)
