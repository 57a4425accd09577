"""Lance data files: bytes <-> Arrow tables, through pylance's file writer and reader.

pylance writes and reads files by name only, so bytes pass through a private in-memory session (writing) and a `Scratch`
file (reading), which holds what is decoded and no more, unless the store opens the file itself (`OpenFile`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..cellwise import from_start
from ..clauses import implements
from ..errors import ArtifactError, InvalidArgument
from . import kept_rows, native, protobuf
from .file_layout import FOOTER, GLOBAL_BUFFER, MAGIC, check_whole
from .scratch import OpenFile, Piece, Scratch

__all__ = [
    "FILE_VERSION", "FLAT_VERSION", "LEAF_VERSIONS", "MAGIC", "WRITTEN_VERSIONS", "Decoder", "Encoder", "FileVersion",
    "decode", "encode",
]  # fmt: skip

FileVersion = tuple[int, int]
"""Major and minor version of a data file."""
FILE_VERSION: FileVersion = (2, 1)
"""File version of tables that the engine creates: the oldest that encodes NULL structs, so that most read it."""
FLAT_VERSION: FileVersion = (2, 0)
"""File version that is written for schemas without nested fields only: it has no way to store a NULL struct, and has
columns for structs and lists beside those of leaf fields."""
LEAF_VERSIONS = (FILE_VERSION, (2, 2))
"""File versions with one column per leaf field, whatever the schema."""
WRITTEN_VERSIONS = (FLAT_VERSION, *LEAF_VERSIONS)
"""File versions that the engine writes. Older ones are read only."""

PAGE_CACHE_BYTES: int | None = None
"""Bytes of one file that the native writer collects before it writes pages; None: 8 MiB for each column."""
_REFUSAL = "it is not a readable Lance file"
_DECODED_ROWS = 1 << 18
"""Rows that the native reader decodes into one batch; fewer or more take longer."""
_TAKEN_TIMES = 6
"""So many reads of single rows take about as long as opening a session for those that follow."""


@functools.cache
def _session(_process: int) -> Any:
    from lance.file import LanceFileSession

    return LanceFileSession("memory://memwal-scratch")


def _unique_name() -> str:
    return f"{os.urandom(8).hex()}.lance"


class Encoder:
    """One Lance file that is written table by table. A context manager: leaving it drops what was not finished.

    Equal tables, cut alike, give equal bytes.
    """

    def __init__(self, schema: pa.Schema, version: FileVersion = FILE_VERSION) -> None:
        if version == FLAT_VERSION and any(_is_nested(field.type) for field in schema):
            reason = f"data files of version {'.'.join(map(str, version))} are written without nested columns only"
            raise InvalidArgument(reason, clause="FORMAT-021")
        self._schema = schema
        self._session = _session(os.getpid())
        self._name = _unique_name()
        self._writer = self._session.open_writer(
            self._name, schema=schema, version=".".join(map(str, version)), data_cache_bytes=PAGE_CACHE_BYTES
        )

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the file; bytes taken before stay valid."""
        if self._session.contains(self._name):
            self._session.delete_file(self._name)

    def write(self, table: pa.Table) -> None:
        """Add rows; ``table`` has the encoder's schema."""
        for batch in table.to_batches():
            if batch.num_rows:
                self._writer.write_batch(_from_start(batch))

    @implements("FORMAT-024")
    def finish(self) -> bytes:
        """The file's bytes, the schema and its metadata included. Nothing can be written any more."""
        for key, value in sorted((self._schema.metadata or {}).items()):
            self._writer.add_schema_metadata(key.decode(), value.decode())
        self._writer.close()
        return _with_ordered_maps(functools.partial(self._session.read_range, self._name), self._writer.size_bytes)


def _is_nested(arrow: pa.DataType) -> bool:
    inner = arrow.value_type if pa.types.is_fixed_size_list(arrow) else arrow
    return bool(pa.types.is_nested(inner))


