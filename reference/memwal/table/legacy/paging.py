"""Pages of data files before version 2: where they are, and what their bytes mean.

Any value is reached with at most two reads: the page table tells where the pages of fixed-size values and of offsets
are, and two neighbouring offsets tell where a text or a binary value is.

Source: table documents, "Encodings"; AMB-128.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...clauses import implements
from ...codec.file_layout import Range, joined
from ...codec.pb.lance import file_pb2
from ...errors import ArtifactError
from ...words import counted
from .. import schema as schemas

Types = Mapping[int, pa.DataType]
"""Arrow type by field id."""
Pages = Mapping[int, npt.NDArray[np.int64]]
"""Field id -> array of shape (batches, 2): position in the file and number of values of each page."""

_VAR_BINARY = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_WIDE = {
    pa.string(): pa.large_string(),
    pa.large_string(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.large_binary(): pa.large_binary(),
}
_VALUES_MAX = 2**31
"""Values of a type that takes no bytes which one page may have."""


class PagedFile(Protocol):
    """What is needed of a file; see `structure.LegacyFile`."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def pages(self) -> Pages: ...
    @property
    def batch_offsets(self) -> tuple[int, ...]: ...
    @property
    def children(self) -> schemas.Children: ...
    def bytes_at(self, position: int, size: int) -> bytes:
        """Bytes that are at hand."""


def _columns(file: PagedFile, columns: Sequence[str] | None) -> list[file_pb2.Field]:
    top = {field.name: field for field in file.children.get(-1, ())}
    missing = [name for name in columns or () if name not in top]
    if missing:
        raise ArtifactError("FORMAT-016", file.path, f"the file has no columns {missing}; it has {list(top)}")
    return [top[name] for name in (top if columns is None else columns)]


def read(file: PagedFile, columns: Sequence[str] | None, batches: Sequence[int]) -> pa.Table:
    """The rows of ``batches``; ``columns``: top-level columns, in the order asked for. Raises `ArtifactError`.

    NULL and the empty value cannot be told apart in this layout: in a column that may be NULL text and binary read as
    NULL where two offsets are equal, and a NULL among values of fixed size reads as zero (AMB-128).
    """
    children = file.children
    fields = _columns(file, columns)
    arrow = [schemas.to_field(field, children, file.path) for field in fields]
    types = types_of(file, fields)
    found: list[list[pa.Array]] = [[] for _ in fields]
    for batch in batches:
        rows = file.batch_offsets[batch + 1] - file.batch_offsets[batch]
        for parts, field in zip(found, fields, strict=True):
            parts.append(decoded(file, field, children, types, batch, rows))
    shown = [pa.chunked_array(parts, type=field.type) for parts, field in zip(found, arrow, strict=True)]
    return pa.table(shown, schema=pa.schema(arrow))


def types_of(file: PagedFile, fields: Sequence[file_pb2.Field]) -> Types:
    """Types of ``fields`` and of all below them."""
    return {field.id: arrow for field, arrow in _walk(file, fields)}


def decoded(
    file: PagedFile,
    field: file_pb2.Field,
    children: schemas.Children,
    types: Types,
    batch: int,
    rows: int,
    *,
    clause: str = "FORMAT-026",
) -> pa.Array:
    """The ``rows`` values of ``field`` in one batch, with those of the fields below it.

    Raises `ArtifactError`, naming ``clause`` where the page has another number of values.
    """
    arrow = types[field.id]
    if pa.types.is_struct(arrow):
        below = [
            decoded(file, child, children, types, batch, rows, clause=clause) for child in children.get(field.id, ())
        ]
        if not below:
            raise ArtifactError("FORMAT-028", file.path, f"struct {field.name!r} has no fields")
        return pa.StructArray.from_arrays(below, fields=list(arrow))
    position, length = _page(file, field, batch)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        _check_length(file, field.name, length - 1, rows, position, clause)
        offsets = _list_offsets(file, field, arrow, position, length)
        (child,) = children[field.id]
        items = decoded(file, child, children, types, batch, int(offsets[-1]), clause=clause)
        build = pa.ListArray if pa.types.is_list(arrow) else pa.LargeListArray
        return build.from_arrays(pa.array(offsets), items, type=arrow)
    _check_length(file, field.name, length, rows, position, clause)
    if pa.types.is_dictionary(arrow):
        return _dictionary(file, field, arrow, position, length)
    return _leaf(file, field, arrow, position, length)


def _page(file: PagedFile, field: file_pb2.Field, batch: int) -> tuple[int, int]:
    position, length = (int(number) for number in file.pages[field.id][batch])
    if position < 0 or length < 0:
        reason = f"a page of column {field.name!r} with {length} values at {position} lies outside the file"
        raise ArtifactError("FORMAT-026", file.path, reason)
    return position, length


