"""The well-known region transforms, as data.

Source: MemWAL revision A, section "Region Transform"; revision R has its own three.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec.canonical import flat, unscaled, valid
from ..codec.index_details import RegionField
from ..errors import InvalidArgument
from ..revisions import Revision
from .hashing import BUCKETS_MAX, PROFILES, Profile, bucket, murmur3, murmur3_multi

HASH = "hash"
"""Parameter that records the hash profile (AMB-59)."""
NUM_BUCKETS = "num_buckets"
WIDTH = "width"
WIDTH_MAX = 2**31 - 1
_NUMBER = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformParameters:
    """A field's parameters, parsed."""

    profile: Profile
    """Which bytes are hashed and how a hash becomes a bucket."""
    number: int
    """``num_buckets`` or ``width``; 0 for a transform without parameters."""
    rows: int
    """Number of rows to compute, for a transform without sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A region expression with a name."""

    name: str
    parameter: str | None
    """The one parameter that it needs, if any."""
    sources: range
    """How many source columns it takes."""
    profiles: tuple[Profile, ...]
    """Profiles of the revisions that have it."""
    expression: str
    """What it means, in DataFusion SQL; N and W are the parameter."""
    accepts: Callable[[pa.DataType, Profile], bool]
    """Whether a source column may have this type."""
    clause: str
    """Named when a source type is refused."""
    result_type: Callable[[Sequence[pa.DataType]], pa.DataType]
    """Type of the region value from the types of the sources."""
    apply: Callable[[Sequence[pa.Array], TransformParameters], pa.Array]
    """Region values from `flat` source columns; a column of the null type stands for a missing one."""
    monotone: bool
    """Whether the region value never falls while the source value rises."""


def _bucketed(columns: Sequence[pa.Array], settings: TransformParameters) -> pa.Array:
    return bucket(murmur3(columns[0], settings.profile), settings.number, settings.profile)


def _multi_bucketed(columns: Sequence[pa.Array], settings: TransformParameters) -> pa.Array:
    return bucket(murmur3_multi(columns, settings.profile), settings.number, settings.profile)


@implements("REGION-027", "AMB-63")
def _year(column: pa.Array) -> pa.Array:
    """Years of any length: pyarrow's own count is wrong beyond 32,767. Raises `InvalidArgument` beyond an int32."""
    wall = pc.local_timestamp(column) if getattr(column.type, "tz", None) else column
    found = pa.array(years(wall.to_numpy(zero_copy_only=False)), mask=~valid(column))
    try:
        return found.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"a year is not an int32: {error}", clause="REGION-024") from error


def years(times: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """The year of each of ``times``, in their own unit."""
    found: npt.NDArray[np.int64] = times.astype("datetime64[Y]").astype(np.int64) + 1970
    return found


def month(column: pa.Array) -> pa.Array:
    """As an int64. In a table of transforms, `pyarrow.compute.month` itself would load all of pyarrow.compute."""
    return pc.month(column)


def day(column: pa.Array) -> pa.Array:
    """Of the month, as an int64."""
    return pc.day(column)


def _hour(column: pa.Array) -> pa.Array:
    return pc.hour(column)


def _part(of: Callable[[pa.Array], pa.Array], *, date_has_none: bool = False) -> Callable[..., pa.Array]:
    """A date part in the wall-clock time of the column's zone (AMB-63)."""

    def apply(columns: Sequence[pa.Array], _: TransformParameters) -> pa.Array:
        (column,) = columns
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.int32())
        if date_has_none and pa.types.is_date(column.type):
            return pa.array(np.zeros(len(column), np.int32), mask=~valid(column))
        return of(column).cast(pa.int32())

    return apply


@implements("REGION-033", "REGION-034", "AMB-62")
def _truncated(columns: Sequence[pa.Array], settings: TransformParameters) -> pa.Array:
    (column,) = columns
    kind, width = column.type, settings.number
    if pa.types.is_null(kind):
        return column
    if pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)  # Arrow counts code points here
    if pa.types.is_decimal(kind):
        # The remainder is of the value, not of its digits: width 50 leaves 0.00 of 10.65, as `col0 % 50` says.
        step = width * 10**kind.scale
        return _decimals([None if u is None else _toward_zero(u, step) for u in unscaled(column)], kind)
    present = valid(column)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64)
    # `fmod` keeps the sign of the dividend, as the remainder of SQL does.
    return pa.array(wide - np.fmod(wide, wide.dtype.type(width)), mask=~present).cast(kind)


def _toward_zero(number: int, step: int) -> int:
    kept = abs(number) // step * step
    return kept if number >= 0 else -kept


def _decimals(numbers: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """A decimal array from unscaled values."""
    raw = b"".join((u or 0).to_bytes(kind.byte_width, "little", signed=True) for u in numbers)
    present = np.array([u is not None for u in numbers], np.bool_)
    validity = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(raw)])


_TEXT = (pa.types.is_string, pa.types.is_large_string)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_WHOLE = (pa.types.is_integer, pa.types.is_boolean)
_TIME = (pa.types.is_date32, pa.types.is_time, pa.types.is_timestamp)
_HASHED: dict[Profile, tuple[Callable[[pa.DataType], bool], ...]] = {
    "textbook": (*_WHOLE, *_TIME, *_TEXT, *_BINARY, pa.types.is_date64, pa.types.is_decimal),
    "R": (*_WHOLE, *_TIME, *_TEXT, pa.types.is_float32, pa.types.is_float64),
}


