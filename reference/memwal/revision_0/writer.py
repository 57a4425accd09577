"""The life of one region in revision 0: claim, replay, write, seal, flush, merge, read, clean up.

Source: MemWAL revision 0, "Index Details" and "Expected Use Pattern"; AMB-132, 133. Every step ends in a commit of the
table that names the owner; a write is acknowledged after it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import Generation, TableVersion
from ..keys import last_of_each, without
from ..table import read as reading
from ..table.door import admitted
from ..table.state import latest
from ..table.write import merge_insert
from . import entries, index, records
from .records import MemWal, State

MEM_TABLE = "memtable.arrow"
"""File of a flushed MemTable, in the folder of its WAL."""


def wal_location(region: str, owner: str, generation: Generation) -> str:
    """Folder of a new WAL; fresh, since nothing else has the owner's id."""
    return f"_mem_wal_0/{region}/{generation}-{owner}"


@dataclass(slots=True)
class RegionOwner:
    """The owner of a region."""

    io: Io
    """The table."""
    region: str
    owner: str
    memtables: dict[Generation, list[pa.Table]]
    """Rows of generations that are not flushed, in write order."""
    record: MemWal
    """The open record as this writer last saw it."""

    @implements("LEGACY-003", "LEGACY-017", "AMB-133")
    async def put(self, rows: pa.Table) -> int:
        """Store ``rows`` as the next entry, then raise the watermark; returns the entry's id.

        Raises `OwnerChanged`: then the entry is a hole, and its rows are not in the table.
        """
        state = await latest(self.io)
        checked = admitted(rows, state.schema.remove_metadata())
        wal = entries.folder(self.io, self.record.wal_location)
        entry = await entries.store(wal, self.record.entries.following, checked)
        await self._commit(partial(records.appended, region=self.region, owner=self.owner, entry=entry))
        self.memtables[self.record.generation].append(checked)
        return entry

    async def seal(self) -> Generation:
        """Seal the open MemWAL and open the next one; returns the generation that was sealed."""
        done = self.record.generation
        following = wal_location(self.region, self.owner, Generation(done + 1))
        await self._commit(partial(records.sealed, region=self.region, owner=self.owner, wal_location=following))
        self.memtables[self.record.generation] = []
        return done

    @implements("LEGACY-011")
    async def flush(self, generation: Generation) -> None:
        """Persist a sealed MemTable; it may happen at any time after sealing."""
        record = _only(await _records(self.io), self.region, generation)
        if record.state is not State.SEALED:
            reason = f"MemWAL {generation} of {self.region!r} is {record.state.name}, not sealed"
            raise InvalidArgument(reason, clause="LEGACY-013")
        schema = (await latest(self.io)).schema.remove_metadata()
        rows = pa.concat_tables([schema.empty_table(), *self.memtables[generation]])
        wal = entries.folder(self.io, record.wal_location)
        await wal.put(MEM_TABLE, entries.encode(rows))
        await self._advance(generation, State.FLUSHED)
        del self.memtables[generation]

    async def _advance(self, generation: Generation, to: State) -> None:
        await self._commit(
            partial(records.advanced, region=self.region, generation=generation, owner=self.owner, to=to)
        )

    async def _commit(self, step: partial[records.Records]) -> None:
        state = await index.change(self.io, lambda found, version: step(found, version=version))
        record = records.open_record(index.of(state), self.region)
        assert record is not None
        self.record = record


async def _records(io: Io) -> records.Records:
    return index.of(await latest(io))


def _only(found: records.Records, region: str, generation: Generation) -> MemWal:
    for record in found:
        if (record.region, record.generation) == (region, generation):
            return record
    raise InvalidArgument(f"there is no MemWAL {generation} of {region!r}", clause="LEGACY-006")


@implements("LEGACY-002", "LEGACY-004", "LEGACY-020", "LEGACY-022", "LEGACY-023")
async def open_writer(io: Io, region: str) -> RegionOwner:
    """Take over ``region``, or create it: first the owner changes, then what is not flushed is replayed."""
    owner = str(uuid.UUID(hex=await io.random_hex(32), version=4))

    def step(found: records.Records, version: TableVersion) -> records.Records:
        following = max((r.generation + 1 for r in records.of_region(found, region)), default=0)
        return records.claimed(found, region, owner, wal_location(region, owner, Generation(following)), version)

    found = index.of(await index.change(io, step))
    record = records.open_record(found, region)
    assert record is not None
    unflushed = [r for r in records.of_region(found, region) if r.state in (State.OPEN, State.SEALED)]
    memtables = {r.generation: list(await entries.replay(io, r)) for r in unflushed}
    return RegionOwner(io, region, owner, memtables, record)


@implements("LEGACY-024")
async def merge(io: Io, region: str) -> tuple[Generation, ...]:
    """Merge the flushed MemWALs of ``region`` into the table, ascending; returns those that this call merged.

    Rows first, state after: a crash in between merges one generation again, which changes nothing, since no later one
    was merged.
    """
    done = []
    for record in records.of_region(await _records(io), region):
        if record.state is not State.FLUSHED:
            continue
        state = await latest(io)
        rows = await _flushed(io, record)
        key = state.primary_key
        await merge_insert(io, state, last_of_each(rows, key))
        await index.change(io, partial(_advanced, record, State.MERGED))
        done.append(record.generation)
    return tuple(done)


def _advanced(record: MemWal, to: State, found: records.Records, version: TableVersion) -> records.Records:
    return records.advanced(found, record.region, record.generation, record.owner_id, to, version)


def _removed(record: MemWal, found: records.Records, _version: TableVersion) -> records.Records:
    return records.removed(found, record.region, record.generation)


async def _flushed(io: Io, record: MemWal) -> pa.Table:
    wal = entries.folder(io, record.wal_location)
    try:
        return entries.decode(await wal.get(MEM_TABLE), wal.path(MEM_TABLE))
    except NotFound:
        reason = f"MemWAL {record.generation} of {record.region!r} is flushed, and this file is not there"
        raise ArtifactError("LEGACY-011", wal.path(MEM_TABLE), reason) from None


@implements("LEGACY-025")
async def scan(io: Io) -> pa.Table:
    """The rows of the table and, above them, those of every MemWAL that is not merged; the newest of each key."""
    state = await latest(io)
    found = await reading.scan(io, state)
    plain, key = found.schema.remove_metadata(), state.primary_key
    merged = cellwise.under(found, plain)
    all_records = index.of(state)
    for region in sorted({record.region for record in all_records}):
        parts = [
            part
            for record in records.of_region(all_records, region)
            if record.state is not State.MERGED
            for part in await entries.replay(io, record)
        ]
        if parts:
            rows = pa.concat_tables([cellwise.under(part, plain) for part in parts])
            rows = last_of_each(rows, key)
            merged = pa.concat_tables([without(merged, rows.select(list(key))), rows])
    return merged


@implements("LEGACY-012", "AMB-132")
async def clean_up(io: Io) -> tuple[tuple[str, Generation], ...]:
    """Delete the WALs of merged MemWALs, after their records; returns which."""
    doomed = [record for record in await _records(io) if record.state is State.MERGED]
    for record in doomed:
        await index.change(io, partial(_removed, record))
        wal = entries.folder(io, record.wal_location)
        for name in await wal.list():
            await wal.delete(name)
    return tuple((record.region, record.generation) for record in doomed)
