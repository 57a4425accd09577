"""One file of an index in its store, of which only those pages are fetched that hold the wanted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ..codec import file_layout
from ..codec.data_file import Decoder
from ..codec.file_layout import FOOTER, Layout
from ..codec.pb.lance import table_pb2
from ..effects import Io, remembered
from ..errors import NotFound
from . import stored_file
from .legacy import structure
from .mirror import index_folder
from .stored_file import WHOLE_BYTES

_CLAUSE = "PLAN-033"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A file of flat columns: which rows it has, and what its schema says."""

    io: Io
    name: str
    """Relative to the table."""
    size_bytes: int
    rows: int
    schema: pa.Schema
    """With the metadata of the file."""
    table: pa.Table | None = None
    """All rows of a small file; None for one that is read in parts."""
    layout: Layout | None = None
    parts: tuple[tuple[int, bytes], ...] = ()
    """Layout and end of such a file, with positions."""

    async def read(self, columns: Sequence[str], start: int = 0, rows: int | None = None) -> pa.Table:
        """``rows`` rows of ``columns`` from ``start`` on, all that follow for None. Raises `ArtifactError`."""
        wanted = self.rows - start if rows is None else rows
        if self.table is not None:
            return self.table.select(list(columns)).slice(start, wanted)
        what = ("rows of an index file", self.io.path(self.name), tuple(columns), start, wanted)
        return await remembered(self.io, what, partial(self._read, columns, start, wanted), _size)

    async def _read(self, columns: Sequence[str], start: int, wanted: int) -> pa.Table:
        assert self.layout is not None
        ranges = self.layout.ranges([self.schema.get_field_index(column) for column in columns], start, wanted)
        whole = await stored_file.opened(self.io, self.name, self.size_bytes)
        parts = whole or [*self.parts, *await stored_file.parts(self.io, self.name, ranges, self.size_bytes)]
        with Decoder(parts, self.size_bytes, self.io.path(self.name), clause=_CLAUSE, columns=columns) as decoder:
            return decoder.read(start, wanted).select(list(columns))


async def open_index_file(io: Io, entry: table_pb2.IndexMetadata, name: str) -> IndexFile | None:
    """The file ``name`` of an index entry; None if there is none, or one before version 2 of the format.

    Raises `ArtifactError` for one that is damaged.
    """
    path = f"{index_folder(entry.uuid.uuid)}/{name}"
    return await remembered(io, ("index file", io.path(path)), partial(_opened, io, path), _opened_bytes)


def _size(rows: pa.Table) -> int:
    return int(rows.nbytes)


def _opened_bytes(file: IndexFile | None) -> int:
    if file is None:
        return 0
    return sum(len(data) for _, data in file.parts) * 2 + (_size(file.table) if file.table is not None else 0)


async def _opened(io: Io, path: str) -> IndexFile | None:
    try:
        size = await io.head(path)
        end = await io.get(path, 0 if size <= WHOLE_BYTES else size - FOOTER.size)
    except NotFound:
        return None
    if structure.is_legacy(end):
        return None
    if size <= WHOLE_BYTES:
        file_layout.check_whole(end, io.path(path), clause=_CLAUSE)
        with Decoder([(0, end)], len(end), io.path(path), clause=_CLAUSE) as decoder:
            table = decoder.read()
        return IndexFile(io=io, name=path, size_bytes=len(end), rows=table.num_rows, schema=table.schema, table=table)
    layout, parts = await stored_file.layout_of(io, path, size)
    with Decoder(parts, size, io.path(path), clause=_CLAUSE) as decoder:
        return IndexFile(
            io=io, name=path, size_bytes=size, rows=decoder.rows, schema=decoder.schema, layout=layout, parts=parts
        )
