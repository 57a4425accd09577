"""Arrow schemas <-> the field list of a Lance table manifest.

Fields are listed depth first, with ids in that order; a nested field names its parent. A fixed-size list of a
primitive is one field. Data files (version 2.1) have one column per leaf field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import file_pb2
from ..errors import ArtifactError, InvalidArgument
from ..ids import FieldId

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
"""Field metadata key that marks an unenforced primary key column; value ``true``."""

_PLAIN = file_pb2.Encoding.PLAIN
_VAR_BINARY = file_pb2.Encoding.VAR_BINARY
_NONE = file_pb2.Encoding.NONE

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
}
_NAMES = {arrow: name for name, arrow in _SIMPLE.items()}

_PARAMETRISED: list[tuple[str, Callable[[re.Match[str]], pa.DataType]]] = [
    (r"timestamp:(s|ms|us|ns):(.+)", lambda m: pa.timestamp(m[1], None if m[2] == "-" else m[2])),
    (r"time32:(s|ms)", lambda m: pa.time32(m[1])),
    (r"time64:(us|ns)", lambda m: pa.time64(m[1])),
    (r"duration:(s|ms|us|ns)", lambda m: pa.duration(m[1])),
    (r"fixed_size_binary:(\d+)", lambda m: pa.binary(int(m[1]))),
    (r"decimal:128:(\d+):(-?\d+)", lambda m: pa.decimal128(int(m[1]), int(m[2]))),
    (r"decimal:256:(\d+):(-?\d+)", lambda m: pa.decimal256(int(m[1]), int(m[2]))),
    (
        r"dict:(.+):(u?int(?:8|16|32|64)):(true|false)",
        lambda m: pa.dictionary(arrow_type(m[2]), arrow_type(m[1]), ordered=m[3] == "true"),
    ),
    (r"fixed_size_list:(.+):(\d+)", lambda m: pa.list_(arrow_type(m[1]), int(m[2]))),
]


@implements("FORMAT-028")
def logical_type(arrow: pa.DataType) -> str:
    """Lance logical type name of an Arrow type. Raises `InvalidArgument` for a type that tables cannot hold."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pa.types.is_timestamp(arrow):
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if pa.types.is_time32(arrow) or pa.types.is_time64(arrow) or pa.types.is_duration(arrow):
        return f"{re.sub(r'[^a-z0-9].*', '', str(arrow))}:{arrow.unit}"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed_size_binary:{arrow.byte_width}"
    if pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow):
        return f"decimal:{128 if pa.types.is_decimal128(arrow) else 256}:{arrow.precision}:{arrow.scale}"
    if pa.types.is_struct(arrow):
        return "struct"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        prefix = "list" if pa.types.is_list(arrow) else "large_list"
        return f"{prefix}.struct" if pa.types.is_struct(arrow.value_type) else prefix
    if pa.types.is_fixed_size_list(arrow) and not pa.types.is_nested(_innermost(arrow)):
        return f"fixed_size_list:{logical_type(arrow.value_type)}:{arrow.list_size}"
    raise InvalidArgument(f"columns of type {arrow} are not supported", clause="FORMAT-028")


def _innermost(arrow: pa.DataType) -> pa.DataType:
    return _innermost(arrow.value_type) if pa.types.is_fixed_size_list(arrow) else arrow


def arrow_type(name: str) -> pa.DataType:
    """Inverse of `logical_type` for types without child fields. Raises ValueError for any other text."""
    if name in _SIMPLE:
        return _SIMPLE[name]
    for pattern, build in _PARAMETRISED:
        found = re.fullmatch(pattern, name)
        if found:
            return build(found)
    raise ValueError(f"unknown logical type {name!r}")


def is_parent(name: str) -> bool:
    """Whether a logical type has child fields in the manifest."""
    return name == "struct" or name.partition(".")[0] in ("list", "large_list")


@implements("FORMAT-028")
def to_fields(schema: pa.Schema, first_id: int = 0) -> list[file_pb2.Field]:
    """The fields of ``schema``, depth first, ids from ``first_id``, parent -1 for top-level fields."""
    fields: list[file_pb2.Field] = []

    def add(field: pa.Field, parent: int) -> None:
        name = logical_type(field.type)
        var = name in ("string", "large_string", "binary", "large_binary")
        encoding = _NONE if name in ("struct", "null") else _VAR_BINARY if var else _PLAIN
        message = file_pb2.Field(
            name=field.name,
            id=first_id + len(fields),
            parent_id=parent,
            logical_type=name,
            nullable=field.nullable,
            encoding=encoding,
        )
        for key, value in sorted((field.metadata or {}).items()):
            message.metadata[key.decode()] = value
        message.unenforced_primary_key = _is_key(field.metadata)
        fields.append(message)
        if is_parent(name):
            for child in _children(field.type):
                add(child, message.id)

    for field in schema:
        add(field, -1)
    return fields


