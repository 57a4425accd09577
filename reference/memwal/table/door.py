"""The door: what comes in, as far as every later step can carry it.

Schemas and rows that a caller hands over pass here before anything is stored, whoever the caller is. Later steps are
the WAL, recovery, flush, merge, scan, filters, and other readers of the table. What one of them cannot carry would be
acknowledged and then be in everybody's way, so that it is refused here, by name.

Source: MemWAL revision A, "Write Operations" ("validate"); AMB-136.
"""

from __future__ import annotations

import pyarrow as pa

from ..clauses import implements
from ..errors import InvalidArgument
from .carried import refusal
from .fragments import arrow, conform
from .schema import PRIMARY_KEY

OWN_NAMES = frozenset({"_tombstone"})
"""Columns that the engine or the native writer adds to a region's rows."""
ROW_NAMES = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})
"""Columns that Lance readers compute for every row."""
MARKS = {".": "a dot", "`": "a backtick", "\0": "NUL"}
"""Characters that a column's name cannot have, at any depth."""


@implements("AMB-136")
def check_schema(schema: pa.Schema) -> None:
    """Raise `InvalidArgument` for the first column whose name or type some later step cannot carry."""
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(f"columns come as a pyarrow Schema, not as {type(schema).__name__}", clause="AMB-136")
    if len(set(schema.names)) != len(schema.names):
        raise InvalidArgument("column names are not unique", clause="AMB-136")
    for field in schema:
        if field.name in OWN_NAMES | ROW_NAMES:
            raise InvalidArgument(f"the name {field.name!r} belongs to the table itself", clause="AMB-136")
        _check_field(field, repr(field.name))


def _check_field(field: pa.Field, where: str) -> None:
    if not field.name:
        raise InvalidArgument(f"a column or what is below it has no name: {where}", clause="AMB-136")
    for mark, said in MARKS.items():
        if mark in field.name:
            raise InvalidArgument(f"a name has {said} in it: {where}", clause="AMB-136")
    _check_type(field, where)
    children = _children(field.type)
    if len({child.name for child in children}) < len(children):
        raise InvalidArgument(f"names are not unique in {where}", clause="AMB-136")
    for child in children:
        if PRIMARY_KEY in (child.metadata or {}):
            raise InvalidArgument(f"a primary key below a column: {child.name!r} in {where}", clause="AMB-136")
        _check_field(child, f"{child.name!r} in {where}")


def _check_type(field: pa.Field, where: str) -> None:
    try:
        why, clause = refusal(field), "AMB-136"
    except InvalidArgument as unknown:
        why, clause = f"no table of this engine has type {field.type}", unknown.clause
    if why:
        raise InvalidArgument(f"column {where}: {why}", clause=clause)


def _children(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.field(number) for number in range(arrow.num_fields)] if pa.types.is_nested(arrow) else []


@implements("WRITER-015", "AMB-136")
def admitted(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """``rows`` with exactly the columns of ``schema``, in its order, every value looked at.

    Raises `InvalidArgument` naming what differs, or the first column with a value that its type does not have. Costs
    one pass over the bytes of texts, times, decimals and offsets; whole numbers and floats cost nothing.
    """
    given = arrow(rows)
    try:
        given.validate()
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"the rows are no Arrow data: {error}", clause="AMB-136") from error
    table = conform(given, schema)
    for field in schema:
        for chunk in table.column(field.name).chunks:
            _check_values(chunk, field)
    return table


def _check_values(values: pa.Array, field: pa.Field) -> None:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        reason = f"column {field.name!r} holds what is no {field.type}: {error}"
        raise InvalidArgument(reason, clause="AMB-136") from error
    where = _null_within(values, repr(field.name))
    if where:
        raise InvalidArgument(f"NULL in {where}, which has none", clause="AMB-136")


def _null_within(values: pa.Array, where: str) -> str:
    """What below ``values`` is NULL and may not be, where its parent is not NULL; empty: nothing."""
    if not _strict_below(values.type):
        return ""
    if pa.types.is_struct(values.type):
        # Flattened children are NULL where the struct is.
        below = list(zip(_children(values.type), values.flatten(), strict=True))
        allowed = values.null_count
    else:
        below, allowed = [(values.type.value_field, values.flatten())], 0
    for field, child in below:
        named = f"{field.name!r} in {where}"
        if not field.nullable and child.null_count > allowed:
            return named
        if found := _null_within(child, named):
            return found
    return ""


def _strict_below(arrow: pa.DataType) -> bool:
    """Whether something below a column of this type may not be NULL."""
    return any(not child.nullable or _strict_below(child.type) for child in _children(arrow))
