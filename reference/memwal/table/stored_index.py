"""One file of an index in its store, of which only those pages are fetched that hold the wanted rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..codec import file_layout
from ..codec.data_file import Decoder
from ..codec.file_layout import Layout
from ..codec.pb.lance import table_pb2
from ..effects import Io
from . import stored_file
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
    layout: Layout | None
    """None for a file that is at hand as a whole."""
    parts: tuple[tuple[int, bytes], ...]
    """What of it is at hand, with positions."""
    rows: int
    schema: pa.Schema
    """With the metadata of the file."""

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        return self.schema.metadata or {}

    async def read(self, columns: Sequence[str], start: int = 0, rows: int | None = None) -> pa.Table:
        """``rows`` rows of ``columns`` from ``start`` on, all that follow for None. Raises `ArtifactError`."""
        wanted = self.rows - start if rows is None else rows
        parts = list(self.parts)
        if self.layout is not None:
            numbers = [self.schema.get_field_index(column) for column in columns]
            for place in self.layout.ranges(numbers, start, wanted):
                parts.append((place[0], await stored_file.part(self.io, self.name, place, self.size_bytes)))
        with Decoder(parts, self.size_bytes, self.io.path(self.name), clause=_CLAUSE, columns=columns) as decoder:
            return decoder.read(start, wanted).select(list(columns))


async def open_index_file(io: Io, entry: table_pb2.IndexMetadata, name: str) -> IndexFile:
    """The file ``name`` of an index entry. Raises `NotFound`, and `ArtifactError` for one that is damaged."""
    path = f"{index_folder(entry.uuid.uuid)}/{name}"
    size = await io.head(path)
    if size <= WHOLE_BYTES:
        data = await io.get(path)
        file_layout.check_whole(data, io.path(path), clause=_CLAUSE)
        parts: tuple[tuple[int, bytes], ...] = ((0, data),)
        layout, size = None, len(data)
    else:
        layout, parts = await stored_file.layout_of(io, path, size)
    with Decoder(parts, size, io.path(path), clause=_CLAUSE) as decoder:
        return IndexFile(
            io=io, name=path, size_bytes=size, layout=layout, parts=parts, rows=decoder.rows, schema=decoder.schema
        )
