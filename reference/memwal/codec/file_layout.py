"""Where the parts of a Lance data file are, so that some of its columns or rows can be read without the rest.

A file ends with column metadata, two offset tables and a footer; before them are the pages of its columns, and global
buffers of which the first holds the schema. A page holds consecutive rows of one column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..clauses import implements
from ..errors import ArtifactError
from . import mini_blocks, protobuf
from .pb.lance import file2_pb2, file_pb2

MAGIC = b"LANC"
ITEMS_VERSION = 0, 3
"""Version in the footer of files of version 2.0, whose columns of list items have other lengths than the file."""
FOOTER = struct.Struct("<QQQIIHH4s")
"""Positions of column metadata, column offset table and global buffer offset table; counts of both; version; magic."""
GLOBAL_BUFFER = struct.Struct("<QQ")
"""Position and size of one entry of an offset table."""
GAP_BYTES = 1 << 20
"""Parts that lie closer together than this are read in one range: a request costs more than the bytes between."""

Range = tuple[int, int]
"""Position and size in bytes."""


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive rows of one column."""

    first_row: int
    end_row: int
    buffers: tuple[Range, ...]
    word: str | None = None
    """Type of the words of its chunks (`mini_blocks`); None for a page without chunks."""
    row_bytes: int = 0
    """Width of a row in a page that has nothing but rows of one width; 0 for others."""

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.buffers)

    @property
    def apart_bytes(self) -> int:
        """About how many of its bytes are fetched for a row that lies apart from others."""
        if self.word is None:
            return self.row_bytes or self.size_bytes
        words, chunks = self.buffers[0][1], self.buffers[1][1]
        return self.size_bytes - chunks + chunks // max(1, words // np.dtype(self.word).itemsize)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of one file."""

    size_bytes: int
    rows: int
    columns: tuple[tuple[Page, ...], ...]
    """Pages of each column, ascending."""
    shared: tuple[tuple[Range, ...], ...]
    """What each column needs besides its pages."""

    def column_bytes(self, columns: Iterable[int]) -> int:
        """Bytes that the pages of ``columns`` take up."""
        return sum(page.size_bytes for column in columns for page in self.columns[column])

    def ranges(self, columns: Sequence[int], start: int, rows: int) -> tuple[Range, ...]:
        """The pages that hold ``rows`` rows of ``columns`` from row ``start`` on, joined where they are close.

        Besides them a reader needs the schema and what follows `tables_start`.
        """
        wanted: list[Range] = []
        for column in columns:
            wanted += self.shared[column]
            for page in self.columns[column]:
                if page.first_row < start + rows and start < page.end_row:
                    wanted += page.buffers
        return joined(wanted)

    def pages_of(self, columns: Sequence[int], rows: npt.NDArray[np.int64]) -> frozenset[Range]:
        """What the reader of `ranges` needs for single ``rows`` of ``columns``, ascending; none is joined."""
        wanted: set[Range] = set()
        for column in columns:
            wanted.update(self.shared[column])
            for page in self.columns[column]:
                first = int(np.searchsorted(rows, page.first_row))
                if first < len(rows) and rows[first] < page.end_row:
                    wanted.update(page.buffers)
        return frozenset(wanted)


def joined(wanted: Iterable[Range], gap: int | None = None) -> tuple[Range, ...]:
    """``wanted`` in order, with those that lie at most ``gap`` bytes (`GAP_BYTES`) apart in one; none is empty."""
    starts, ends = list[int](), list[int]()
    most = GAP_BYTES if gap is None else gap
    for position, size in sorted(part for part in wanted if part[1]):
        if ends and position - ends[-1] <= most:
            ends[-1] = max(ends[-1], position + size)
        else:
            starts.append(position)
            ends.append(position + size)
    return tuple((start, end - start) for start, end in zip(starts, ends, strict=True))


def check_whole(data: bytes, path: str, *, clause: str) -> None:
    """Check where a whole file says that its parts are: a native reader that believes it may ask for any memory."""
    position, size = schema_range(data, len(data), path, clause=clause)
    parse(data, data[position : position + size], len(data), path, clause=clause)


def footer(end: bytes, size_bytes: int, path: str, *, clause: str) -> tuple[int, int, int, int, int]:
    """Positions of column metadata, column and global buffer offset tables, and the counts of global buffers, columns.

    ``end``: the last bytes of a file of ``size_bytes``. Raises `ArtifactError` where a position lies beyond the file.
    """
    if len(end) < FOOTER.size:
        raise ArtifactError(clause, path, f"{len(end)} bytes are too few for a Lance file", size_bytes)
    columns, column_table, buffer_table, buffers, count, _, _, magic = FOOTER.unpack(end[-FOOTER.size :])
    if magic != MAGIC:
        reason = "it does not end with LANC: it was cut, or it is not a Lance file"
        raise ArtifactError(clause, path, reason, size_bytes - len(MAGIC))
    if max(columns, column_table, buffer_table) > size_bytes - FOOTER.size:
        raise ArtifactError(clause, path, "a footer position lies beyond the file", size_bytes - FOOTER.size)
    return columns, column_table, buffer_table, buffers, count


def tables_start(end: bytes, size_bytes: int, path: str, *, clause: str) -> int:
    """Where column metadata and offset tables begin, by the footer at the end of ``end``."""
    columns, column_table, buffer_table, _, _ = footer(end, size_bytes, path, clause=clause)
    return min(columns, column_table, buffer_table)


