"""Data files of the layout before version 2 (0.1 and 0.2): decoding, for tables that were written long ago.

A file ends with u64 position of its metadata, u16 major and u16 minor version, and ``LANC``. The metadata say how rows
are cut into batches, and where the page table is: for each field id of the file in order, and each batch, a pair of
i64 (position, number of values). A struct has no values of its own. The schema is in a manifest inside the file, or
outside.

Source: table documents, "File Structure", "Encodings" and "Statistics"; AMB-128, 131. Decode only: the engine writes
version 2 files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import Message

from ..clauses import implements
from ..codec import protobuf
from ..codec.data_file import MAGIC
from ..codec.pb.lance import file_pb2, table_pb2
from ..errors import ArtifactError
from ..ids import FieldId
from . import schema as schemas

_FOOTER = struct.Struct("<QHH4s")
_VAR_BINARY = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())

M = TypeVar("M", bound=Message)
Runs = dict[int, npt.NDArray[np.int64]]
"""Field id -> array of shape (batches, 2): position in the file and number of values of each page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFile:
    """A file whose footer, metadata and page table were read."""

    data: bytes
    path: str
    version: tuple[int, int]
    """Major and minor, as the footer says."""
    fields: tuple[file_pb2.Field, ...]
    """Fields of the file, depth first."""
    batch_offsets: tuple[int, ...]
    """First row of each batch, and the number of rows at the end."""
    pages: Runs
    metadata: file_pb2.Metadata

    @property
    def rows(self) -> int:
        return self.batch_offsets[-1]

    @property
    def batches(self) -> int:
        return len(self.batch_offsets) - 1

    @property
    def children(self) -> schemas.Children:
        """Fields by the id of their parent; -1: the top."""
        return schemas.children_of(self.fields)


def is_legacy(data: bytes) -> bool:
    """Whether the footer is that of a file of this layout."""
    if len(data) < _FOOTER.size:
        return False
    _, major, minor, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    return bool(magic == MAGIC and (major, minor) in ((0, 0), (0, 1), (0, 2)))


@implements("FORMAT-021", "FORMAT-024", "FORMAT-025", "FORMAT-026", "FORMAT-050", "FORMAT-051")
def decode(data: bytes, path: str, fields: Sequence[file_pb2.Field] | None = None) -> LegacyFile:
    """Read the structure of a file; raises `ArtifactError` with the offset of what is cut or wrong.

    ``fields``: the fields that the file holds, for a file without a schema of its own.
    """
    if len(data) < _FOOTER.size:
        raise ArtifactError("FORMAT-024", path, f"{len(data)} bytes are too few for a data file", len(data))
    tail = len(data) - _FOOTER.size
    position, major, minor, magic = _FOOTER.unpack(data[tail:])
    if magic != MAGIC:
        raise ArtifactError("FORMAT-024", path, "no LANC mark at the end: cut, or not a data file", tail + 12)
    if (major, minor) not in ((0, 0), (0, 1), (0, 2)):
        raise ArtifactError("FORMAT-021", path, f"version {major}.{minor} is not of the layout before 2", tail + 8)
    metadata = _message(file_pb2.Metadata, data, position, tail, path)
    if fields is None:
        if not metadata.manifest_position:
            raise ArtifactError("FORMAT-025", path, "the file holds no schema, and none was given", position)
        manifest = _message(table_pb2.Manifest, data, metadata.manifest_position, tail, path)
        fields = list(manifest.fields)
    offsets = tuple(metadata.batch_offsets)
    if not offsets or offsets[0] != 0 or any(a > b for a, b in zip(offsets, offsets[1:], strict=False)):
        raise ArtifactError("FORMAT-026", path, f"batch offsets {list(offsets)} do not rise from 0", position)
    pages = _runs(data, metadata.page_table_position, fields, len(offsets) - 1, tail, path)
    return LegacyFile(
        data=data,
        path=path,
        version=(major, minor),
        fields=tuple(fields),
        batch_offsets=offsets,
        pages=pages,
        metadata=metadata,
    )


