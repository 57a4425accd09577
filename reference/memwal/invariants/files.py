"""Invariants of the files that a version of a table names, be it the base table or a generation.

Source: table documents, "Storage Layout", "Data Files" and "Deletion Files"; AMB-39, 127.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.unknown_fields import UnknownFieldSet

from .. import paths
from ..clauses import implements
from ..codec import data_file, protobuf
from ..codec.pb.lance import index_pb2, table_pb2
from ..effects import Io, Protocol
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..table import read
from ..table.legacy import older, structure
from ..table.state import TableState
from ..table.stored_file import open_file, open_rows
from ..violations import Violation, objection
from ..words import counted
from .finding import attempted, invariant

_RESTORE = "Restore the object from a backup of the store, or a table version that does not name it."
_UUID_BYTES = 16
_INDEX_FILES = 10
"""Field of IndexMetadata in which later writers list the files of an index: message {path = 1, size = 2}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What looking at the files of a table version found."""

    looked_at: int
    missing: tuple[Violation, ...]
    damaged: tuple[Violation, ...]
    index_files: tuple[Violation, ...]
    unread: tuple[str, ...]
    """Files in other places that base paths name: not looked into."""


@invariant("FORMAT-018", "FORMAT-034", "TXN-009", "TXN-004", about="table", remedy=_RESTORE)
def named_files_are_there(files: Files) -> Iterator[Violation]:
    """Every data and deletion file that a retained version or a listed generation names is there, in its size."""
    yield from files.missing


@invariant(
    "FORMAT-005",
    "AMB-127",
    about="table",
    remedy="Queries that use the index fail; no row is lost. Build the index again.",
)
def index_files_are_there(files: Files) -> Iterator[Violation]:
    """Every file of an index that a retained version or a listed generation names is there, in its size."""
    yield from files.index_files


@invariant(
    "FORMAT-017", "FORMAT-024", "FORMAT-040", "FORMAT-035", "FORMAT-006", about="rows", rows=True, remedy=_RESTORE
)
def named_files_are_whole(files: Files) -> Iterator[Violation]:
    """Every data and deletion file can be read and has the rows that the table manifest counts."""
    yield from files.damaged


async def look_at_files(io: Io, state: TableState, seen: set[str], *, rows: bool) -> Files:
    """Look at the files that ``state`` at ``io`` names and that are not in ``seen``, to which they are added.

    Without ``rows`` only that they are there in the size that is recorded: one HEAD each.
    """
    missing: list[Violation] = []
    damaged: list[Violation] = []
    unread: list[str] = []
    looked_at = 0
    for fragment in state.fragments:
        for file in fragment.files:
            try:
                name = read.file_path(io, state, file)
                path = io.path(name)
            except (ArtifactError, ValueError):
                unread.append(f"{file.path} (outside of the table)")
                continue
            if path in seen:
                continue
            seen.add(path)
            looked_at += 1
            absent = await _absent(io, name, older.size_recorded(file))
            if absent is not None:
                missing.append(absent)
            elif rows:
                old = (file.file_major_version, file.file_minor_version) in structure.VERSIONS
                reading = _whole_legacy(io, name, file, state) if old else _whole(io, name)
                whole = await attempted(_counted(reading, fragment.physical_rows, path), path)
                damaged += [whole] if isinstance(whole, Violation) else []
        if not fragment.HasField("deletion_file"):
            continue
        try:
            name = read.deletion_name(io, state, fragment)
            path = io.path(name)
        except (ArtifactError, ValueError):
            unread.append(f"{read.deletion_path(fragment)} (outside of the table)")
            continue
        if path in seen:
            continue
        seen.add(path)
        looked_at += 1
        absent = await _absent(io, name, 0)
        if absent is not None:
            missing.append(absent)
        elif rows:
            offsets = await attempted(read.deleted_offsets(io, fragment, state), path)
            damaged += [offsets] if isinstance(offsets, Violation) else []
    return Files(
        looked_at=looked_at,
        missing=tuple(missing),
        damaged=tuple(damaged),
        index_files=tuple(await _index_files(io, state, seen)),
        unread=tuple(unread),
    )


async def _absent(io: Io, name: str, size_bytes: int) -> Violation | None:
    """Why the object is not the one that was named; ``size_bytes`` 0: any size will do."""
    try:
        found = await io.head(name)
    except NotFound:
        return objection(io.path(name), "a table manifest names this file, and it is not there")
    except InvalidArgument as error:
        return objection(io.path(name), f"a table manifest names this file, and no store can hold it: {error}")
    if size_bytes and found != size_bytes:
        return objection(io.path(name), f"{found} bytes, the table manifest says {size_bytes}", offset=found)
    return None


async def _whole(io: Io, name: str) -> int:
    """Rows of a data file, all of which can be read."""
    rows: int = data_file.decode(await io.get(name), io.path(name)).num_rows
    return rows


@implements("FORMAT-026")
async def _whole_legacy(io: Io, name: str, file: table_pb2.DataFile, state: TableState) -> int:
    """Rows of a data file before version 2, all of whose columns can be read that the table has."""
    columns = [field.name for field in state.fields if field.parent_id == -1 and field.id in file.fields]
    opened = await open_file(io, name, file, columns, state.fields)
    counted = opened.legacy.rows if opened.legacy is not None else 0
    with await open_rows(io, opened, 0, counted) as reader:
        rows: int = reader.read().num_rows
    return rows


async def _counted(reading: Protocol[int], rows: int, path: str) -> None:
    found = await reading
    if found != rows:
        raise ArtifactError("FORMAT-017", path, f"holds {counted(found, 'row')}, the table manifest says {rows}")


async def _index_files(io: Io, state: TableState, seen: set[str]) -> list[Violation]:
    """Files of the version's indexes that are not there. Indexes that list no files are not looked at."""
    found: list[Violation] = []
    for index in state.manifest.indices:
        try:
            listed = _files_of(index, state)
        except ArtifactError as error:
            found.append(objection(error.path, error.reason, error.clause, error.offset))
            continue
        for name, size_bytes in listed:
            if io.path(name) in seen:
                continue
            seen.add(io.path(name))
            absent = await _absent(io, name, size_bytes)
            found += [absent] if absent is not None else []
    return found


