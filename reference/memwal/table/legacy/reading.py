"""Reading rows of a data file before version 2 from its store: what of it is fetched, and rows in any range.

The end of the file is fetched first, up to where its structure begins, and then the pages of the wanted batches in two
steps: those that the page table names, and the bytes that offsets in them point to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ... import cellwise
from ...clauses import implements
from ...codec.file_layout import Range
from ...codec.pb.lance import file_pb2, table_pb2
from ...codec.scratch import Piece
from ...coroutines import concurrently
from ...effects import Io
from ...errors import ArtifactError, NotFound
from . import paging, structure
from .structure import LegacyFile

END_BYTES = 1 << 16
"""How much of the end of a file is fetched first."""
_LARGE_BYTES = 1 << 18
"""Parts of this size on average are asked for one by one: a request costs less than to copy them out of one reply."""
_PIECE_BYTES = 8 << 20
"""Most that is asked for by one of several requests at once."""


async def get(io: Io, name: str, clause: str, offset: int = 0, length: int | None = None) -> bytes:
    """A file, or a part of it, that the table manifest names; raises `ArtifactError` if it is not there."""
    try:
        return await io.get(name, offset, length)
    except NotFound:
        raise _absent(io, name, clause) from None


def _absent(io: Io, name: str, clause: str = "FORMAT-018") -> ArtifactError:
    return ArtifactError(clause, io.path(name), "the table manifest names this file, and it is not there")


async def size(io: Io, name: str) -> int:
    """How many bytes a file has that the table manifest names; raises `ArtifactError` if it is not there."""
    try:
        return await io.head(name)
    except NotFound:
        raise _absent(io, name) from None


async def part(io: Io, name: str, wanted: Range, size_bytes: int) -> bytes:
    """Bytes of a file of ``size_bytes``; raises `ArtifactError` if it is shorter."""
    data = await get(io, name, "FORMAT-018", *wanted)
    if len(data) != wanted[1]:
        reason = f"ends at byte {wanted[0] + len(data)}, the table manifest says {size_bytes}"
        raise ArtifactError("FORMAT-024", io.path(name), reason, wanted[0] + len(data))
    return data


async def parts(io: Io, name: str, wanted: Sequence[Range], size_bytes: int) -> list[Piece]:
    """The same of several parts: position and bytes of each. Small ones are one request.

    Where requests are made at once, large ones are several: one connection to an object store has a bounded speed.
    """
    ends = list(accumulate(size for _, size in wanted))
    if len(wanted) > 1 and ends[-1] < len(wanted) * _LARGE_BYTES:
        try:
            data = memoryview(await io.get_ranges(name, wanted))
        except NotFound:
            raise _absent(io, name) from None
        if len(data) == ends[-1]:
            return [(at, data[end - size : end]) for (at, size), end in zip(wanted, ends, strict=True)]
    # Large ones, and those of a file that turned out to be shorter, to tell which of them is cut.
    step = _PIECE_BYTES if io.concurrent else max(1, size_bytes)
    cut = [[(at + first, min(step, size - first)) for first in range(0, size, step)] for at, size in wanted]
    every = iter(await concurrently(io, [partial(part, io, name, each, size_bytes) for of in cut for each in of]))
    found = [list(islice(every, len(of))) for of in cut]
    return [(at, of[0] if len(of) == 1 else b"".join(of)) for (at, _), of in zip(wanted, found, strict=True)]


async def open_legacy(
    io: Io,
    name: str,
    size_bytes: int,
    whole_bytes: int,
    fields: Sequence[file_pb2.Field] | None = None,
    span: range | None = None,
) -> LegacyFile:
    """The structure of a file of ``size_bytes``; at hand is all of one that has not more than ``whole_bytes``.

    ``fields``, ``span``: see `structure.decode`. One request, more only for a long end. Raises `ArtifactError`.
    """
    path = io.path(name)
    first = 0 if size_bytes <= whole_bytes else max(0, size_bytes - END_BYTES)
    end = await part(io, name, (first, size_bytes - first), size_bytes)
    for begins in (structure.metadata_start, structure.structure_start):
        start = begins(end, size_bytes, path)
        if start < first:
            end = await part(io, name, (start, first - start), size_bytes) + end
            first = start
    return structure.decode(end, path, fields, size_bytes=size_bytes, span=span)


async def with_pages(io: Io, name: str, file: LegacyFile, columns: Sequence[str], batches: range) -> LegacyFile:
    """``file`` with the pages of its ``columns`` in ``batches`` at hand."""
    for step in (paging.pages, paging.values):
        missing = [wanted for wanted in step(file, columns, batches) if not file.has(*wanted)]
        found = await parts(io, name, missing, file.size_bytes)
        file = file.having([(at, bytes(data)) for at, data in found])
    return file


@implements("FORMAT-021", "FORMAT-025")
def own_fields(file: table_pb2.DataFile, fields: Sequence[file_pb2.Field]) -> tuple[list[file_pb2.Field], range | None]:
    """What the table manifest knows of a file that has no schema of its own: its fields, and the ids it spans."""
    held = set(file.fields)
    ids = [number for number in file.fields if number >= 0]
    return [field for field in fields if field.id in held], range(min(ids), max(ids) + 1) if ids else None


def names_by_id(file: LegacyFile, columns: Sequence[str], fields: Sequence[file_pb2.Field]) -> tuple[str, ...]:
    """How ``file`` calls the top-level ``columns`` of a table with ``fields``: it keeps the ids, not the names."""
    ids = {field.name: field.id for field in fields if field.parent_id == -1}
    own = {field.id: field.name for field in file.fields if field.parent_id == -1}
    missing = [name for name in columns if ids[name] not in own]
    if missing:
        reason = f"holds no fields for the columns {missing}, and the table manifest says it does"
        raise ArtifactError("FORMAT-020", file.path, reason)
    return tuple(own[ids[name]] for name in columns)


@dataclass(slots=True)
class LegacyRows:
    """Rows of a file whose wanted pages are at hand. A context manager, as `codec.data_file.Decoder` is."""

    file: LegacyFile
    columns: tuple[str, ...]
    """Top-level columns to be read, by their names in the file."""
    _last: tuple[int, pa.Table] | None = None

    @property
    def rows(self) -> int:
        return self.file.rows

    def __enter__(self) -> LegacyRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what was decoded."""
        self._last = None

    def read(self, start: int = 0, rows: int | None = None) -> pa.Table:
        """``rows`` rows from ``start`` on, all that follow if None. Raises `ArtifactError`."""
        wanted = self.rows - start if rows is None else rows
        batches = self.file.batches_of(start, wanted)
        kept = self._last[1:] if self._last is not None and batches and self._last[0] == batches[0] else ()
        found = pa.concat_tables([*kept, paging.read(self.file, self.columns, batches[len(kept) :])])
        if not batches:
            return found
        first = self.file.batch_offsets[batches[0]]
        self._last = (batches[-1], found.slice(self.file.batch_offsets[batches[-1]] - first))
        return found.slice(start - first, wanted)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The rows at those offsets, ascending; at least one."""
        first, end = int(rows[0]), int(rows[-1]) + 1
        return cellwise.at(self.read(first, end - first), rows - first)