def _message(kind: type[M], data: bytes, position: int, limit: int, path: str) -> M:
    if position + 4 > limit:
        raise ArtifactError("FORMAT-024", path, f"a block at {position} lies beyond {limit}", limit)
    (length,) = struct.unpack_from("<I", data, position)
    if position + 4 + length > limit:
        raise ArtifactError("FORMAT-024", path, f"a block of {length} bytes at {position} is cut", position)
    return protobuf.parse(kind, data[position + 4 : position + 4 + length], clause="FORMAT-024", path=path)


@implements("FORMAT-020", "FORMAT-026")
def _runs(data: bytes, position: int, fields: Sequence[file_pb2.Field], batches: int, limit: int, path: str) -> Runs:
    """The page table: one run for each id from the least to the greatest of ``fields``."""
    if not fields or not batches:
        return {field.id: np.empty((0, 2), dtype=np.int64) for field in fields}
    first, last = min(f.id for f in fields), max(f.id for f in fields)
    size = (last - first + 1) * batches * 16
    if position < 0 or position + size > limit:
        raise ArtifactError("FORMAT-026", path, f"a page table of {size} bytes at {position} is cut", position)
    table = np.frombuffer(data, "<i8", size // 8, position).reshape(-1, batches, 2)
    return {field.id: table[field.id - first] for field in fields}


def read(file: LegacyFile, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of ``file``; ``columns``: top-level columns, in the order asked for. Raises `ArtifactError`.

    NULL and the empty value cannot be told apart in this layout: text and binary read as NULL where two offsets are
    equal, and a NULL among values of fixed size reads as zero (AMB-128).
    """
    children = file.children
    top = {field.name: field for field in children.get(-1, ())}
    names = list(top if columns is None else columns)
    missing = [name for name in names if name not in top]
    if missing:
        raise ArtifactError("FORMAT-016", file.path, f"the file has no columns {missing}; there are {list(top)}")
    parts = [[_decoded(file, top[name], children, file.pages, b) for name in names] for b in range(file.batches)]
    arrow = [schemas.to_field(top[name], children, file.path) for name in names]
    for batch, (start, end) in enumerate(zip(file.batch_offsets, file.batch_offsets[1:], strict=False)):
        for name, values in zip(names, parts[batch], strict=True):
            if len(values) != end - start:
                reason = f"column {name!r} has {len(values)} values in batch {batch}, which has {end - start} rows"
                raise ArtifactError("FORMAT-026", file.path, reason)
    columns_out = [pa.chunked_array([part[at] for part in parts], type=field.type) for at, field in enumerate(arrow)]
    return pa.table(columns_out, schema=pa.schema(arrow))


def _decoded(file: LegacyFile, field: file_pb2.Field, children: schemas.Children, pages: Runs, batch: int) -> pa.Array:
    """Values of ``field`` in one batch, with those of the fields below it."""
    below = [_decoded(file, child, children, pages, batch) for child in children.get(field.id, ())]
    arrow = schemas.to_field(field, children, file.path)
    if pa.types.is_struct(arrow.type):
        if not below or len({len(values) for values in below}) > 1:
            raise ArtifactError("FORMAT-026", file.path, f"fields of struct {field.name!r} differ in length")
        return pa.StructArray.from_arrays(below, fields=list(arrow.type))
    position, length = (int(number) for number in pages[field.id][batch])
    if pa.types.is_list(arrow.type) or pa.types.is_large_list(arrow.type):
        return _lists(file, field, arrow.type, below[0], position, length)
    if field.HasField("dictionary"):
        return _dictionary(file, field, arrow.type, position, length)
    return _leaf(file, field.name, arrow.type, position, length)


def _leaf(file: LegacyFile, name: str, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    if arrow in _VAR_BINARY:
        return _var_binary(file, name, arrow, position, length)
    return _plain(file, name, arrow, position, length)


@implements("FORMAT-029", "FORMAT-030")
def _plain(file: LegacyFile, name: str, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Values of fixed size, one after another; booleans are bits."""
    if pa.types.is_fixed_size_list(arrow):
        items = _plain(file, name, arrow.value_type, position, length * arrow.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=arrow)
    size = (length * arrow.bit_width + 7) // 8
    data = _slice(file, name, position, size, length)
    return pa.Array.from_buffers(arrow, length, [None, pa.py_buffer(data)])


@implements("FORMAT-031", "AMB-128")
def _var_binary(file: LegacyFile, name: str, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Absolute offsets, one more than values; two equal neighbours mean NULL."""
    offsets = np.frombuffer(_slice(file, name, position, (length + 1) * 8, length), "<i8")
    if len(offsets) > 1 and bool((np.diff(offsets) < 0).any()):
        raise ArtifactError("FORMAT-031", file.path, f"offsets of column {name!r} fall", position)
    start, end = int(offsets[0]), int(offsets[-1])
    data = _slice(file, name, start, end - start, length)
    wide = pa.large_string() if arrow in (pa.string(), pa.large_string()) else pa.large_binary()
    valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(valid.tobytes()), pa.py_buffer((offsets - start).tobytes()), pa.py_buffer(data)]
    values = pa.Array.from_buffers(wide, length, buffers)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ArtifactError("FORMAT-031", file.path, f"column {name!r}: {error}", start) from error
    return values.cast(arrow)


def _lists(
    file: LegacyFile, field: file_pb2.Field, arrow: pa.DataType, items: pa.Array, position: int, length: int
) -> pa.Array:
    """Offsets into the values of the same batch, one more than lists."""
    if length < 1:
        raise ArtifactError("FORMAT-031", file.path, f"list column {field.name!r} has {length} offsets", position)
    kind, width = ("<i4", 4) if pa.types.is_list(arrow) else ("<i8", 8)
    offsets = np.frombuffer(_slice(file, field.name, position, length * width, length), kind)
    offsets = offsets - offsets[0]
    if bool((np.diff(offsets) < 0).any()) or int(offsets[-1]) != len(items):
        reason = f"offsets of list column {field.name!r} do not rise to its {len(items)} values"
        raise ArtifactError("FORMAT-031", file.path, reason, position)
    build = pa.ListArray if pa.types.is_list(arrow) else pa.LargeListArray
    return build.from_arrays(pa.array(offsets, pa.int32() if width == 4 else pa.int64()), items, type=arrow)


@implements("FORMAT-032")
def _dictionary(file: LegacyFile, field: file_pb2.Field, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Keys of the batch, and the values that the field's dictionary names."""
    keys = _plain(file, field.name, arrow.index_type, position, length)
    where = field.dictionary
    values = _leaf(file, field.name, arrow.value_type, where.offset, where.length)
    try:
        found = pa.DictionaryArray.from_arrays(keys, values, ordered=arrow.ordered)
        found.validate(full=True)
    except (pa.ArrowInvalid, IndexError) as error:
        raise ArtifactError("FORMAT-032", file.path, f"column {field.name!r}: {error}", position) from error
    return found


def _slice(file: LegacyFile, name: str, position: int, size: int, length: int) -> bytes:
    if length < 0 or size < 0 or position < 0 or position + size > len(file.data):
        reason = f"a page of column {name!r} with {length} values at {position} lies outside the file"
        raise ArtifactError("FORMAT-026", file.path, reason, max(position, 0))
    return file.data[position : position + size]


@implements("FORMAT-042", "FORMAT-047", "FORMAT-053")
def statistics(file: LegacyFile) -> dict[FieldId, pa.Table]:
    """Bounds of each page by field id: columns ``null_count``, ``min_value``, ``max_value``, those that there are.

    They are bounds, possibly looser than the data, and never an answer to a query for the least or greatest value.
    Fields of other names are ignored. Empty for a file without statistics.
    """
    held = file.metadata.statistics
    if not held.schema:
        return {}
    fields = list(held.schema)
    pages = _runs(file.data, held.page_table_position, fields, 1, len(file.data) - _FOOTER.size, file.path)
    children = schemas.children_of(fields)
    found: dict[FieldId, pa.Table] = {}
    for column in children.get(-1, ()):
        if not column.name.isdecimal():
            continue
        bounds: dict[str, Any] = {
            child.name: _decoded(file, child, children, pages, 0)
            for child in children.get(column.id, ())
            if child.name in ("null_count", "min_value", "max_value")
        }
        for name, values in bounds.items():
            if len(values) != file.batches:
                reason = f"{name} of field {column.name} has {len(values)} values for {file.batches} pages"
                raise ArtifactError("FORMAT-053", file.path, reason, held.page_table_position)
        found[FieldId(int(column.name))] = pa.table(bounds)
    return found
