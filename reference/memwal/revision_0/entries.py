"""The files of a WAL of revision 0: rows of one write each, under the number of the entry.

The texts leave them to the implementer (AMB-134). Written are Arrow IPC streams ``{id}.arrow``; read are those, Arrow
IPC files and Lance files, told apart by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from .. import confirm
from ..clauses import implements
from ..codec import data_file, ipc
from ..effects import Io
from ..errors import AlreadyExists, ArtifactError, InvalidArgument, NotFound
from ..jobs.defaults import ENTRY_NAMES
from .records import MemWal


def folder(table: Io, location: str) -> Io:
    """The folder of a WAL; raises `InvalidArgument` for one outside the table's store.

    ``location``: relative to the table, or absolute with the table's own folder in it.
    """
    if not location.startswith("/") and "://" not in location:
        try:
            return table.child(location)
        except ValueError as error:
            raise InvalidArgument(str(error), clause="LEGACY-015") from error
    marker = f"/{table.root}/" if table.root else ""
    _, found, inner = location.rpartition(marker) if marker else ("", "", "")
    if not found:
        raise InvalidArgument(f"WAL location {location!r} lies outside the table's store", clause="LEGACY-015")
    return table.child(inner)


def encode(rows: pa.Table) -> bytes:
    """Bytes of an entry."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes, path: str) -> pa.Table:
    """Rows of an entry; raises `ArtifactError`."""
    if data.endswith(data_file.MAGIC):
        return data_file.decode(data, path)
    opener = pa.ipc.open_file if data.startswith(ipc.FILE_START) else pa.ipc.open_stream
    try:
        ipc.check_all(data, path, "LEGACY-004")
        with opener(data) as reader:
            rows = reader.read_all()
            rows.validate(full=True)
            return rows
    except (pa.ArrowException, OSError) as error:
        raise ArtifactError("LEGACY-004", path, f"it is not an entry: {error}") from error


@implements("LEGACY-017", "LEGACY-018")
async def store(wal: Io, entry: int, rows: pa.Table) -> int:
    """Create the entry at ``entry``, or at the next number that is free; returns the number."""
    data = encode(rows)
    while True:
        try:
            await confirm.create(wal, ENTRY_NAMES.format(id=entry), data)
            return entry
        except AlreadyExists:
            entry += 1


@implements("LEGACY-004", "LEGACY-023", "AMB-133")
async def replay(table: Io, record: MemWal, pattern: str = ENTRY_NAMES) -> Sequence[pa.Table]:
    """Rows of the entries that the record lists, in order of their ids; others in the folder are holes."""
    wal = folder(table, record.wal_location)
    found = []
    for entry in record.entries:
        name = pattern.format(id=entry)
        try:
            found.append(decode(await wal.get(name), wal.path(name)))
        except NotFound:
            reason = f"MemWAL {record.generation} of {record.region!r} lists entry {entry}, and it is not there"
            raise ArtifactError("LEGACY-016", wal.path(name), reason) from None
    return found
