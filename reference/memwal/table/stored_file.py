"""One data file of a table in its store: which of its bytes are fetched for some rows of some columns.

Small files are fetched as a whole. Of larger ones the end is fetched first, which says where pages are, and then only
the pages that hold the wanted rows. Files before version 2 are those of `reading`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..clauses import implements
from ..codec import data_file, file_layout, protobuf
from ..codec.data_file import Decoder
from ..codec.file_layout import Layout, Range, joined
from ..codec.pb.lance import file_pb2, table_pb2
from ..codec.scratch import OpenFile, Piece
from ..effects import Io, remembered
from ..errors import ArtifactError, NotFound
from ..words import counted
from . import schema as schemas
from .legacy import paging, reading, structure
from .legacy.reading import END_BYTES, LegacyRows, get, parts
from .legacy.structure import LegacyFile

__all__ = [
    "END_BYTES", "WHOLE_BYTES", "Rows", "StoredFile", "at_hand", "decoder", "get", "layout_of", "narrowed",
    "open_columns", "open_file", "open_ranges", "open_rows", "opened", "parts",
]  # fmt: skip

WHOLE_BYTES = 1 << 20
"""Files up to this size are fetched as a whole: further requests would cost more than the bytes."""
OPENED_BYTES = 64 << 20
"""Files that can only be fetched as a whole (`column_numbers`), up to this size, are, and are kept; larger ones are
opened by a store that opens files."""

_LAYOUT_FACTOR = 8
"""How many times as large as the bytes that say it a layout is in memory."""

_BLOB = "lance-encoding:blob"
_PACKED = ("lance-encoding:packed", "packed")
"""Metadata of a struct whose values are in one column; the second is the older name."""

Rows = Decoder | LegacyRows
"""Rows of an open file: both have ``rows``, ``columns``, ``read`` and ``close``, and are context managers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file that was opened for some of its columns."""

    name: str
    """Relative to the table."""
    columns: tuple[str, ...]
    """Top-level columns to be read."""
    places: tuple[int, ...]
    """Of each of them, where in ``DataFile.fields`` its first field is."""
    fields: int
    """How many fields ``DataFile.fields`` names."""
    size_bytes: int
    layout: Layout | None
    """None for a file that is fetched, or opened, as a whole."""
    indices: tuple[int, ...] = ()
    """Numbers of the file's columns that make up `columns`."""
    ends: tuple[tuple[int, bytes], ...] = ()
    """Schema and end of the file, with their positions: what every reader needs. None of a file that is fetched."""
    held: bytes = b""
    """All of it, if it is at hand."""
    legacy: LegacyFile | None = None
    """Structure of a file before version 2."""
    legacy_names: tuple[str, ...] = ()
    """How that file calls `columns`."""

    @property
    def paged(self) -> bool:
        """Whether only those pages are fetched that hold the wanted rows."""
        if self.legacy is not None:
            return not self.legacy.has(0, self.size_bytes)
        return self.layout is not None

    @property
    def wanted_bytes(self) -> int:
        """Encoded bytes of the columns to be read, of all rows; more where only reading them would tell."""
        if self.legacy is not None:
            size, pointing = paging.bytes_of(self.legacy, self.legacy_names)
            return self.size_bytes if pointing else size
        return self.size_bytes if self.layout is None else self.layout.column_bytes(self.indices)

    @property
    def apart_bytes(self) -> int:
        """About how many encoded bytes are fetched for a row that lies apart from others."""
        if self.layout is None:
            return self.wanted_bytes
        columns = [self.layout.columns[number] for number in self.indices]
        return sum(max((page.apart_bytes for page in pages), default=0) for pages in columns)


async def open_file(
    io: Io, name: str, file: table_pb2.DataFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]
) -> StoredFile:
    """Open ``file``, whose object is ``name``, for top-level ``columns`` of a table with ``fields``.

    Raises `ArtifactError` for a missing or damaged file.
    """
    if (file.file_major_version, file.file_minor_version) in structure.VERSIONS:
        return await _open_legacy(io, name, file, columns, fields)
    size = file.file_size_bytes
    indices = column_numbers(file, columns, fields) if not size or size > WHOLE_BYTES else None
    if indices is not None and not size:
        size = await reading.size(io, name)
    whole = StoredFile(
        name=name,
        columns=tuple(columns),
        places=_places(file, columns, fields),
        fields=len(file.fields),
        size_bytes=size,
        layout=None,
    )
    opens = io.files and size > OPENED_BYTES
    if size <= WHOLE_BYTES or (indices is None and not opens):
        return whole
    layout, ends = await layout_of(io, name, size)
    if indices is None:
        return replace(whole, ends=ends)
    if max(indices) >= len(layout.columns):
        reason = f"holds {counted(len(layout.columns), 'column')}, and the table manifest names column {max(indices)}"
        raise ArtifactError("FORMAT-019", io.path(name), reason)
    return replace(whole, layout=layout, indices=indices, ends=ends)


