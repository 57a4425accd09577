"""Invariants of the files that a version of a table names, be it the base table or a generation.

Source: table documents, "Storage Layout", "Data Files" and "Deletion Files"; AMB-39, 127.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.unknown_fields import UnknownFieldSet

from .. import paths
from ..codec import data_file
from ..codec.pb.lance import index_pb2, table_pb2
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..table import read
from ..table.state import TableState
from .finding import Broken, Damaged, attempted, invariant

_RESTORE = "Restore the object from a backup of the store, or a table version that does not name it."
_FIRST_READABLE = (0, 3)
"""The first file version that is read here, under its first number; files of older ones are only looked for."""
_INDEX_FILES = 10
"""Field of IndexMetadata in which later writers list the files of an index: message {path = 1, size = 2}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What looking at the files of a table version found."""

    looked_at: int
    missing: tuple[Damaged, ...]
    damaged: tuple[Damaged, ...]
    index_files: tuple[Damaged, ...]
    unread: tuple[str, ...]
    """Files in other places that base paths name, and files of the old format: not looked into."""


@invariant("FORMAT-018", "FORMAT-034", "TXN-009", "TXN-004", about="table", remedy=_RESTORE)
def named_files_are_there(files: Files) -> Iterator[Broken]:
    """Every data and deletion file that a retained version or a listed generation names is there, in its size."""
    for one in files.missing:
        yield one.broken()


@invariant(
    "FORMAT-005",
    "AMB-127",
    about="table",
    remedy="Queries that use the index fail; no row is lost. Build the index again.",
)
def index_files_are_there(files: Files) -> Iterator[Broken]:
    """Every file of an index that a retained version or a listed generation names is there, in its size."""
    for one in files.index_files:
        yield one.broken()


@invariant(
    "FORMAT-017", "FORMAT-024", "FORMAT-040", "FORMAT-035", "FORMAT-006", about="rows", rows=True, remedy=_RESTORE
)
def named_files_are_whole(files: Files) -> Iterator[Broken]:
    """Every data and deletion file can be read and has the rows that the table manifest counts."""
    for one in files.damaged:
        yield one.broken()


async def look_at_files(io: Io, state: TableState, seen: set[str], *, rows: bool) -> Files:
    """Look at the files that ``state`` at ``io`` names and that are not in ``seen``, to which they are added.

    Without ``rows`` only that they are there in the size that is recorded: one HEAD each.
    """
    missing: list[Damaged] = []
    damaged: list[Damaged] = []
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
            absent = await _absent(io, name, file.file_size_bytes)
            if absent is not None:
                missing.append(absent)
            elif rows and (file.file_major_version, file.file_minor_version) < _FIRST_READABLE:
                unread.append(f"{file.path} (of the old file format)")
            elif rows:
                whole = await attempted(_whole(io, name, fragment.physical_rows), path)
                damaged += [whole] if isinstance(whole, Damaged) else []
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
            damaged += [offsets] if isinstance(offsets, Damaged) else []
    return Files(
        looked_at=looked_at,
        missing=tuple(missing),
        damaged=tuple(damaged),
        index_files=tuple(await _index_files(io, state, seen)),
        unread=tuple(unread),
    )


async def _absent(io: Io, name: str, size_bytes: int) -> Damaged | None:
    """Why the object is not the one that was named; ``size_bytes`` 0: any size will do."""
    try:
        found = await io.head(name)
    except NotFound:
        return Damaged(io.path(name), "a table manifest names this file, and it is not there")
    if size_bytes and found != size_bytes:
        return Damaged(io.path(name), f"{found} bytes, the table manifest says {size_bytes}", offset=found)
    return None


async def _whole(io: Io, name: str, rows: int) -> None:
    table = data_file.decode(await io.get(name), io.path(name))
    if table.num_rows != rows:
        reason = f"holds {table.num_rows} rows, the table manifest says {rows}"
        raise ArtifactError("FORMAT-017", io.path(name), reason)


async def _index_files(io: Io, state: TableState, seen: set[str]) -> list[Damaged]:
    """Files of the version's indexes that are not there. Indexes that list no files are not looked at."""
    found: list[Damaged] = []
    for index in state.manifest.indices:
        for file, size_bytes in _files_of(index):
            name = f"{paths.INDICES}/{uuid.UUID(bytes=index.uuid.uuid)}/{file}"
            if io.path(name) in seen:
                continue
            seen.add(io.path(name))
            absent = await _absent(io, name, size_bytes)
            found += [absent] if absent is not None else []
    return found


def _files_of(index: table_pb2.IndexMetadata) -> Sequence[tuple[str, int]]:
    """Name and size of each file that the index entry lists."""
    if index.HasField("base_id") or len(index.uuid.uuid) != 16:
        return []
    fields = UnknownFieldSet(index)
    listed = []
    for number in range(len(fields)):
        if fields[number].field_number != _INDEX_FILES or not isinstance(fields[number].data, bytes):
            continue
        message = index_pb2.Flat.FromString(fields[number].data)
        inner = UnknownFieldSet(message)
        values = {inner[i].field_number: inner[i].data for i in range(len(inner))}
        if isinstance(values.get(1), bytes):
            listed.append((values[1].decode(), int(values.get(2, 0))))
    return listed
