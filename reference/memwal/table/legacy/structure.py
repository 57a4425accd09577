"""Data files of the layout before version 2 (0.1 and 0.2): their structure, for tables that were written long ago.

A file ends with u64 position of its metadata, u16 major and u16 minor version, and ``LANC``. The metadata say how rows
are cut into batches, and where the page table is: for each field id of the file in order, and each batch, a pair of
i64 (position, number of values). A struct has no values of its own. The schema is in a manifest inside the file, or
outside.

Source: table documents, "File Structure" and "Statistics"; AMB-131. Decode only: the engine writes version 2 files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import Message

from ...clauses import implements
from ...codec import protobuf
from ...codec.data_file import MAGIC
from ...codec.pb.lance import file_pb2, table_pb2
from ...errors import ArtifactError, EngineBug
from ...ids import FieldId
from .. import schema as schemas
from . import paging
from .paging import Pages

FOOTER = struct.Struct("<QHH4s")
"""Position of the metadata; version; magic."""
VERSIONS = ((0, 0), (0, 1), (0, 2))
"""Versions of the layout; a table manifest may say 0.0 for either of the others (FORMAT-021)."""
_PAGES_FROM_0 = ((0, 0), (0, 1))
"""Versions at the end of a file whose page table begins with the id 0, whatever the least id of its fields is."""

_LENGTH = struct.Struct("<I")
_DEPTH_MAX = 64
"""Levels of nesting that a schema may have."""

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFile:
    """A file whose footer, metadata and page table were read."""

    parts: tuple[tuple[int, bytes], ...]
    """Position and bytes of what is at hand of the file."""
    size_bytes: int
    path: str
    version: tuple[int, int]
    """Major and minor, as the footer says."""
    fields: tuple[file_pb2.Field, ...]
    """Fields of the file, depth first."""
    batch_offsets: tuple[int, ...]
    """First row of each batch, and the number of rows at the end."""
    pages: Pages
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

    def batches_of(self, start: int, rows: int) -> range:
        """The batches that hold ``rows`` rows from row ``start`` on."""
        if not rows:
            return range(0)
        first = int(np.searchsorted(self.batch_offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.batch_offsets, start + rows, side="left"))
        return range(first, min(last, self.batches))

    def bytes_at(self, position: int, size: int) -> bytes:
        """``size`` bytes that are at hand and inside of the file."""
        if not size:
            return b""
        for start, data in self.parts:
            if start <= position and position + size <= start + len(data):
                return data[position - start : position - start + size]
        raise EngineBug(f"{size} bytes at {position} of {self.path} were not fetched")

    def has(self, position: int, size: int) -> bool:
        """Whether ``size`` bytes at ``position`` are at hand."""
        return any(start <= position and position + size <= start + len(data) for start, data in self.parts)

    def having(self, parts: Sequence[tuple[int, bytes]]) -> LegacyFile:
        """The file with ``parts`` at hand, and what was before."""
        return replace(self, parts=(*self.parts, *parts))


def is_legacy(data: bytes) -> bool:
    """Whether ``data``, a file or the end of one, ends as a file of this layout does."""
    if len(data) < FOOTER.size:
        return False
    _, major, minor, magic = FOOTER.unpack(data[-FOOTER.size :])
    return bool(magic == MAGIC and (major, minor) in VERSIONS)


@implements("FORMAT-021", "FORMAT-024", "AMB-146")
def _footer(end: bytes, size_bytes: int, path: str) -> tuple[int, tuple[int, int]]:
    """Position of the metadata, and the version."""
    if len(end) < FOOTER.size:
        raise ArtifactError("FORMAT-024", path, f"{len(end)} bytes are too few for a data file", len(end))
    tail = size_bytes - FOOTER.size
    position, major, minor, magic = FOOTER.unpack(end[-FOOTER.size :])
    if magic != MAGIC:
        raise ArtifactError(
            "FORMAT-024", path, "it does not end with LANC: it was cut, or it is not a data file", tail + 12
        )
    if (major, minor) not in VERSIONS:
        raise ArtifactError("FORMAT-021", path, f"version {major}.{minor} is not of the layout before 2", tail + 8)
    if position + _LENGTH.size > tail:
        raise ArtifactError("FORMAT-024", path, f"metadata at {position} lie beyond {tail}", tail)
    return position, (major, minor)


def metadata_start(end: bytes, size_bytes: int, path: str) -> int:
    """Where the metadata begin, by the footer at the end of ``end``. Raises `ArtifactError`."""
    return _footer(end, size_bytes, path)[0]


def structure_start(end: bytes, size_bytes: int, path: str) -> int:
    """Where the first of page tables, schema and metadata begins; ``end`` begins at `metadata_start` or before.

    From there to the end is what `decode` needs. Raises `ArtifactError`.
    """
    position, _ = _footer(end, size_bytes, path)
    at_hand = _Block(end, size_bytes - len(end), size_bytes - FOOTER.size, path)
    metadata = at_hand.message(file_pb2.Metadata, position)
    statistics = metadata.statistics.page_table_position if metadata.statistics.schema else position
    return min(position, metadata.page_table_position, statistics, metadata.manifest_position or position)


@dataclass(frozen=True, slots=True)
class _Block:
    """The end of a file, or all of it, as a holder of messages that have their length in front of them."""

    data: bytes
    first: int
    """Position of ``data`` in the file."""
    limit: int
    """Position of the footer."""
    path: str

    def slice(self, position: int, size: int, clause: str, what: str) -> bytes:
        if not self.first <= position <= position + size <= self.limit:
            reason = f"{what} of {size} bytes at {position} is cut"
            raise ArtifactError(clause, self.path, reason, min(position, self.limit))
        return self.data[position - self.first : position - self.first + size]

    def message(self, kind: type[M], position: int) -> M:
        (length,) = _LENGTH.unpack(self.slice(position, _LENGTH.size, "FORMAT-024", "a block"))
        held = self.slice(position + _LENGTH.size, length, "FORMAT-024", "a block")
        try:
            return protobuf.parse(kind, held, clause="FORMAT-024", path=self.path)
        except ArtifactError as error:
            raise ArtifactError(error.clause, self.path, error.reason, position) from error


@implements("FORMAT-025", "FORMAT-026", "FORMAT-051", "FORMAT-060", "FORMAT-062", "AMB-147")
def decode(
    data: bytes,
    path: str,
    fields: Sequence[file_pb2.Field] | None = None,
    *,
    size_bytes: int | None = None,
    span: range | None = None,
) -> LegacyFile:
    """Read the structure of a file; raises `ArtifactError` with the offset of what is cut or wrong.

    ``data``: the file, or its end from `structure_start` on, and then ``size_bytes`` tells the size of all. ``fields``:
    those that the file holds, for a file without a schema of its own; ``span``: the ids that its page table has, if
    these are more than the ones of ``fields``.
    """
    size = len(data) if size_bytes is None else size_bytes
    position, version = _footer(data, size, path)
    block = _Block(data, size - len(data), size - FOOTER.size, path)
    metadata = block.message(file_pb2.Metadata, position)
    if metadata.manifest_position:
        fields = list(block.message(table_pb2.Manifest, metadata.manifest_position).fields)
        _check_fields(fields, path, metadata.manifest_position)
        span = None
    elif fields is None:
        raise ArtifactError("FORMAT-025", path, "the file holds no schema, and none was given", position)
    if version in _PAGES_FROM_0 and fields:
        span = range(max(field.id for field in fields) + 1 if span is None else span.stop)
    offsets = tuple(metadata.batch_offsets)
    if not offsets or offsets[0] != 0 or any(a > b for a, b in zip(offsets, offsets[1:], strict=False)):
        shown = ", ".join(map(str, offsets[:8])) + (", …" if len(offsets) > 8 else "")
        raise ArtifactError("FORMAT-026", path, f"batch offsets ({shown}) do not rise from 0", position)
    return LegacyFile(
        parts=((size - len(data), data),),
        size_bytes=size,
        path=path,
        version=version,
        fields=tuple(fields),
        batch_offsets=offsets,
        pages=_pages(block, metadata.page_table_position, fields, len(offsets) - 1, span),
        metadata=metadata,
    )


@implements("FORMAT-028", "FORMAT-050")
def _check_fields(fields: Sequence[file_pb2.Field], path: str, position: int) -> None:
    """Raise `ArtifactError` unless ids are distinct, and each field comes behind the one that it is part of."""
    depths: dict[int, int] = {}
    for field in fields:
        if field.id < 0 or field.id in depths:
            reason = f"field {field.name!r} has the id {field.id}, which is none or is taken"
            raise ArtifactError("FORMAT-050", path, reason, position)
        if field.parent_id != -1 and field.parent_id not in depths:
            reason = f"field {field.id} ({field.name!r}) comes before its parent {field.parent_id}"
            raise ArtifactError("FORMAT-028", path, reason, position)
        depths[field.id] = depths.get(field.parent_id, 0) + 1
        if depths[field.id] > _DEPTH_MAX:
            raise ArtifactError("FORMAT-028", path, f"fields lie more than {_DEPTH_MAX} levels deep", position)
    top = [field.name for field in fields if field.parent_id == -1]
    if len(set(top)) != len(top):
        raise ArtifactError("FORMAT-028", path, f"column names are not unique: {top}", position)


@implements("FORMAT-020", "FORMAT-026")
def _pages(
    block: _Block, position: int, fields: Sequence[file_pb2.Field], batches: int, span: range | None = None
) -> Pages:
    """The page table: one run for each id from the least to the greatest of ``fields``, or of ``span``."""
    if not fields or not batches:
        return {field.id: np.empty((0, 2), dtype=np.int64) for field in fields}
    span = range(min(f.id for f in fields), max(f.id for f in fields) + 1) if span is None else span
    data = block.slice(position, len(span) * batches * 16, "FORMAT-026", "a page table")
    table: npt.NDArray[np.int64] = np.frombuffer(data, "<i8").reshape(len(span), batches, 2)
    return {field.id: table[field.id - span.start] for field in fields}


def statistics_file(file: LegacyFile) -> LegacyFile | None:
    """The statistics of ``file`` as a file of one batch, a row for each page of data; None for a file without.

    Its columns are structs that are named by the id of the field that they are about. Raises `ArtifactError`.
    """
    held = file.metadata.statistics
    if not held.schema:
        return None
    fields, position = tuple(held.schema), held.page_table_position
    _check_fields(fields, file.path, position)
    start, end = next(part for part in file.parts if part[0] + len(part[1]) == file.size_bytes)
    block = _Block(end, start, file.size_bytes - FOOTER.size, file.path)
    pages = _pages(block, position, fields, 1)
    return replace(file, fields=fields, pages=pages, batch_offsets=(0, file.batches))


@implements("FORMAT-042", "FORMAT-047", "FORMAT-053", "FORMAT-061", "FORMAT-063")
def statistics(file: LegacyFile) -> dict[FieldId, pa.Table]:
    """Bounds of each page by field id: columns ``null_count``, ``min_value``, ``max_value``, those that there are.

    They are bounds, possibly looser than the data, and never an answer to a query for the least or greatest value.
    Fields of other names are ignored. Empty for a file without statistics. Raises `ArtifactError`.
    """
    held = statistics_file(file)
    return bounds(held) if held is not None else {}


def bounds(held: LegacyFile) -> dict[FieldId, pa.Table]:
    """`statistics` of a file whose `statistics_file` is ``held``, with all of its pages at hand."""
    children = held.children
    types = paging.types_of(held, children.get(-1, ()))
    found: dict[FieldId, pa.Table] = {}
    for column in children.get(-1, ()):
        if not column.name.isdecimal():
            continue
        parts: dict[str, Any] = {
            child.name: paging.decoded(held, child, children, types, 0, held.rows, clause="FORMAT-053")
            for child in children.get(column.id, ())
            if child.name in ("null_count", "min_value", "max_value")
        }
        found[FieldId(int(column.name))] = pa.table(parts)
    return found


def read(file: LegacyFile, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of ``file``, see `paging.read`."""
    return paging.read(file, columns, range(file.batches))
