"""The door: what comes in, as far as every later step can carry it.

Schemas and rows of every caller pass here before anything is stored. Later steps are
the WAL, recovery, flush, merge, scan, filters, and other readers of the table. What one of them cannot carry would be
acknowledged and then block every later step, so that it is refused here, by name.

Source: MemWAL revision A, "Write Operations" ("validate"); AMB-136.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ..cellwise import children, null_within
from ..clauses import implements
from ..codec import bloom, key_index
from ..errors import InvalidArgument
from ..revisions import Revision
from .carried import refusal
from .fragments import arrow, conform
from .schema import PRIMARY_KEY

RESERVED: Mapping[str, str] = {
    "_tombstone": "marks deletes",
    "_distance": "is what a vector search answers with",
    "_score": "is what a text search answers with",
    "_rowid": "is computed for every row",
    "_rowaddr": "is computed for every row",
    "_rowoffset": "is computed for every row",
    "_row_created_at_version": "is computed for every row",
    "_row_last_updated_at_version": "is computed for every row",
    "__memwal_position": "numbers the rows that a filter looks at",
    "*": "stands for all columns in a query",
}
"""Names that no column can have. Below a column, in a struct, they are names like any other."""
UNQUOTABLE: Mapping[str, str] = {".": "a dot", "`": "a backtick"}
"""What no column and nothing in a struct can have in its name: a query could not name it."""
OWN_METADATA = b"lance:field_id"
"""Metadata key under which Lance files and the WAL of revision R say which column of the table a column is."""


@implements("AMB-136")
def check_schema(schema: pa.Schema, *, key: Sequence[str] | None = None) -> None:
    """Raise `InvalidArgument` for the first column whose name, type or metadata some later step cannot carry.

    ``key``: the key columns; no other may be marked as one. None: the marks say which they are.
    """
    if not isinstance(schema, pa.Schema):
        raise _refused(f"give the columns as a pyarrow Schema, not as {type(schema).__name__}")
    names = _names(schema)
    if len(set(names)) != len(names):
        raise _refused("each column needs a name of its own")
    for field in schema:
        if field.name in RESERVED:
            raise _refused(f"a column cannot be named {field.name!r}, which {RESERVED[field.name]}")
        _check_field(field, repr(field.name), named=True)
        if key is not None and field.name not in key and _is_marked(field):
            raise _refused(f"column {field.name!r} is marked as a part of the primary key, and {list(key)} are the key")
    _check_metadata(schema.metadata, "the schema")


@implements("WRITER-015", "AMB-59", "AMB-136")
def check_key(schema: pa.Schema, key: Sequence[str], revision: Revision) -> None:
    """Raise `InvalidArgument` for key columns that no flush under ``revision`` could make a filter or an index of."""
    bloom.encode(schema.empty_table().select(list(key)), revision)
    if revision.key_index:
        key_index.check(schema, key)


def _is_marked(field: pa.Field) -> bool:
    marks = [(field.metadata or {})[name] for name in field.metadata or {} if name.startswith(PRIMARY_KEY)]
    return any(mark.lower() != b"false" for mark in marks)


def _refused(reason: str) -> InvalidArgument:
    return InvalidArgument(reason, clause="AMB-136")


def _names(schema: pa.Schema) -> list[str]:
    try:
        return list(schema.names)
    except UnicodeDecodeError as error:
        raise _refused(f"a column's name is not UTF-8: {error}") from error


def _check_field(field: pa.Field, where: str, *, named: bool) -> None:
    """``named``: queries name it, as they do not name the items of a list."""
    if named and not field.name:
        raise _refused(f"a column, or a part of one, has no name: {where}")
    for mark, said in UNQUOTABLE.items() if named else ():
        if mark in field.name:
            raise _refused(f"a name has {said} in it: {where}")
    if "\0" in field.name:
        raise _refused(f"a name has NUL in it: {where}")
    _check_type(field, where)
    _check_metadata(field.metadata, where)
    below = children(field.type)
    if len({child.name for child in below}) < len(below):
        raise _refused(f"names are not unique in {where}")
    for child in below:
        if _is_marked(child):
            raise _refused(f"a primary key below a column: {child.name!r} in {where}")
        _check_field(child, f"{child.name!r} in {where}", named=pa.types.is_struct(field.type))


def _check_type(field: pa.Field, where: str) -> None:
    try:
        why, clause = refusal(field), "AMB-136"
    except InvalidArgument as unknown:
        why, clause = f"type {field.type} is not supported", unknown.clause
    if why:
        raise InvalidArgument(f"column {where}: {why}", clause=clause)


def _check_metadata(metadata: Mapping[bytes, bytes] | None, where: str) -> None:
    for key, value in (metadata or {}).items():
        try:
            _ = key.decode(), value.decode()
        except UnicodeDecodeError as error:
            raise _refused(f"metadata of {where} are not UTF-8: {key!r}: {value!r}") from error
        if key == OWN_METADATA:
            raise _refused(f"metadata of {where} have the key {key.decode()}, which is the table's own")


@implements("WRITER-015", "AMB-136")
def admitted(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """``rows`` with exactly the columns of ``schema``, in its order, every value looked at.

    Raises `InvalidArgument` naming what differs, or the first column with a value that its type does not have. Costs
    one pass over the bytes of texts, times, decimals and offsets; whole numbers and floats cost nothing.
    """
    given = arrow(rows)
    _names(given.schema)
    try:
        given.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _refused(_what_is_wrong(given) or f"the rows are not Arrow data: {error}") from error
    table = conform(given, schema)
    for number, kind in enumerate(table.schema.types):
        for chunk in table.column(number).chunks if pa.types.is_nested(kind) else ():
            if where := null_within(chunk, repr(table.schema.names[number])):
                raise _refused(f"NULL in {where}, which must not have it")
    return table


def _what_is_wrong(rows: pa.Table) -> str:
    """The first column whose memory is that of its type and has another value; empty: there is none."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        try:
            column.validate()
        except pa.ArrowInvalid:
            return ""
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            return f"column {field.name!r} has a value that is not a {field.type}: {error}"
    return ""