def _is_any(kind: pa.DataType, tests: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _hashable(kind: pa.DataType, profile: Profile) -> bool:
    return _is_any(kind, _HASHED[profile])


def _of_negative_scale(kind: pa.DataType) -> bool:
    """Decimals in steps of 10 and more: Arrow does not compare them, and a truncated one may lie between two steps."""
    return bool(pa.types.is_decimal(kind) and kind.scale < 0)


def _identifiable(kind: pa.DataType, profile: Profile) -> bool:
    known = (*_WHOLE, *_TEXT) if profile == "R" else _HASHED[profile]
    return _is_any(kind, known) and not _of_negative_scale(kind)


def _dated(kind: pa.DataType, _: Profile) -> bool:
    return _is_any(kind, (pa.types.is_date, pa.types.is_timestamp))


def _truncatable(kind: pa.DataType, _: Profile) -> bool:
    return _is_any(kind, (pa.types.is_integer, pa.types.is_decimal, *_TEXT)) and not _of_negative_scale(kind)


def _int32(_: Sequence[pa.DataType]) -> pa.DataType:
    return pa.int32()


def _same(sources: Sequence[pa.DataType]) -> pa.DataType:
    return sources[0]


def _date_part(name: str, apply: Callable[..., pa.Array], *, monotone: bool = False) -> Transform:
    return Transform(
        name=name,
        parameter=None,
        sources=range(1, 2),
        profiles=("textbook",),
        expression=f"date_part('{name}', col0)",
        accepts=_dated,
        clause="AMB-63",
        result_type=_int32,
        apply=apply,
        monotone=monotone,
    )


_ENTRIES = (
    Transform(
        name="identity",
        parameter=None,
        sources=range(1, 2),
        profiles=PROFILES,
        expression="col0",
        accepts=_identifiable,
        clause="REGION-026",
        result_type=_same,
        apply=lambda columns, _: columns[0],
        monotone=True,
    ),
    _date_part("year", _part(_year), monotone=True),
    _date_part("month", _part(month)),
    _date_part("day", _part(day)),
    _date_part("hour", _part(_hour, date_has_none=True)),
    Transform(
        name="bucket",
        parameter=NUM_BUCKETS,
        sources=range(1, 2),
        profiles=PROFILES,
        expression="abs(murmur3(col0)) % N",
        accepts=_hashable,
        clause="AMB-59",
        result_type=_int32,
        apply=_bucketed,
        monotone=False,
    ),
    Transform(
        name="multi_bucket",
        parameter=NUM_BUCKETS,
        sources=range(1, 2**31),
        profiles=("textbook",),
        expression="abs(murmur3_multi(col0, col1, ...)) % N",
        accepts=_hashable,
        clause="AMB-59",
        result_type=_int32,
        apply=_multi_bucketed,
        monotone=False,
    ),
    Transform(
        name="truncate",
        parameter=WIDTH,
        sources=range(1, 2),
        profiles=("textbook",),
        expression="left(col0, W) or col0 - (col0 % W)",
        accepts=_truncatable,
        clause="AMB-62",
        result_type=_same,
        apply=_truncated,
        monotone=True,
    ),
    Transform(
        name="unsharded",
        parameter=None,
        sources=range(1),
        profiles=("R",),
        expression="0",
        accepts=lambda _kind, _profile: True,
        clause="REGION-025",
        result_type=_int32,
        apply=lambda _, settings: pa.array(np.zeros(settings.rows, np.int32)),
        monotone=True,
    ),
)

TRANSFORMS: dict[str, Transform] = {entry.name: entry for entry in _ENTRIES}
"""Name -> transform."""


@implements("REGION-025")
def lookup(name: str, revision: Revision) -> Transform:
    """The transform of that name. Raises `InvalidArgument` if ``revision`` has none."""
    found = TRANSFORMS.get(name)
    if found is None or revision.hash_profile not in found.profiles:
        known = [entry.name for entry in _ENTRIES if revision.hash_profile in entry.profiles]
        reason = f"revision {revision.name} has no transform {name!r}; it has {', '.join(known)}"
        raise InvalidArgument(reason, clause="REGION-025")
    return found


@implements("AMB-59")
def profile_of(field: RegionField, revision: Revision) -> Profile:
    """The hash profile that the field records; that of the revision where it records none."""
    name = dict(field.parameters).get(HASH, revision.hash_profile)
    for profile in PROFILES:
        if profile == name:
            return profile
    raise InvalidArgument(f"hash profile {name!r} of field {field.field_id!r} is not known", clause="AMB-59")


@implements("AMB-61", "AMB-62")
def settings(transform: Transform, field: RegionField, revision: Revision, rows: int) -> TransformParameters:
    """The parameters of ``field``; decimal texts. Raises `InvalidArgument` if one is missing or out of range."""
    profile = profile_of(field, revision)
    if transform.parameter is None:
        return TransformParameters(profile=profile, number=0, rows=rows)
    text = dict(field.parameters).get(transform.parameter)
    clause, largest = ("AMB-61", BUCKETS_MAX[profile]) if transform.parameter == NUM_BUCKETS else ("AMB-62", WIDTH_MAX)
    if text is None or not _NUMBER.fullmatch(text) or not 1 <= int(text) <= largest:
        reason = f"{transform.name} of field {field.field_id!r} needs {transform.parameter} from 1 to {largest}"
        raise InvalidArgument(f"{reason}, not {text!r}", clause=clause)
    return TransformParameters(profile=profile, number=int(text), rows=rows)


def source(column: pa.Array | pa.ChunkedArray | None, rows: int) -> pa.Array:
    """A source column as transforms take it; None, a column that the schema no longer has, is NULL (REGION-022)."""
    return pa.nulls(rows) if column is None else flat(column)