def _from_start(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with nested columns copied: the native writer panics on some that begin inside of their memory."""
    columns = [from_start(column) if pa.types.is_nested(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def encode(table: pa.Table, version: FileVersion = FILE_VERSION) -> bytes:
    """One Lance file with the rows and the schema (metadata included) of ``table``. Equal input gives equal bytes."""
    with Encoder(table.schema, version) as encoder:
        encoder.write(table.combine_chunks())
        return encoder.finish()


_SCHEMA_MAPS: protobuf.MapFields = {1: {1: {10: None}, 5: None}}
"""Maps of a `FileDescriptor`: its schema's metadata, and those of each field."""


def _with_ordered_maps(read: Any, size_bytes: int) -> bytes:
    """The file's bytes with the metadata maps of its schema in key order: the native writer stores them in any order.

    The schema is the file's global buffer 0; reordering its maps changes no length.
    """
    data: bytes = read(0, size_bytes)
    (position, size) = GLOBAL_BUFFER.unpack_from(data, FOOTER.unpack(data[-FOOTER.size :])[2])
    ordered = protobuf.with_sorted_maps(data[position : position + size], _SCHEMA_MAPS)
    assert len(ordered) == size, (len(ordered), size)
    if data.startswith(ordered, position):
        return data
    return b"".join((memoryview(data)[:position], ordered, memoryview(data)[position + size :]))


class Decoder:
    """Rows of one Lance file, or of some of its columns, from those of its parts that hold them. A context manager.

    ``parts``: position and bytes each, together everything that the rows to be read need (`Layout.ranges`), or the
    whole file, which a store may have opened. Raises `ArtifactError` naming ``clause`` if the bytes are not such a
    file, and `NoRoom` if there is none to decode them.
    """

    def __init__(
        self,
        parts: Iterable[Piece] | OpenFile,
        size_bytes: int,
        path: str,
        *,
        clause: str = "FORMAT-024",
        columns: Sequence[str] | None = None,
    ) -> None:
        from lance.file import LanceFileReader

        self.columns = columns
        self.size_bytes = size_bytes
        self._path, self._clause = path, clause
        self.shared = False
        """Whether others read from it too: then it goes when the last of them does. They may be of several threads."""
        self._entered = Lock()
        """Held in the native reader, which refuses a thread while another one is in it."""
        self._file = parts if isinstance(parts, OpenFile) else Scratch(parts, size_bytes, path)
        self._taken_times = 0
        self._session: Any = None
        """Of `kept_rows`, by which rows are taken once they are taken often."""
        try:
            with native.reading(path, clause, refusal=_REFUSAL):
                wanted = list(columns) if columns is not None else None
                self._reader = LanceFileReader(self._file.name, columns=wanted)
                self.rows = int(self._reader.num_rows())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; afterwards nothing can be read, except from one that is shared."""
        if not self.shared:
            self._file.close()

    @property
    def schema(self) -> pa.Schema:
        """The schema that the file says it has, its metadata included; asked for only where no rows show it.

        The native reader describes all pages with it, which takes longer than it takes to read a few rows.
        """
        with self._entered, native.reading(self._path, self._clause, refusal=_REFUSAL):
            told: pa.Schema = self._reader.metadata().schema
        return told

    def read(self, start: int = 0, rows: int | None = None) -> pa.Table:
        """``rows`` rows from ``start`` on (all that follow if None), with the schema and metadata of the file."""
        wanted = self.rows - start if rows is None else rows
        with self._entered, native.reading(self._path, self._clause, refusal=_REFUSAL):
            if wanted:
                batch_rows = min(wanted, _DECODED_ROWS)
                found = self._reader.read_range(start, wanted, batch_size=batch_rows).to_table()
            else:
                found = self._reader.read_all().to_table().slice(0, 0)
        if found.num_rows != wanted:
            reason = f"{_REFUSAL}: the native reader gives {found.num_rows} of {wanted} rows"
            raise ArtifactError(self._clause, self._path, reason)
        return found

    @property
    def opened(self) -> bool:
        """Whether the store opened the file, so that all rows can be read, and nothing is added."""
        return isinstance(self._file, OpenFile)

    def add(self, parts: Iterable[Piece]) -> None:
        """More parts of the file, by which more rows can be read."""
        assert isinstance(self._file, Scratch), "all of it is there"
        self._file.add(parts)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The rows at those offsets, ascending, at least one, with the schema of the file."""
        with self._entered, native.reading(self._path, self._clause, refusal=_REFUSAL):
            if self._session is not None:
                found = self._session.take(rows.tolist())
            else:
                found = self._reader.take_rows(rows.tolist(), batch_size=min(len(rows), _DECODED_ROWS)).to_table()
                self._taken_times += 1
                if self.shared and self._taken_times == _TAKEN_TIMES:
                    self._session = kept_rows.session(self._file, self.size_bytes, self._path, rows, found)
        if found.num_rows != len(rows):
            reason = f"{_REFUSAL}: the native reader gives {found.num_rows} of {len(rows)} rows"
            raise ArtifactError(self._clause, self._path, reason)
        return found


def decode(data: bytes, path: str, *, clause: str = "FORMAT-024", columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a Lance file, or of ``columns`` of it. Raises `ArtifactError` if the bytes are not such a file."""
    check_whole(data, path, clause=clause)
    with Decoder([(0, data)], len(data), path, clause=clause, columns=columns) as decoder:
        return decoder.read()


_TEXT_AS_BINARY = ((b"\x2a\x06string", b"\x2a\x06binary"), (b"\x2a\x0clarge_string", b"\x2a\x0clarge_binary"))
"""The encoded logical type of a text field, and one of the same length that is stored in the same way."""


def decode_unchecked(data: bytes, path: str, *, clause: str = "FORMAT-024") -> pa.Table:
    """All rows of a Lance file, their texts as they are, UTF-8 or not. Raises `ArtifactError` as `decode` does.

    The native reader refuses a whole page for one text that is none; it does not look at binary values.
    """
    check_whole(data, path, clause=clause)
    with Decoder([(0, data)], len(data), path, clause=clause) as decoder:
        told = decoder.schema
    position, size = GLOBAL_BUFFER.unpack_from(data, FOOTER.unpack(data[-FOOTER.size :])[2])
    schema = data[position : position + size]
    for text, binary in _TEXT_AS_BINARY:
        schema = schema.replace(text, binary)
    rows = decode(data[:position] + schema + data[position + size :], path, clause=clause)
    columns = [pa.chunked_array([c.view(f.type) for c in rows.column(f.name).chunks], f.type) for f in told]
    return pa.table(columns, schema=told)
