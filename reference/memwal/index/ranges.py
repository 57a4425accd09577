"""Which region values a range of a source column leaves out.

A range of source values gives a range of region values where a transform keeps their order (identity, truncate, year),
and a few values where it counts round (month, day, hour) and the range is short. NULL is in no range.
Source: MemWAL revisions A and B, "Region Pruning"; AMB-63, AMB-114.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..maintained.scalar import Between
from .region_values import exact
from .transform_table import Transform, day, month, source, years
from .transform_table import TransformParameters as Parameters

_DAY_S = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UTC = frozenset({"UTC", "Etc/UTC", "Z", "+00:00"})
_ZONE_S = _DAY_S
"""No time zone is ever so far from UTC: clocks in a zone may be set back, so that ranges are widened by it."""
_MOST_DAYS, _MOST_HOURS = 400, 23
"""Longest ranges of which each day, or hour, is looked at; longer ones have all months and days, or hours."""


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Wall-clock seconds since 1970 that values in a range may have, both ends included; None is an open end."""

    low: int | None
    high: int | None

    def steps(self, of: int, most: int) -> range | None:
        """The range in steps of ``of`` seconds; None for an open or a long one."""
        if self.low is None or self.high is None or self.high // of - self.low // of > most:
            return None
        return range(self.low // of, self.high // of + 1)


@implements("PLAN-005", "PLAN-006", "AMB-114")
def left_out(entry: Transform, settings: Parameters, own: object, wanted: Between, kind: pa.DataType) -> bool:
    """Whether no value of a source column of type ``kind`` that is in ``wanted`` has the region value ``own``.

    ``own`` is a value of the field's result type. False wherever that is not certain: for a transform that is not in
    `_LEFT_OUT`, and for an end of the range that is not exactly a value of the column's type.
    """
    ends = [None if end is None else exact([end], kind) for end in (wanted.lower, wanted.upper)]
    inexact = any(
        found is None for found, end in zip(ends, (wanted.lower, wanted.upper), strict=True) if end is not None
    )
    judge = _LEFT_OUT.get(entry.name)
    if judge is None or inexact or (wanted.lower is None and wanted.upper is None):
        return False
    # A range has no NULL in it, and these transforms make NULL of NULL only.
    return own is None or judge(entry, settings, own, wanted, kind)


def _same_value(_entry: Transform, _settings: Parameters, own: object, wanted: Between, _kind: pa.DataType) -> bool:
    return not wanted.holds(own)


def _between_truncated(entry: Transform, settings: Parameters, own: object, wanted: Between, kind: pa.DataType) -> bool:
    def cut(end: object, step: int, inside: bool) -> object:
        # An integer next to an end that is not in the range: 20 is not below 20, and its tens are those of 19.
        nearest = end if inside or not isinstance(end, int) else end + step
        found = exact([nearest], kind)
        return entry.apply([source(pa.array([end], kind) if found is None else found, 1)], settings)[0].as_py()

    lower = None if wanted.lower is None else cut(wanted.lower, 1, wanted.with_lower)
    upper = None if wanted.upper is None else cut(wanted.upper, -1, wanted.with_upper)
    return not Between(lower=lower, upper=upper).holds(own)


def _between_years(_entry: Transform, _settings: Parameters, own: object, wanted: Between, kind: pa.DataType) -> bool:
    wall = _wall_clock(wanted, kind)
    lower, upper = (None if end is None else _year(end) for end in (wall.low, wall.high))
    return not Between(lower=lower, upper=upper).holds(own)


def _year(seconds: int) -> int:
    return int(years(np.array([seconds // _DAY_S], "datetime64[D]"))[0])


def _of_days(of: Callable[[pa.Array], pa.Array]) -> Callable[..., bool]:
    def judge(_entry: Transform, _settings: Parameters, own: object, wanted: Between, kind: pa.DataType) -> bool:
        days = _wall_clock(wanted, kind).steps(_DAY_S, _MOST_DAYS)
        if days is None or exact([*days[:1], *days[-1:]], pa.int32()) is None:
            return False
        return own not in of(pa.array(days, pa.int32()).cast(pa.date32())).to_pylist()

    return judge


def _of_hours(_entry: Transform, _settings: Parameters, own: object, wanted: Between, kind: pa.DataType) -> bool:
    if pa.types.is_date(kind):
        return own != 0
    hours = _wall_clock(wanted, kind).steps(3600, _MOST_HOURS)
    return hours is not None and own not in {hour % 24 for hour in hours}


def _wall_clock(wanted: Between, kind: pa.DataType) -> _Seconds:
    """The wall-clock time of values in ``wanted``, in the column's zone."""
    scale, per_second, width, zone = 1, 1000, pa.int64(), 0
    if pa.types.is_date32(kind):
        scale, per_second, width = _DAY_S, 1, pa.int32()
    elif pa.types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        zone = 0 if kind.tz is None or kind.tz in _UTC else _ZONE_S

    def seconds(end: object, step: int, inside: bool) -> int | None:
        if end is None:
            return None
        number = int(pa.array([end], kind).view(width)[0].as_py())
        return (number if inside else number + step) * scale // per_second

    low = seconds(wanted.lower, 1, wanted.with_lower)
    high = seconds(wanted.upper, -1, wanted.with_upper)
    return _Seconds(None if low is None else low - zone, None if high is None else high + zone)


_LEFT_OUT: Mapping[str, Callable[[Transform, Parameters, object, Between, pa.DataType], bool]] = {
    "identity": _same_value,
    "truncate": _between_truncated,
    "year": _between_years,
    "month": _of_days(month),
    "day": _of_days(day),
    "hour": _of_hours,
}
"""Transform -> whether none of the values in a range has a region value that is not NULL."""
