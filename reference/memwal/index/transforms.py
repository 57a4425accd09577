"""Region specs at work: which region a row belongs to, which specs are sound, and which regions a filter excludes.

Source: MemWAL revision A, sections "Region Spec", "Region Expression" and "Region Transform".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from ..clauses import implements
from ..codec.index_details import RegionField, RegionSpec
from ..errors import InvalidArgument
from ..ids import FieldId
from ..maintained.scalar import Between
from ..revisions import Revision
from . import expressions, ranges, requirements, result_types
from .region_values import RegionKey, decode_scalar_r, encode_scalar_r, exact, values_key
from .spec_requests import (
    IMMUTABLE_SOURCES,
    FieldRequest,
    SpecRequest,
    bucket,
    day,
    expression,
    hour,
    identity,
    month,
    region_spec,
    resolve,
    truncate,
    unsharded,
    year,
)
from .transform_table import HASH, NUM_BUCKETS, TRANSFORMS, Transform, lookup, profile_of, settings, source

__all__ = [
    "IMMUTABLE_SOURCES",
    "TRANSFORMS",
    "FieldRequest",
    "RegionKey",
    "SpecRequest",
    "Transform",
    "bucket",
    "check_beside",
    "check_spec",
    "day",
    "decode_scalar_r",
    "encode_scalar_r",
    "evaluate",
    "expression",
    "hour",
    "identity",
    "may_match",
    "month",
    "region_spec",
    "resolve",
    "truncate",
    "unsharded",
    "values_key",
    "year",
]

Fields: TypeAlias = Mapping[FieldId, str]
"""Column name of each field id of the schema."""
Predicate: TypeAlias = Mapping[str, Collection[object] | Between | None]
"""Column -> the values that it may have in a matching row, NULL being None, or the range; None: any value."""

_FIELD_ID = re.compile(r"[A-Za-z0-9_]+")
_UNKNOWN = object()
_COMBINATIONS_MAX = 10_000
"""Combinations of source values that `may_match` tries; beyond it every region is kept."""


@implements("REGION-018", "REGION-022", "REGION-023", "REGION-024", "REGION-025", "AMB-62", "AMB-63")
def evaluate(spec: RegionSpec, batch: pa.Table | pa.RecordBatch, fields: Fields, *, revision: Revision) -> pa.Table:
    """Region values of each row: one column per region field, named by its field id, in its result type.

    A source id that ``fields`` does not have is a column of NULLs (REGION-022). Raises `InvalidArgument` for a source
    column that the schema has and ``batch`` lacks, for a transform, hash profile or expression that is not known, and
    for a value that the result type cannot hold.
    """
    columns, types = [], []
    for field in spec.fields:
        sources = [_column(batch, fields.get(i)) for i in field.source_ids]
        declared = result_types.parse(field.result_type)
        columns.append(_cast(_value(field, sources, batch.num_rows, revision), declared, field))
        types.append(pa.field(field.field_id, declared))
    if not columns:
        raise InvalidArgument(f"region spec {spec.spec_id} has no fields", clause="REGION-010")
    return pa.table(columns, schema=pa.schema(types))


def _column(batch: pa.Table | pa.RecordBatch, name: str | None) -> pa.Array | pa.ChunkedArray | None:
    if name is None:
        return None
    if name not in batch.schema.names:
        raise InvalidArgument(f"the rows need column {name!r}, which chooses their region", clause="REGION-014")
    return batch.column(name)


def _value(
    field: RegionField, sources: Sequence[pa.Array | pa.ChunkedArray | None], rows: int, revision: Revision
) -> pa.Array:
    if field.expression is not None and field.transform is None:
        columns = [pa.nulls(rows) if column is None else _stored(column) for column in sources]
        return expressions.evaluate(field.expression, columns, rows, profile_of(field, revision))
    if field.transform is None or field.expression is not None:
        raise InvalidArgument(_one_of_two(field), clause="REGION-015")
    entry = lookup(field.transform, revision)
    _check_arity(field, entry)
    return entry.apply([source(column, rows) for column in sources], settings(entry, field, revision, rows))


def _stored(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """``column`` as one array in its own type; dictionaries decoded."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _cast(found: pa.Array, declared: pa.DataType, field: RegionField) -> pa.Array:
    try:
        return found if found.type == declared else found.cast(declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"a value of region field {field.field_id!r} is no {field.result_type}: {error}"
        raise InvalidArgument(reason, clause="REGION-024") from error


@implements("REGION-008", "REGION-010", "REGION-013", "REGION-014", "REGION-015", "AMB-55", "AMB-64", "AMB-67")
def check_spec(
    spec: RegionSpec, schema: pa.Schema, fields: Fields, primary_key: Sequence[str], revision: Revision
) -> None:
    """Raise `InvalidArgument`, naming the clause, unless ``spec`` may be created on a table of this schema.

    ``primary_key`` empty: the table only grows (revision R), and any column may be a source.
    """
    if spec.spec_id < 1:
        raise InvalidArgument(f"region spec ids are positive, not {spec.spec_id}", clause="REGION-008")
    if not spec.fields:
        raise InvalidArgument(f"region spec {spec.spec_id} has no fields", clause="REGION-010")
    names = [field.field_id for field in spec.fields]
    for name in names:
        if not _FIELD_ID.fullmatch(name):
            raise InvalidArgument(f"region field id {name!r} may have only letters, digits and _", clause="AMB-67")
        if names.count(name) > 1:
            raise InvalidArgument(f"region field id {name!r} occurs more than once", clause="REGION-013")
    for field in spec.fields:
        _check_field(field, schema, fields, primary_key, revision)


def _check_field(
    field: RegionField, schema: pa.Schema, fields: Fields, primary_key: Sequence[str], revision: Revision
) -> None:
    if (field.transform is None) == (field.expression is None):
        raise InvalidArgument(_one_of_two(field), clause="REGION-015")
    for i in field.source_ids:
        if fields.get(i) not in schema.names:
            raise InvalidArgument(f"region field {field.field_id!r}: no field {i} in the schema", clause="REGION-014")
    columns = [fields[i] for i in field.source_ids]
    outside = [name for name in columns if name not in primary_key]
    if primary_key and outside and dict(field.parameters).get(IMMUTABLE_SOURCES) != "true":
        reason = (
            f"sources {outside} of region field {field.field_id!r} are not key columns {list(primary_key)}: an update "
            f"could move a key to another region; vouch for them with {IMMUTABLE_SOURCES}"
        )
        raise InvalidArgument(reason, clause="AMB-55")
    types = [schema.field(name).type for name in columns]
    natural = _checked_type(field, types, revision)
    declared = result_types.parse(field.result_type)
    if declared != natural:
        clause = "REGION-016" if field.transform is not None else "REGION-024"
        reason = f"region field {field.field_id!r} yields {natural} and declares {field.result_type!r}"
        raise InvalidArgument(reason, clause=clause)
    if getattr(natural, "unit", "") == "ns":
        reason = f"region field {field.field_id!r} yields {natural}: callers cannot name a value in nanoseconds"
        raise InvalidArgument(reason, clause="REGION-016")

    def compute(sources: Sequence[pa.Array]) -> pa.Array:
        return _value(field, sources, len(sources[0]), revision)

    requirements.check(field.field_id, compute, types, natural, promoted=revision.values_outlive_promotion)


@implements("REGION-013", "AMB-67")
def check_beside(spec: RegionSpec, others: Sequence[RegionSpec]) -> None:
    """Raise `InvalidArgument` if a field id of ``spec`` means something else in one of the ``others``.

    The snapshot has one column per field id over all specs.
    """
    before = {field.field_id: (field, other) for other in others for field in other.fields}
    for field in spec.fields:
        known, other = before.get(field.field_id, (field, spec))
        if replace(known, unknown=b"") != replace(field, unknown=b""):
            reason = f"region field id {field.field_id!r} has another definition in region spec {other.spec_id}"
            raise InvalidArgument(reason, clause="AMB-67")


def _checked_type(field: RegionField, types: Sequence[pa.DataType], revision: Revision) -> pa.DataType:
    """The type that the field yields; raises unless the revision can compute it from sources of these types."""
    profile = profile_of(field, revision)
    if not revision.floating_sources and any(pa.types.is_floating(kind) for kind in types):
        raise InvalidArgument(f"region field {field.field_id!r} has a floating source", clause="AMB-64")
    if field.expression is not None:
        if not revision.expressions:
            raise InvalidArgument(f"revision {revision.name} has no region expressions", clause="AMB-65")
        yielded = expressions.result_type(field.expression, types, profile)
        if pa.types.is_floating(yielded):
            raise InvalidArgument(f"region field {field.field_id!r} yields a floating value", clause="AMB-64")
        return yielded
    assert field.transform is not None
    entry = lookup(field.transform, revision)
    _check_arity(field, entry)
    settings(entry, field, revision, 0)
    for kind in types:
        if not entry.accepts(kind, revision.hash_profile):
            reason = f"{entry.name} of region field {field.field_id!r} does not take columns of type {kind}"
            raise InvalidArgument(reason, clause=entry.clause)
    return entry.result_type(types)


def _check_arity(field: RegionField, entry: Transform) -> None:
    if len(field.source_ids) not in entry.sources:
        reason = f"{entry.name} of region field {field.field_id!r} does not take {len(field.source_ids)} sources"
        raise InvalidArgument(reason, clause="REGION-014")


def _one_of_two(field: RegionField) -> str:
    return f"region field {field.field_id!r} needs either a transform or an expression"


@implements("PLAN-005", "PLAN-006", "PLAN-007", "AMB-53", "AMB-57", "AMB-66", "AMB-114")
def may_match(
    spec: RegionSpec, predicate: Predicate, *, schema: pa.Schema, fields: Fields, revision: Revision
) -> Callable[[Mapping[str, object]], bool]:
    """What says of region values whether a region with them may hold a row that satisfies ``predicate``.

    False is a proof: some region field has another value for every combination of allowed source values. Whatever is
    not known keeps the region: a field id that the values lack (a value None is a known NULL), a column that
    ``predicate`` or the schema lacks, a value that is not exactly one of the column's type, a hash profile that a spec
    of revision A or B does not record, a transform or an expression that this reader does not compute.
    """
    possible = {field: _possible_keys(field, predicate, schema, fields, revision) for field in spec.fields}
    kinds = {field: result_types.parse(field.result_type) for field in spec.fields}

    def match(values: Mapping[str, object]) -> bool:
        for field, keys in possible.items():
            own = values.get(field.field_id, _UNKNOWN)
            if own is _UNKNOWN or exact([own], kinds[field]) is None:
                continue
            if _is_left_out(field, own, predicate, schema, fields, revision):
                return False
            if keys is not None and values_key({field.field_id: own}) not in keys:
                return False
        return True

    return match


def _is_left_out(
    field: RegionField, own: object, predicate: Predicate, schema: pa.Schema, fields: Fields, revision: Revision
) -> bool:
    """Whether the range that ``predicate`` names for the one source of ``field`` has no value of the region."""
    names = [fields.get(i) for i in field.source_ids]
    if len(names) != 1 or field.expression is not None or names[0] not in schema.names:
        return False
    wanted = predicate.get(str(names[0]))
    if not isinstance(wanted, Between):
        return False
    try:
        entry = lookup(str(field.transform), revision)
        chosen = settings(entry, field, revision, 0)
    except InvalidArgument:
        return False
    return ranges.left_out(entry, chosen, own, wanted, schema.field(names[0]).type)


def _possible_keys(
    field: RegionField, predicate: Predicate, schema: pa.Schema, fields: Fields, revision: Revision
) -> set[RegionKey] | None:
    """Every value that the field has under ``predicate``; None if that is not known."""
    names = [fields.get(i) for i in field.source_ids]
    allowed: list[list[object]] = []
    combinations = 1
    for name in names:
        found = predicate.get(name) if name is not None and name in schema.names else None
        if found is None or isinstance(found, Between):
            return None
        allowed.append(list(found))
        combinations *= len(found)
    if not names or combinations > _COMBINATIONS_MAX or not profile_recorded(field, revision):
        return None
    rows = list(itertools.product(*allowed))
    columns = [exact([row[at] for row in rows], schema.field(name).type) for at, name in enumerate(names)]
    if any(column is None for column in columns):
        return None
    try:
        found_values = _cast(_value(field, columns, len(rows), revision), result_types.parse(field.result_type), field)
    except InvalidArgument:
        return None
    return {values_key({field.field_id: value}) for value in found_values.to_pylist()}


def profile_recorded(field: RegionField, revision: Revision) -> bool:
    hashes = field.transform in TRANSFORMS and TRANSFORMS[str(field.transform)].parameter == NUM_BUCKETS
    hashes = hashes or "murmur3" in (field.expression or "").lower()
    return not hashes or not revision.hash_recorded or HASH in dict(field.parameters)