def schema_range(end: bytes, size_bytes: int, path: str, *, clause: str) -> Range:
    """Where the schema is. ``end`` begins at `tables_start` or before."""
    _, _, table, count, _ = footer(end, size_bytes, path, clause=clause)
    if not count:
        raise ArtifactError(clause, path, "the file has no schema")
    return _entries(end, size_bytes, table, 1, path, clause)[0]


def descriptor(data: bytes, path: str, *, clause: str) -> file_pb2.FileDescriptor:
    """Number of rows and schema, with its metadata, of a whole file."""
    position, size = schema_range(data, len(data), path, clause=clause)
    return protobuf.parse(file_pb2.FileDescriptor, data[position : position + size], clause=clause, path=path)


@implements("FORMAT-024")
def parse(end: bytes, schema: bytes, size_bytes: int, path: str, *, clause: str = "FORMAT-024") -> Layout:
    """Layout of a file of ``size_bytes`` whose last bytes, from `tables_start` or before, are ``end``.

    ``schema``: the bytes at `schema_range`. Raises `ArtifactError` where they describe no file.
    """
    _, column_table, _, _, count = footer(end, size_bytes, path, clause=clause)
    by_leaf = FOOTER.unpack(end[-FOOTER.size :])[5:7] != ITEMS_VERSION
    described = protobuf.parse(file_pb2.FileDescriptor, schema, clause=clause, path=path)
    columns, shared = [], []
    for position, size in _entries(end, size_bytes, column_table, count, path, clause):
        held = end[position - size_bytes + len(end) :][:size] if position >= size_bytes - len(end) else b""
        if len(held) != size:
            raise ArtifactError(clause, path, "column metadata lies outside of its place", position)
        column = protobuf.parse(file2_pb2.ColumnMetadata, held, clause=clause, path=path)
        if by_leaf:
            _check_lengths(column, described.length, path, clause)
        columns.append(_pages(column, described.length, size_bytes, path, clause))
        shared.append(_buffers(column, size_bytes, path, clause) + _elsewhere(column, size_bytes, path, clause))
    return Layout(
        size_bytes=size_bytes,
        rows=described.length,
        columns=tuple(columns),
        shared=tuple(shared),
    )


def _entries(end: bytes, size_bytes: int, table: int, count: int, path: str, clause: str) -> list[Range]:
    first = table - (size_bytes - len(end))
    if first < 0 or first + count * GLOBAL_BUFFER.size > len(end):
        raise ArtifactError(clause, path, f"an offset table of {count} entries lies beyond the file", table)
    found = [GLOBAL_BUFFER.unpack_from(end, first + number * GLOBAL_BUFFER.size) for number in range(count)]
    return [_checked((position, size), size_bytes, path, clause) for position, size in found]


def _check_lengths(column: file2_pb2.ColumnMetadata, rows: int, path: str, clause: str) -> None:
    """Each page starts where the one before it ends, and the last one ends with the file's rows."""
    at = 0
    for page in column.pages:
        if page.priority != at:
            raise ArtifactError(clause, path, f"a page starts at row {page.priority}, and those before it have {at}")
        at += page.length
    if column.pages and at != rows:
        raise ArtifactError(clause, path, f"a column has pages of {at} rows, and the file has {rows}")


def _pages(column: file2_pb2.ColumnMetadata, rows: int, size_bytes: int, path: str, clause: str) -> tuple[Page, ...]:
    starts = [page.priority for page in column.pages]
    ends = [*starts[1:], rows] if starts else []
    if starts and (starts[0] != 0 or any(end < start for start, end in zip(starts, ends, strict=True))):
        raise ArtifactError(clause, path, "the pages of a column are not in row order")
    return tuple(
        Page(
            start,
            end,
            _buffers(page, size_bytes, path, clause) + _elsewhere(page, size_bytes, path, clause),
            _word(page, end - start),
            _row_bytes(page, end - start),
        )
        for page, start, end in zip(column.pages, starts, ends, strict=True)
    )


def _row_bytes(page: file2_pb2.ColumnMetadata.Page, rows: int) -> int:
    if len(page.buffer_sizes) != 1:
        return 0
    return mini_blocks.row_bytes_of(page.encoding.direct.encoding, rows, page.buffer_sizes[0])


def _word(page: file2_pb2.ColumnMetadata.Page, rows: int) -> str | None:
    if len(page.buffer_sizes) < 2 or not page.buffer_sizes[0]:
        return None
    return mini_blocks.word_of(page.encoding.direct.encoding, rows)


def _buffers(
    holder: file2_pb2.ColumnMetadata | file2_pb2.ColumnMetadata.Page, size_bytes: int, path: str, clause: str
) -> tuple[Range, ...]:
    if len(holder.buffer_offsets) != len(holder.buffer_sizes):
        raise ArtifactError(clause, path, "buffers of a page have unequally many positions and sizes")
    pairs = zip(holder.buffer_offsets, holder.buffer_sizes, strict=True)
    return tuple(_checked(pair, size_bytes, path, clause) for pair in pairs)


def _elsewhere(
    holder: file2_pb2.ColumnMetadata | file2_pb2.ColumnMetadata.Page, size_bytes: int, path: str, clause: str
) -> tuple[Range, ...]:
    """The description of an encoding that is stored apart."""
    if holder.encoding.WhichOneof("location") != "indirect":
        return ()
    place = holder.encoding.indirect
    return (_checked((place.buffer_location, place.buffer_length), size_bytes, path, clause),)


def _checked(found: Range, size_bytes: int, path: str, clause: str) -> Range:
    if sum(found) > size_bytes:
        raise ArtifactError(clause, path, f"a part of {found[1]} bytes lies beyond the file", found[0])
    return found