async def open_columns(io: Io, name: str, columns: Sequence[str]) -> StoredFile:
    """Open a file that is none of the table's rows. It has ``columns`` and no others, by any name, and none is nested.

    Raises `ArtifactError` for a missing or damaged file, and for one before version 2.
    """
    size = await reading.size(io, name)
    places = tuple(range(len(columns)))
    whole = StoredFile(
        name=name, columns=tuple(columns), places=places, fields=len(columns), size_bytes=size, layout=None
    )
    if size <= WHOLE_BYTES:
        return whole
    layout, ends = await layout_of(io, name, size)
    if len(layout.columns) != len(columns):
        raise ArtifactError(
            "FORMAT-019", io.path(name), f"holds {counted(len(layout.columns), 'column')}, not {len(columns)}"
        )
    return replace(whole, layout=layout, indices=places, ends=ends)


def narrowed(
    stored: StoredFile, file: table_pb2.DataFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]
) -> StoredFile:
    """The file ``stored``, as if it had been opened for those of its ``columns`` only."""
    indices = column_numbers(file, columns, fields) if stored.layout is not None else None
    legacy = stored.legacy
    return replace(
        stored,
        columns=tuple(columns),
        places=_places(file, columns, fields),
        indices=indices or (),
        legacy_names=reading.names_by_id(legacy, columns, fields) if legacy is not None else (),
    )


async def rows(io: Io, name: str, file: table_pb2.DataFile, fields: Sequence[file_pb2.Field]) -> int:
    """How many rows ``file``, whose object is ``name``, says that it has. Raises `ArtifactError`."""
    size = await reading.size(io, name)
    if (file.file_major_version, file.file_minor_version) not in structure.VERSIONS:
        return (await layout_of(io, name, size))[0].rows
    return (await reading.open_legacy(io, name, size, 0, *reading.own_fields(file, fields))).rows


@implements("FORMAT-021")
async def _open_legacy(
    io: Io, name: str, file: table_pb2.DataFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]
) -> StoredFile:
    """The size is asked for: versions of pylance from 0.33 to 7.0 record a wrong one for these files."""
    size = await reading.size(io, name)
    found = await reading.open_legacy(io, name, size, WHOLE_BYTES, *reading.own_fields(file, fields))
    return StoredFile(
        name=name,
        columns=tuple(columns),
        places=_places(file, columns, fields),
        fields=len(file.fields),
        size_bytes=size,
        layout=None,
        legacy=found,
        legacy_names=reading.names_by_id(found, columns, fields),
    )


def _places(file: table_pb2.DataFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]) -> tuple[int, ...]:
    """Of each of the top-level ``columns``, where in ``DataFile.fields`` the first field of it is."""
    known = schemas.columns_of(fields)
    first: dict[str | None, int] = {}
    for place, number in enumerate(file.fields):
        first.setdefault(known.get(number), place)
    return tuple(first[column] for column in columns)


def _names_in_file(io: Io, file: StoredFile, schema: bytes) -> tuple[str, ...]:
    """How the file itself calls its `StoredFile.columns`: a column that was renamed has its old name there.

    The fields of the file and those of ``DataFile.fields`` are in one order, depth first. ``DataFile.fields`` has all
    of them, or leaves out those of packed structs, which have no column (FORMAT-059, the worked example), or has only
    the leaf fields, in files with one column per leaf field. ``schema``: the file's own.
    """
    described = protobuf.parse(file_pb2.FileDescriptor, schema, clause="FORMAT-024", path=io.path(file.name))
    held = list(described.schema.fields)
    with_columns = _unpacked(held)
    parents = {field.parent_id for field in with_columns}
    leaves = [field for field in with_columns if field.id not in parents]
    for candidates in (held, with_columns, leaves):
        if len(candidates) == file.fields:
            by_id = {field.id: field for field in held}
            return tuple(_top(candidates[place], by_id) for place in file.places)
    return file.columns


def _unpacked(fields: Sequence[file_pb2.Field]) -> list[file_pb2.Field]:
    """``fields``, depth first, without those below a packed struct."""
    packed: set[int] = set()
    kept = []
    for each in fields:
        if each.parent_id in packed:
            packed.add(each.id)
            continue
        kept.append(each)
        if any(each.metadata.get(name, b"").lower() == b"true" for name in _PACKED):
            packed.add(each.id)
    return kept


def _top(field: file_pb2.Field, by_id: Mapping[int, file_pb2.Field]) -> str:
    """Name of the top-level field above ``field``."""
    seen: set[int] = set()
    while field.parent_id in by_id and field.id not in seen:
        seen.add(field.id)
        field = by_id[field.parent_id]
    return field.name


