"""Data files of both layouts, and the files that have their form: WAL entries of revision A, snapshots, indexes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from ..codec import file_layout, protobuf
from ..codec.file_layout import FOOTER, Layout
from ..codec.pb.lance import file_pb2
from ..effects import Io
from ..errors import ArtifactError
from ..ids import UINT64_MAX, FieldId
from ..table.legacy import paging, reading, structure
from ..table.legacy.structure import LegacyFile
from . import kinds
from .node import U64, Fields, Node, Value, counted, limited, of_error, short, texts

_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
_SNAPSHOT = {"region_id", "version", "writer_epoch", "current_generation", "flushed_generations"}
_END_BYTES = 1 << 16
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


async def inspect(io: Io, name: str, size: int, limit: int) -> Node:
    """The structure of a file of ``size`` bytes. Raises `ArtifactError` where there is none."""
    first = max(0, size - _END_BYTES)
    end = await io.get(name, first, size - first) if size else b""
    if structure.is_legacy(end):
        return await _legacy(io, name, size, limit)
    path = io.path(name)
    start = file_layout.tables_start(end, size, path, clause="FORMAT-024")
    if start < first:
        end, first = await io.get(name, start, size - start), start
    position, length = file_layout.schema_range(end, size, path, clause="FORMAT-024")
    schema = end[position - first :][:length] if position >= first else await io.get(name, position, length)
    layout = file_layout.parse(end, schema, size, path)
    described = protobuf.parse(file_pb2.FileDescriptor, schema, clause="FORMAT-024", path=path)
    return _of_layout(name, path, end, layout, described, limit)


def _of_layout(
    name: str, path: str, end: bytes, layout: Layout, described: file_pb2.FileDescriptor, limit: int
) -> Node:
    _, _, _, buffers, _, major, minor, _ = FOOTER.unpack(end[-FOOTER.size :])
    fields = list(described.schema.fields)
    metadata = dict(described.schema.metadata)
    head: list[tuple[str, Value]] = [
        ("purpose", _purpose(name, fields, metadata)),
        ("size_bytes", U64(layout.size_bytes)),
        ("file_version", f"{major}.{minor}"),
        ("rows", U64(layout.rows)),
        ("columns", len(layout.columns)),
        ("global_buffers", buffers),
        ("metadata", texts(metadata)),
    ]
    damage: tuple[ArtifactError, ...] = ()
    kind = kinds.DATA_FILE
    if "writer_epoch" in metadata:
        kind = kinds.WAL_ENTRY
        text = metadata["writer_epoch"].decode(errors="replace")
        if _NUMBER.fullmatch(text) and int(text) <= UINT64_MAX:
            head += [("container", "lance"), ("epoch", U64(int(text))), ("barrier", layout.rows == 0)]
        else:
            reason = f"writer_epoch is {text!r}, not an unsigned 64-bit decimal number"
            damage = (ArtifactError("WAL-010", path, reason),)
    shown, more = limited(range(len(layout.columns)), limit)
    columns = [
        Node(
            kind="file_column",
            name=str(number),
            fields=(("pages", len(layout.columns[number])), ("bytes", U64(layout.column_bytes([number])))),
        )
        for number in shown
    ]
    children = (schema(fields, limit), counted("file_columns", "columns of the file", columns, more))
    return Node(
        kind=kind, name=name, fields=tuple(head), damage=tuple(of_error(error) for error in damage), children=children
    )


def _purpose(name: str, fields: list[file_pb2.Field], metadata: dict[str, bytes]) -> str:
    """What the rows are, as far as schema and name tell."""
    top = {field.name for field in fields if field.parent_id == -1}
    if "writer_epoch" in metadata:
        return "WAL entry"
    if top >= _SNAPSHOT:
        return "region snapshot"
    if re.search(r"(^|/)(_indices|_pk_index)/", name):
        return "index"
    return "rows"


def schema(fields: list[file_pb2.Field], limit: int) -> Node:
    """A field list, as manifests and files have it."""
    shown, more = limited(fields, limit)
    return counted("schema", "schema", [_field(field) for field in shown], more)


def _field(field: file_pb2.Field) -> Node:
    key = field.unenforced_primary_key or "lance-schema:unenforced-primary-key" in field.metadata
    found: Fields = (
        ("id", field.id),
        ("parent_id", field.parent_id),
        ("type", field.logical_type),
        ("nullable", field.nullable),
        ("primary_key", key),
        ("metadata", texts(dict(field.metadata))),
    )
    return Node(kind="field", name=field.name, fields=found)


async def _legacy(io: Io, name: str, size: int, limit: int) -> Node:
    file = await reading.open_legacy(io, name, size, 0, fields=())
    fields: Fields = (
        ("purpose", "rows"),
        ("size_bytes", U64(size)),
        ("file_version", ".".join(map(str, file.version))),
        ("rows", U64(file.rows)),
        ("batches", file.batches),
        ("has_schema", bool(file.metadata.manifest_position)),
        ("has_statistics", bool(file.metadata.statistics.schema)),
    )
    damage: list[ArtifactError] = []
    bounds: dict[FieldId, Fields] = {}
    try:
        bounds = await _bounds(io, name, file)
    except ArtifactError as error:
        damage.append(error)
    columns: list[Node] = []
    shown, more = limited(file.fields, limit)
    for field in shown:
        try:
            columns.append(_legacy_column(file, field, bounds.get(FieldId(field.id), ())))
        except ArtifactError as error:
            columns.append(Node(kind="file_column", name=field.name, damage=(of_error(error),)))
    children = (schema(list(file.fields), limit), counted("file_columns", "columns of the file", columns, more))
    found = tuple(of_error(error) for error in damage)
    return Node(kind=kinds.LEGACY_DATA_FILE, name=name, fields=fields, damage=found, children=children)


def _legacy_column(file: LegacyFile, field: file_pb2.Field, bounds: Fields) -> Node:
    encoding = file_pb2.Encoding.Name(field.encoding).lower() if field.encoding in range(5) else str(field.encoding)
    if field.HasField("dictionary"):
        encoding = f"dictionary of {field.dictionary.length} values, keys {encoding}"
    size = sum(length for _, length in paging.spans(file, field))
    fields: Fields = (
        ("id", field.id),
        ("encoding", encoding),
        ("pages", file.batches if field.logical_type != "struct" else 0),
        ("page_bytes", U64(size)),
        *bounds,
    )
    return Node(kind="file_column", name=field.name, fields=fields)


async def _bounds(io: Io, name: str, file: LegacyFile) -> dict[FieldId, Fields]:
    """Over all pages: the number of NULLs, and the outer bounds."""
    held = structure.statistics_file(file)
    if held is None:
        return {}
    names = [field.name for field in held.fields if field.parent_id == -1 and field.name.isdecimal()]
    whole = await reading.with_pages(io, name, held, names, range(held.batches))
    return {number: _outer(table) for number, table in structure.bounds(whole).items()}


def _outer(table: pa.Table) -> Fields:
    found: list[tuple[str, Value]] = []
    if "null_count" in table.column_names and pa.types.is_integer(table.schema.field("null_count").type):
        found.append(("null_count", U64(sum(table.column("null_count").to_pylist()))))
    for column, function in (("min_value", pc.min), ("max_value", pc.max)):
        if column in table.column_names:
            found.append((column, _bound(table.column(column), function)))
    return tuple(found)


def _bound(values: pa.ChunkedArray, function: Callable[[pa.ChunkedArray], pa.Scalar]) -> str | None:
    """The outermost of ``values`` as text, that of a time as its number; None where it is not known."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32())
    orderable = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, *_TEXTS)
    known = any(kind(values.type) for kind in orderable) or values.type in (pa.float32(), pa.float64())
    if not known or values.null_count or not len(values):
        return None
    found = function(values).as_py()
    return found.hex() if isinstance(found, bytes) else short(str(found))