@implements("AMB-50")
def numbered(fields: Sequence[file_pb2.Field], ids: Mapping[str, FieldId]) -> list[file_pb2.Field]:
    """``fields`` with the given ids for the top-level columns named there; all others get larger ones.

    Fields that have these ids already stay as they are.
    """
    if all(ids.get(name, number) == number for name, number in field_ids(fields).items()):
        return list(fields)
    following = max(ids.values()) + 1
    renumbered: dict[int, int] = {}
    out = []
    for field in fields:
        known = ids.get(field.name) if field.parent_id == -1 else None
        if known is None:
            known, following = FieldId(following), following + 1
        renumbered[field.id] = known
        changed = file_pb2.Field()
        changed.CopyFrom(field)
        changed.id = known
        changed.parent_id = renumbered.get(field.parent_id, -1)
        out.append(changed)
    return out


def _is_key(metadata: Mapping[bytes, bytes] | None) -> bool:
    return (metadata or {}).get(PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")


def _children(arrow: pa.DataType) -> list[pa.Field]:
    return list(arrow) if pa.types.is_struct(arrow) else [arrow.value_field]


Children = Mapping[int, Sequence[file_pb2.Field]]
"""Fields below each field id; -1: the top."""


def children_of(fields: Sequence[file_pb2.Field]) -> Children:
    """Fields by the id of their parent, in their order."""
    children: dict[int, list[file_pb2.Field]] = {}
    for field in fields:
        children.setdefault(field.parent_id, []).append(field)
    return children


def columns_of(fields: Iterable[file_pb2.Field]) -> dict[int, str]:
    """By field id, the name of the top-level column that the field is or is below; ``fields`` are depth first."""
    found: dict[int, str] = {}
    for field in fields:
        column = field.name if field.parent_id == -1 else found.get(field.parent_id)
        if column is not None:
            found[field.id] = column
    return found


def check_columns(schema: pa.Schema, names: Iterable[str]) -> None:
    """Raise `InvalidArgument` for ``names`` that are no columns of ``schema``."""
    known = set(schema.names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidArgument(f"there are no columns {unknown}; the table has {schema.names}")


def to_field(field: file_pb2.Field, children: Children, path: str) -> pa.Field:
    """The Arrow field of ``field`` and what is below it.

    Raises `ArtifactError` naming the field for an unknown type or a wrong number of children.
    """
    below = [to_field(child, children, path) for child in children.get(field.id, ())]
    name = field.logical_type
    try:
        if name == "struct":
            arrow = pa.struct(below)
        elif is_parent(name):
            (item,) = below
            arrow = pa.list_(item) if name.startswith("list") else pa.large_list(item)
        else:
            arrow = arrow_type(name)
    except (ValueError, OverflowError, RecursionError) as error:
        reason = f"field {field.id} ({field.name!r}): type {name[:80]!r} with {len(below)} children is not supported"
        raise ArtifactError("FORMAT-028", path, reason) from error
    return pa.field(field.name, arrow, field.nullable, dict(field.metadata) or None)


def to_schema(fields: Sequence[file_pb2.Field], metadata: Mapping[str, bytes], path: str) -> pa.Schema:
    """Inverse of `to_fields`. Raises `ArtifactError` naming the field for an unknown type or a wrong parent."""
    children = children_of(fields)
    return pa.schema([to_field(field, children, path) for field in children.get(-1, ())], dict(metadata) or None)


def leaf_ids(fields: Iterable[file_pb2.Field]) -> list[int]:
    """Ids of the fields that have a column in a data file, in column order."""
    return [field.id for field in fields if not is_parent(field.logical_type)]


def field_ids(fields: Iterable[file_pb2.Field]) -> dict[str, FieldId]:
    """Id of each top-level column."""
    return {field.name: FieldId(field.id) for field in fields if field.parent_id == -1}


def primary_key(fields: Iterable[file_pb2.Field]) -> tuple[str, ...]:
    """Names of the unenforced primary key columns, in schema order; empty if there are none."""
    return tuple(
        field.name
        for field in fields
        if field.parent_id == -1
        and (field.unenforced_primary_key or _is_key({k.encode(): v for k, v in field.metadata.items()}))
    )


@implements("WRITER-015", "AMB-136")
def with_primary_key(schema: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """``schema`` with ``key``, and no other column, marked as unenforced primary key and not nullable.

    Raises `InvalidArgument` for a missing, repeated, nested or floating key column, or a repeated column name.
    """
    if len(set(schema.names)) != len(schema.names):
        raise InvalidArgument("each column needs a name of its own", clause="AMB-136")
    if not key or len(set(key)) != len(key):
        raise InvalidArgument("the primary key needs at least one column, each once", clause="WRITER-015")
    for name in key:
        if name not in schema.names:
            raise InvalidArgument(f"primary key column {name!r} is not in the schema", clause="WRITER-015")
        arrow = schema.field(name).type
        if pa.types.is_floating(arrow) or pa.types.is_nested(arrow) or pa.types.is_null(arrow):
            raise InvalidArgument(f"a column of type {arrow} cannot be a key: {name!r}", clause="AMB-136")
    fields = []
    for field in schema:
        marks = {name: value for name, value in (field.metadata or {}).items() if not name.startswith(PRIMARY_KEY)}
        if field.name in key:
            fields.append(field.with_nullable(False).with_metadata({**marks, PRIMARY_KEY: b"true"}))
        else:
            fields.append(field.with_metadata(marks or None))
    return pa.schema(fields, schema.metadata)