@implements("FORMAT-059")
def column_numbers(
    file: table_pb2.DataFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]
) -> tuple[int, ...] | None:
    """Numbers of the columns that hold ``columns``; None where the table manifest does not tell.

    It tells for files with one column per leaf field. Blobs keep their bytes outside of their pages.
    """
    version = file.file_major_version, file.file_minor_version
    if version not in data_file.LEAF_VERSIONS or len(file.column_indices) != len(file.fields):
        return None
    asked = set(columns)
    wanted = {number for number, column in schemas.columns_of(fields).items() if column in asked}
    if any(_BLOB in field.metadata for field in fields if field.id in wanted):
        return None
    numbers = zip(file.fields, file.column_indices, strict=True)
    return tuple(index for field, index in numbers if field in wanted and index >= 0) or None


async def layout_of(io: Io, name: str, size: int) -> tuple[Layout, tuple[tuple[int, bytes], ...]]:
    """Where the parts of the file are, and the parts that tell it: one request, more only for a long end."""
    what = ("layout", io.path(name), size)
    return await remembered(io, what, partial(_layout_of, io, name, size), _bytes_of_layout)


def _bytes_of_layout(found: tuple[Layout, tuple[tuple[int, bytes], ...]]) -> int:
    return _LAYOUT_FACTOR * sum(len(data) for _, data in found[1])


async def _layout_of(io: Io, name: str, size: int) -> tuple[Layout, tuple[tuple[int, bytes], ...]]:
    path, clause = io.path(name), "FORMAT-024"
    first = max(0, size - END_BYTES)
    end = await get(io, name, "FORMAT-018", first, size - first)
    start = file_layout.tables_start(end, size, path, clause=clause)
    if start < first:
        first, end = start, await get(io, name, "FORMAT-018", start, size - start)
    position, length = file_layout.schema_range(end, size, path, clause=clause)
    if position >= first:
        schema = end[position - first :][:length]
    else:
        schema = await get(io, name, "FORMAT-018", position, length)
    layout = file_layout.parse(end, schema, size, path, clause=clause)
    return layout, ((position, schema), (start, end[start - first :]))


async def open_rows(io: Io, file: StoredFile, start: int, rows: int) -> Rows:
    """A reader of ``rows`` rows of the file's columns from ``start`` on, with all that it needs at hand."""
    if file.legacy is not None:
        wanted = file.legacy.batches_of(start, rows)
        held = await reading.with_pages(io, file.name, file.legacy, file.legacy_names, wanted)
        return LegacyRows(held, file.legacy_names)
    if file.layout is not None:
        return await open_ranges(io, file, file.layout.ranges(file.indices, start, rows))
    if file.held:
        return decoder(io, file, [(0, file.held)])
    if file.ends and (whole := await opened(io, file.name, file.size_bytes)) is not None:
        return decoder(io, file, whole)
    what = ("rows of a data file", io.path(file.name), file.columns, file.places, file.fields)
    return await remembered(io, what, partial(_shared, io, file), _bytes_of_whole)


async def _shared(io: Io, file: StoredFile) -> Decoder:
    reader = decoder(io, file, [(0, await _whole(io, file))])
    reader.shared = io.remembers
    return reader


def _bytes_of_whole(opened: Decoder) -> int:
    return opened.size_bytes


async def at_hand(io: Io, file: StoredFile) -> StoredFile:
    """The file with all of it at hand, if it is one that is fetched as a whole. Raises `ArtifactError`."""
    if file.ends or file.legacy is not None or file.held:
        return file
    return replace(file, held=await _whole(io, file))


async def _whole(io: Io, file: StoredFile) -> bytes:
    data = await get(io, file.name, "FORMAT-018")
    file_layout.check_whole(data, io.path(file.name), clause="FORMAT-024")
    return data


def decoder(io: Io, file: StoredFile, parts: Sequence[Piece] | OpenFile) -> Decoder:
    """A reader of the file's columns by ``parts`` of it: those of `StoredFile.ends` first, or the whole."""
    path, size = io.path(file.name), file.size_bytes
    if isinstance(parts, OpenFile) or file.layout is not None:
        schema = file.ends[0][1]
    else:
        whole, size = parts[0][1], len(parts[0][1])
        at, length = file_layout.schema_range(bytes(whole), size, path, clause="FORMAT-024")
        schema = bytes(whole[at : at + length])
    return Decoder(parts, size, path, columns=_names_in_file(io, file, schema))


async def open_ranges(io: Io, file: StoredFile, ranges: Iterable[Range]) -> Decoder:
    """A reader of what lies in ``ranges`` of `StoredFile.layout`; without a layout, of the whole file."""
    if file.layout is None:
        return decoder(io, file, [(0, file.held or await _whole(io, file))])
    whole = await opened(io, file.name, file.size_bytes)
    return decoder(io, file, whole or [*file.ends, *await parts(io, file.name, joined(ranges), file.size_bytes)])


async def opened(io: Io, name: str, size_bytes: int) -> OpenFile | None:
    """The whole file for a `Decoder`; None where the store opens none, and its parts are to be asked for."""
    if not io.files:
        return None
    try:
        file = await io.open(name, size_bytes)
    except NotFound:
        return None
    return OpenFile(file) if file is not None else None
