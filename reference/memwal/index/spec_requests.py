"""Region specs as users ask for them: in column names, before field ids and result types are known.

``bucket``, ``identity``, … each return a `SpecRequest` with one field; `region_spec` joins several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..arguments import checked
from ..clauses import implements
from ..codec.index_details import RegionField, RegionSpec
from ..errors import InvalidArgument
from ..ids import FieldId, SpecId
from ..revisions import Revision
from ..words import counted
from . import expressions, result_types
from .transform_table import HASH, NUM_BUCKETS, WIDTH, lookup

IMMUTABLE_SOURCES = "immutable_sources"
"""Parameter with the value ``true``: the caller vouches that a key's source values never change (AMB-55)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRequest:
    """One region field, by column names."""

    field_id: str
    columns: tuple[str, ...]
    """Source columns, ``col0`` first."""
    transform: str | None = None
    expression: str | None = None
    result_type: str | None = None
    """None: what the transform or the expression yields for the columns' types."""
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SpecRequest:
    """A region spec without an id, by column names."""

    fields: tuple[FieldRequest, ...]


@checked
def region_spec(requests: Iterable[SpecRequest]) -> SpecRequest:
    """The spec with the fields of all ``requests``, in their order."""
    return SpecRequest(tuple(field for request in requests for field in request.fields))


@checked
def identity(field_id: str, column: str, *, immutable: bool = False) -> SpecRequest:
    """The column's own value. ``immutable``: see `IMMUTABLE_SOURCES`."""
    return _one(field_id, (column,), "identity", immutable=immutable)


@checked
def year(field_id: str, column: str, *, immutable: bool = False) -> SpecRequest:
    """Calendar year of a date or timestamp, int32."""
    return _one(field_id, (column,), "year", immutable=immutable)


@checked
def month(field_id: str, column: str, *, immutable: bool = False) -> SpecRequest:
    """Month of the year, 1 to 12, int32."""
    return _one(field_id, (column,), "month", immutable=immutable)


@checked
def day(field_id: str, column: str, *, immutable: bool = False) -> SpecRequest:
    """Day of the month, 1 to 31, int32."""
    return _one(field_id, (column,), "day", immutable=immutable)


@checked
def hour(field_id: str, column: str, *, immutable: bool = False) -> SpecRequest:
    """Hour of the day, 0 to 23, int32; 0 for a date."""
    return _one(field_id, (column,), "hour", immutable=immutable)


@checked
def bucket(field_id: str, columns: str | Sequence[str], num_buckets: int, *, immutable: bool = False) -> SpecRequest:
    """Hash bucket in [0, ``num_buckets``), int32: ``bucket`` over one column, ``multi_bucket`` over several."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    transform = "bucket" if len(names) == 1 else "multi_bucket"
    return _one(field_id, names, transform, ((NUM_BUCKETS, str(num_buckets)),), immutable=immutable)


@checked
def truncate(field_id: str, column: str, width: int, *, immutable: bool = False) -> SpecRequest:
    """The first ``width`` characters of text; a number without its remainder modulo ``width``. Type of the column."""
    return _one(field_id, (column,), "truncate", ((WIDTH, str(width)),), immutable=immutable)


def unsharded(field_id: str = "bucket") -> SpecRequest:
    """All rows in one region (revision R)."""
    return _one(field_id, (), "unsharded", immutable=False)


@checked
def expression(
    field_id: str,
    text: str,
    columns: str | Sequence[str],
    result_type: pa.DataType | str | None = None,
    *,
    immutable: bool = False,
) -> SpecRequest:
    """A DataFusion SQL expression; ``columns`` are ``col0``, ``col1``, … in it. See `memwal.index.expressions`."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    spelled = str(result_type) if isinstance(result_type, pa.DataType) else result_type
    parameters = _waiver(immutable)
    field = FieldRequest(field_id=field_id, columns=names, expression=text, result_type=spelled, parameters=parameters)
    return SpecRequest((field,))


def _one(
    field_id: str,
    columns: tuple[str, ...],
    transform: str,
    parameters: tuple[tuple[str, str], ...] = (),
    *,
    immutable: bool,
) -> SpecRequest:
    both = parameters + _waiver(immutable)
    return SpecRequest((FieldRequest(field_id=field_id, columns=columns, transform=transform, parameters=both),))


def _waiver(immutable: bool) -> tuple[tuple[str, str], ...]:
    return ((IMMUTABLE_SOURCES, "true"),) if immutable else ()


@implements("REGION-014", "REGION-016", "AMB-59", "AMB-68")
def resolve(
    request: SpecRequest, spec_id: SpecId, schema: pa.Schema, field_ids: Mapping[str, FieldId], revision: Revision
) -> RegionSpec:
    """``request`` with field ids, result types, and the hash profile where a hash is taken.

    Raises `InvalidArgument` for an unknown column or transform; what else a spec must satisfy is `check_spec`'s.
    """
    fields = tuple(_resolved(field, schema, field_ids, revision) for field in request.fields)
    return RegionSpec(spec_id=spec_id, fields=fields, unknown=b"")


def _resolved(
    request: FieldRequest, schema: pa.Schema, field_ids: Mapping[str, FieldId], revision: Revision
) -> RegionField:
    for name in request.columns:
        if schema.get_field_index(name) < 0 or name not in field_ids:
            raise InvalidArgument(f"region field {request.field_id!r}: no column {name!r}", clause="REGION-014")
    types = [schema.field(name).type for name in request.columns]
    if request.transform is not None:
        entry = lookup(request.transform, revision)
        if len(types) not in entry.sources:
            raise InvalidArgument(f"{entry.name} does not take {counted(len(types), 'column')}", clause="REGION-014")
        hashed, kind = entry.parameter == NUM_BUCKETS, entry.result_type(types)
    else:
        text = request.expression or ""
        hashed = any(token.startswith("murmur3") for token in expressions.parse(text, len(types)))
        kind = expressions.result_type(text, types, revision.hash_profile)
    parameters = dict(request.parameters)
    if hashed and revision.hash_recorded:
        parameters[HASH] = revision.hash_profile
    declared = result_types.spelling(kind, revision) if request.result_type is None else request.result_type
    return RegionField(
        field_id=request.field_id,
        source_ids=tuple(field_ids[name] for name in request.columns),
        transform=request.transform,
        expression=request.expression,
        result_type=declared,
        parameters=tuple(sorted(parameters.items())),
        unknown=b"",
    )
