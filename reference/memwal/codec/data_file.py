"""Lance data files: bytes <-> Arrow tables, through pylance's file writer and reader.

pylance writes and reads files by name only, so bytes pass through a private in-memory session (writing) and a scratch
file in memory-backed temporary storage (reading). Nothing else of the engine touches a file; the store sees bytes.
"""

from __future__ import annotations

import functools
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..clauses import implements
from ..errors import ArtifactError, EngineBug
from .pb.lance import file_pb2

FileVersion = tuple[int, int]
"""Major and minor version of a data file."""
FILE_VERSION: FileVersion = (2, 1)
"""File version of tables that the engine creates: the oldest that encodes NULL structs, so that most read it."""
WRITTEN_VERSIONS = (FILE_VERSION, (2, 2))
"""File versions that the engine writes: those with one column per leaf field. Older ones are read only."""

MAGIC = b"LANC"
_FOOTER = struct.Struct("<QQQIIHH4s")
"""Column metadata, column offset table and global buffer offset table positions; counts of both; version; magic."""
_GLOBAL_BUFFER = struct.Struct("<QQ")
"""Position and size of one global buffer."""


@functools.cache
def _session(_process: int) -> Any:
    from lance.file import LanceFileSession

    return LanceFileSession("memory://memwal-scratch")


@functools.cache
def _scratch(_process: int) -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    parent = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="memwal-", dir=parent)


def _unique_name() -> str:
    return f"{os.urandom(8).hex()}.lance"


@implements("FORMAT-024")
def encode(table: pa.Table, version: FileVersion = FILE_VERSION) -> bytes:
    """One Lance file with the rows and the schema (metadata included) of ``table``. Equal input gives equal bytes."""
    session = _session(os.getpid())
    name = _unique_name()
    writer = session.open_writer(name, schema=table.schema, version=".".join(map(str, version)))
    try:
        if table.num_rows:
            writer.write_batch(table.combine_chunks())
        for key, value in sorted((table.schema.metadata or {}).items()):
            writer.add_schema_metadata(key.decode(), value.decode())
        writer.close()
        data = _with_ordered_maps(session.read_range(name, 0, writer.size_bytes))
    finally:
        if session.contains(name):
            session.delete_file(name)
    return data


def _with_ordered_maps(data: bytes) -> bytes:
    """``data`` with the metadata maps of its schema in key order: the native writer stores them in any order.

    The schema is the file's global buffer 0; reordering its maps changes no length.
    """
    position, size = _GLOBAL_BUFFER.unpack_from(data, _FOOTER.unpack(data[-_FOOTER.size :])[2])
    schema = file_pb2.FileDescriptor.FromString(data[position : position + size])
    ordered = schema.SerializeToString(deterministic=True)
    if len(ordered) != size:
        raise EngineBug(f"reordering the schema of a Lance file changed its length from {size} to {len(ordered)}")
    return data[:position] + ordered + data[position + size :]


def decode(data: bytes, path: str, *, clause: str = "FORMAT-024", columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a Lance file, or of ``columns`` of it. Raises `ArtifactError` if the bytes are not such a file."""
    from lance.file import LanceFileReader

    check_footer(data, path, clause=clause)
    scratch = os.path.join(_scratch(os.getpid()).name, _unique_name())
    try:
        with open(scratch, "wb") as file:
            file.write(data)
        reader = LanceFileReader(scratch, columns=list(columns) if columns is not None else None)
        table = reader.read_all().to_table()
        return table.replace_schema_metadata(reader.metadata().schema.metadata)
    except (OSError, ValueError, RuntimeError, pa.ArrowException) as error:
        raise ArtifactError(clause, path, f"not a readable Lance file: {_first_line(error)}") from error
    except BaseException as error:
        # The native reader panics on some damaged files; its panic type is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise ArtifactError(clause, path, "not a readable Lance file: the native reader panicked") from error
    finally:
        if os.path.exists(scratch):
            os.unlink(scratch)


def check_footer(data: bytes, path: str, *, clause: str) -> None:
    """Check size, magic and positions of the footer, so that a cut file is named as such."""
    if len(data) < _FOOTER.size:
        raise ArtifactError(clause, path, f"{len(data)} bytes are too few for a Lance file", len(data))
    columns, column_table, buffer_table, _, _, _, _, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    if magic != MAGIC:
        raise ArtifactError(clause, path, "no LANC mark at the end: cut, or not a Lance file", len(data) - len(MAGIC))
    if max(columns, column_table, buffer_table) > len(data) - _FOOTER.size:
        raise ArtifactError(clause, path, "a footer position lies beyond the file", len(data) - _FOOTER.size)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(", /")[0]