def _check_length(file: PagedFile, name: str, length: int, rows: int, position: int, clause: str) -> None:
    if length != rows:
        reason = f"column {name!r} has a page of {length} values for {counted(rows, 'row')}"
        raise ArtifactError(clause, file.path, reason, position)


def _leaf(file: PagedFile, field: file_pb2.Field, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    if arrow in _VAR_BINARY:
        return _var_binary(file, field, arrow, position, length)
    return _plain(file, field.name, arrow, position, length)


def _type_of(file: PagedFile, field: file_pb2.Field, children: schemas.Children) -> pa.DataType:
    """The Arrow type of ``field``; raises `ArtifactError` for one that this layout has no encoding for."""
    arrow = schemas.to_field(field, children, file.path).type
    values = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if not (schemas.is_parent(field.logical_type) or values in _VAR_BINARY or _is_plain(values)):
        reason = f"field {field.id} ({field.name!r}): values of type {arrow} have no encoding before version 2"
        raise ArtifactError("FORMAT-028", file.path, reason)
    return arrow


def _is_plain(arrow: pa.DataType) -> bool:
    while pa.types.is_fixed_size_list(arrow):
        arrow = arrow.value_type
    kinds = (pa.types.is_null, pa.types.is_primitive, pa.types.is_fixed_size_binary, pa.types.is_decimal)
    return any(kind(arrow) for kind in kinds)


def _plain_bytes(arrow: pa.DataType, length: int) -> int:
    """Bytes that ``length`` values of a type of fixed size take."""
    if pa.types.is_fixed_size_list(arrow):
        return _plain_bytes(arrow.value_type, length * arrow.list_size)
    return 0 if pa.types.is_null(arrow) else (length * arrow.bit_width + 7) // 8


@implements("FORMAT-030")
def _plain(file: PagedFile, name: str, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Values of fixed size, one after another; booleans are bits."""
    size = _plain_bytes(arrow, length)
    if not size and length > _VALUES_MAX:
        raise ArtifactError("FORMAT-026", file.path, f"column {name!r} has {length} values without bytes", position)
    if pa.types.is_null(arrow):
        return pa.nulls(length)
    if pa.types.is_fixed_size_list(arrow):
        items = _plain(file, name, arrow.value_type, position, length * arrow.list_size)
        return pa.Array.from_buffers(arrow, length, [None], children=[items])
    data = _slice(file, name, position, size, length)
    return pa.Array.from_buffers(arrow, length, [None, pa.py_buffer(data)])


def _var_offsets(file: PagedFile, name: str, position: int, length: int) -> npt.NDArray[np.int64]:
    """Absolute offsets, one more than values."""
    offsets = np.frombuffer(_slice(file, name, position, (length + 1) * 8, length), "<i8")
    if bool((np.diff(offsets) < 0).any()) or offsets[0] < 0:
        raise ArtifactError("FORMAT-031", file.path, f"offsets of column {name!r} fall", position)
    return offsets


@implements("FORMAT-031", "AMB-128")
def _var_binary(file: PagedFile, field: file_pb2.Field, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Two equal neighbouring offsets mean NULL, and the empty value where there are no NULLs."""
    name = field.name
    offsets = _var_offsets(file, name, position, length)
    start, end = int(offsets[0]), int(offsets[-1])
    data = _slice(file, name, start, end - start, length)
    valid = pa.py_buffer(np.packbits(np.diff(offsets) > 0, bitorder="little").tobytes()) if field.nullable else None
    buffers = [valid, pa.py_buffer((offsets - start).tobytes()), pa.py_buffer(data)]
    values = pa.Array.from_buffers(_WIDE[arrow], length, buffers)
    try:
        values.validate(full=True)
        return values.cast(arrow)
    except pa.ArrowInvalid as error:
        raise ArtifactError("FORMAT-031", file.path, f"column {name!r}: {error}", start) from error


@implements("FORMAT-031")
def _list_offsets(
    file: PagedFile, field: file_pb2.Field, arrow: pa.DataType, position: int, length: int
) -> npt.NDArray[np.signedinteger[Any]]:
    """Offsets into the values of the same batch, one more than lists, from 0 on."""
    kind = "<i4" if pa.types.is_list(arrow) else "<i8"
    data = _slice(file, field.name, position, _list_bytes(arrow, length), length)
    offsets: npt.NDArray[np.signedinteger[Any]] = np.frombuffer(data, kind)
    if offsets[0] < 0 or bool((np.diff(offsets) < 0).any()):
        raise ArtifactError("FORMAT-031", file.path, f"offsets of list column {field.name!r} fall", position)
    from_zero: npt.NDArray[np.signedinteger[Any]] = offsets - offsets[0]
    return from_zero


def _list_bytes(arrow: pa.DataType, length: int) -> int:
    return length * (4 if pa.types.is_list(arrow) else 8)


@implements("FORMAT-032")
def _dictionary(file: PagedFile, field: file_pb2.Field, arrow: pa.DataType, position: int, length: int) -> pa.Array:
    """Keys of the batch, and the values that the field's dictionary names."""
    keys = _plain(file, field.name, arrow.index_type, position, length)
    where = field.dictionary
    if where.offset < 0 or where.length < 0:
        reason = f"the dictionary of column {field.name!r} has {where.length} values at {where.offset}"
        raise ArtifactError("FORMAT-032", file.path, reason)
    values = _leaf(file, field, arrow.value_type, where.offset, where.length)
    try:
        found = pa.DictionaryArray.from_arrays(keys, values, ordered=arrow.ordered)
        found.validate(full=True)
    except (pa.ArrowInvalid, IndexError) as error:
        raise ArtifactError("FORMAT-032", file.path, f"column {field.name!r}: {error}", position) from error
    return found


def _slice(file: PagedFile, name: str, position: int, size: int, length: int) -> bytes:
    if position + size > file.size_bytes:
        reason = f"a page of column {name!r} with {length} values at {position} lies outside the file"
        raise ArtifactError("FORMAT-026", file.path, reason, min(position, file.size_bytes))
    return file.bytes_at(position, size)


def _walk(file: PagedFile, fields: Sequence[file_pb2.Field]) -> Iterator[tuple[file_pb2.Field, pa.DataType]]:
    """``fields`` and all below them, each with its type."""
    children = file.children
    open_fields = list(fields)
    while open_fields:
        field = open_fields.pop()
        arrow = _type_of(file, field, children)
        open_fields += children.get(field.id, ())
        yield field, arrow


def _paged(file: PagedFile, columns: Sequence[str]) -> Iterator[tuple[file_pb2.Field, pa.DataType]]:
    """The fields with pages below ``columns``, each with its type."""
    return ((f, arrow) for f, arrow in _walk(file, _columns(file, columns)) if not pa.types.is_struct(arrow))


def _page_bytes(arrow: pa.DataType, length: int) -> int:
    """Bytes of a page that the page table names."""
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return _list_bytes(arrow, length)
    if pa.types.is_dictionary(arrow):
        return _plain_bytes(arrow.index_type, length)
    return (length + 1) * 8 if arrow in _VAR_BINARY else _plain_bytes(arrow, length)


@implements("FORMAT-029")
def pages(file: PagedFile, columns: Sequence[str], batches: Sequence[int]) -> tuple[Range, ...]:
    """The first read: pages of ``columns`` in ``batches``, and dictionaries. Raises `ArtifactError`."""
    found: list[Range] = []
    for field, arrow in _paged(file, columns):
        for batch in batches:
            position, length = _page(file, field, batch)
            found.append((position, _page_bytes(arrow, length)))
        if pa.types.is_dictionary(arrow):
            where = field.dictionary
            found.append((where.offset, _page_bytes(arrow.value_type, where.length)))
    return _checked(file, found)


@implements("FORMAT-029")
def values(file: PagedFile, columns: Sequence[str], batches: Sequence[int]) -> tuple[Range, ...]:
    """The second read: the bytes that offsets point to, where those `pages` are at hand. Raises `ArtifactError`."""
    found: list[Range] = []

    def point(name: str, position: int, length: int) -> None:
        offsets = _var_offsets(file, name, position, length)
        found.append((int(offsets[0]), int(offsets[-1] - offsets[0])))

    for field, arrow in _paged(file, columns):
        if arrow in _VAR_BINARY:
            for batch in batches:
                point(field.name, *_page(file, field, batch))
        elif pa.types.is_dictionary(arrow) and arrow.value_type in _VAR_BINARY:
            point(field.name, field.dictionary.offset, field.dictionary.length)
    return _checked(file, found)


def _checked(file: PagedFile, found: Sequence[Range]) -> tuple[Range, ...]:
    for position, size in found:
        if position < 0 or size < 0 or position + size > file.size_bytes:
            reason = f"a page of {size} bytes at {position} lies outside the file"
            raise ArtifactError("FORMAT-026", file.path, reason, max(0, min(position, file.size_bytes)))
    return joined(found)


def spans(file: PagedFile, field: file_pb2.Field) -> list[Range]:
    """Position and size of each page of ``field`` itself; none for a struct. Raises `ArtifactError`."""
    arrow = _type_of(file, field, file.children)
    if pa.types.is_struct(arrow):
        return []
    found = [_page(file, field, batch) for batch in range(len(file.batch_offsets) - 1)]
    return [(position, _page_bytes(arrow, length)) for position, length in found]


def bytes_of(file: PagedFile, columns: Sequence[str]) -> tuple[int, bool]:
    """Bytes of all `pages` of ``columns``, and whether some of them point to `values`."""
    total, pointing = 0, False
    batches = range(len(file.batch_offsets) - 1)
    for field, arrow in _paged(file, columns):
        total += sum(_page_bytes(arrow, _page(file, field, batch)[1]) for batch in batches)
        pointing = pointing or arrow in _VAR_BINARY
    return total, pointing