def _files_of(index: table_pb2.IndexMetadata, state: TableState) -> Sequence[tuple[str, int]]:
    """Name and size of each file that the index entry lists. Raises `ArtifactError` at the index section."""
    if index.HasField("base_id") or len(index.uuid.uuid) != _UUID_BYTES:
        return []
    folder = f"{paths.INDICES}/{uuid.UUID(bytes=index.uuid.uuid)}"
    fields = UnknownFieldSet(index)
    listed = []
    for number in range(len(fields)):
        if fields[number].field_number != _INDEX_FILES:
            continue
        data = fields[number].data
        if not isinstance(data, bytes):
            raise _misread(state, index, f"lists a file by a field of wire type {fields[number].wire_type}")
        name, size_bytes = _listed(data, index, state)
        listed.append((f"{folder}/{name}", size_bytes))
    return listed


def _listed(data: bytes, index: table_pb2.IndexMetadata, state: TableState) -> tuple[str, int]:
    try:
        message = protobuf.parse(index_pb2.Flat, data, clause="FORMAT-004", path=state.path)
    except ArtifactError as error:
        raise _misread(state, index, f"lists a file by bytes that are {error.reason}") from error
    inner = UnknownFieldSet(message)
    values = {inner[i].field_number: inner[i].data for i in range(len(inner))}
    name, size_bytes = values.get(1), values.get(2, 0)
    if not isinstance(name, bytes) or not isinstance(size_bytes, int):
        raise _misread(state, index, "lists a file without a name, or with a size that is not a number")
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise _misread(state, index, f"lists a file whose name is not UTF-8: {error}") from error
    if "\0" in text or set(text.split("/")) & {"", ".", ".."}:
        raise _misread(state, index, f"lists a file by {text!r}, which is not a name inside of its folder")
    return text, size_bytes


def _misread(state: TableState, index: table_pb2.IndexMetadata, reason: str) -> ArtifactError:
    """``reason`` about an index entry; what is known of its place is where the index section begins."""
    where = state.manifest.message.index_section
    return ArtifactError("FORMAT-004", state.path, f"the entry of index {index.name!r} {reason}", where)
