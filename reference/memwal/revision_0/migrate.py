"""The way from revision 0 to another: merge what is not merged, then replace the MemWAL index.

Offline (AMB-135). Everything is looked at before anything is changed, so that a table that cannot be migrated stays as
it is. Then the first step takes every region from its writer. A crash anywhere leaves a table of revision 0 that the
next attempt finishes.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ..clauses import implements
from ..codec.index_details import IndexDetails, is_revision_0
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import Generation, TableVersion
from ..index import mem_wal
from ..jobs.defaults import ENTRY_NAMES
from ..keys import last_of_each, newest
from ..revisions import CONFIG_MANIFEST_COLLECTION, CONFIG_REVISION, CONFIG_WAL_COLLECTION, Revision
from ..table import door, read, schema
from ..table.legacy.upgrade import upgrade
from ..table.state import TableState, check_flags, files_written, latest
from ..table.write import conform, merge_insert, set_config
from ..words import counted
from . import entries, index, records
from .records import Records, State


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMemWal:
    """One MemWAL whose rows a migration brings into the table."""

    region: str
    generation: Generation
    state: State
    """Its state before."""
    entries: int
    rows: int
    """Rows in its entries, updates of one key counted each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What a migration has before it."""

    version: TableVersion
    """The table version that was looked at."""
    records: Records
    unmerged: tuple[MovedMemWal, ...]
    """By region and generation: the order in which they are merged."""
    rewritten: bool
    """Whether the table's data files are of a version that is not written here, so that all rows are written anew."""

    @property
    def wal_folders(self) -> tuple[str, ...]:
        """Where the WALs are; after the migration nothing in the newest version names them."""
        return tuple(sorted({record.wal_location for record in self.records}))


@implements("AMB-04", "AMB-135")
async def plan(io: Io, revision: Revision, *, pattern: str = ENTRY_NAMES) -> MigrationPlan:
    """Look at everything that a migration to ``revision`` reads, and change nothing.

    Raises `InvalidArgument` for a table that cannot be migrated, and says why; `ArtifactError` for an entry that is
    listed and cannot be read.
    """
    _check_pattern(pattern)
    state = await latest(io)
    found = _records(state)
    check_flags(state)
    await _check_keys(io, state, revision)
    unmerged = []
    for record in _unmerged(found):
        parts = await _rows(io, state, record, pattern)
        unmerged.append(_moved(record, parts))
        await io.note("planned", region=record.region, generation=record.generation, rows=unmerged[-1].rows)
    rewritten = not files_written(state)
    return MigrationPlan(version=state.version, records=found, unmerged=tuple(unmerged), rewritten=rewritten)


async def migrate(
    io: Io, revision: Revision, *, pattern: str = ENTRY_NAMES, dry_run: bool = False
) -> tuple[MovedMemWal, ...]:
    """`plan` a migration, and unless it is a ``dry_run`` `carry_out` it; returns what was, or would be, merged."""
    planned = await plan(io, revision, pattern=pattern)
    return planned.unmerged if dry_run else await carry_out(io, revision, planned, pattern=pattern)


@implements("AMB-135", "AMB-132", "AMB-133", "LEGACY-020")
async def carry_out(
    io: Io, revision: Revision, planned: MigrationPlan, *, pattern: str = ENTRY_NAMES
) -> tuple[MovedMemWal, ...]:
    """Merge every MemWAL that is not merged, region by region and generation by generation, and enable ``revision``.

    ``pattern``: name of an entry's file in its WAL, ``{id}`` for the number. Raises what `plan` raises, and
    `OwnerChanged` if a writer of revision 0 takes a region meanwhile; then the next attempt continues.
    """
    owner = str(uuid.UUID(hex=await io.random_hex(32), version=4))
    if planned.rewritten:
        rewritten = await upgrade(io)
        await io.note("rewritten", rows=rewritten.rows, version=rewritten.version)
    state = await index.change(io, lambda now, version: _taken(now, owner, version))
    moved = []
    left = _unmerged(index.of(state))
    for record in left:
        parts = await _rows(io, state, record, pattern)
        await _merge(io, record, pa.concat_tables([state.schema.remove_metadata().empty_table(), *parts]))
        done = replace(_moved(record, parts), state=_state_before(planned, record))
        moved.append(done)
        progress = f"{len(moved)}/{len(left)}"
        await io.note("migrated", region=done.region, generation=done.generation, rows=done.rows, progress=progress)
    collection = {CONFIG_WAL_COLLECTION: "off", CONFIG_MANIFEST_COLLECTION: "off"}
    await set_config(io, {CONFIG_REVISION: revision.name, **collection})
    details = IndexDetails(snapshot_ts_ms=await io.now(), num_regions=0, inline_snapshots=None)
    enabled = await mem_wal.enable(io, await latest(io), details)
    await io.note("enabled", revision=revision.name, version=enabled.version)
    return tuple(moved)


def _check_pattern(pattern: str) -> None:
    try:
        names = [pattern.format(id=number) for number in (0, 1)]
    except (LookupError, ValueError, TypeError) as error:
        raise InvalidArgument(f"{pattern!r} is not a name with {{id}} in it: {error}", clause="AMB-134") from error
    if names[0] == names[1]:
        raise InvalidArgument(f"{pattern!r} has no {{id}}: all entries would be one file", clause="AMB-134")


def _records(state: TableState) -> Records:
    """The records of revision 0; raises `InvalidArgument` for a table without any."""
    entry = state.mem_wal_entry
    data = entry.index_details.value if entry is not None else b""
    if entry is not None and not is_revision_0(data, state.path):
        if data:
            reason = "the MemWAL index is of a later revision already: there is nothing to migrate"
        else:
            reason = "the MemWAL index is empty: it holds no records of revision 0, so that there is nothing to migrate"
        raise InvalidArgument(f"{state.path}: {reason}", clause="AMB-04")
    return index.of(state)


async def _check_keys(io: Io, state: TableState, revision: Revision) -> None:
    """Raise `InvalidArgument` unless the table has a key that ``revision`` can use, with distinct values."""
    key = state.primary_key
    if not key:
        raise InvalidArgument(
            "MemWAL needs an unenforced primary key in the schema: name its columns in primary_key", clause="FORMAT-001"
        )
    schema.with_primary_key(state.schema, key)
    door.check_schema(state.schema)
    door.check_key(state.schema, key, revision)
    rows = await read.scan(io, state, list(key))
    for name in key:
        if rows.column(name).null_count:
            raise InvalidArgument(
                f"key column {name!r} of the table has NULLs: give these rows a key, or delete them", clause="AMB-136"
            )
    distinct = len(newest(rows, key))
    if distinct != rows.num_rows:
        raise InvalidArgument(
            f"the table has {counted(rows.num_rows, 'row')} and {counted(distinct, 'distinct key')}", clause="AMB-105"
        )


def _unmerged(found: Records) -> list[records.MemWal]:
    regions = sorted({record.region for record in found})
    return [r for region in regions for r in records.of_region(found, region) if r.state is not State.MERGED]


@implements("AMB-133")
async def _rows(io: Io, state: TableState, record: records.MemWal, pattern: str) -> list[pa.Table]:
    """Rows of each entry, in the schema of the table. Raises `InvalidArgument` for rows that are not of the table."""
    wanted = state.schema.remove_metadata()
    found = []
    for part in await entries.replay(io, record, pattern):
        where = f"an entry of MemWAL {record.generation} of {record.region!r}"
        try:
            rows = conform(part, wanted)
        except InvalidArgument as error:
            raise InvalidArgument(f"{where} has other rows than the table: {error}") from error
        for name in state.primary_key:
            if pc.any(pc.is_null(rows.column(name))).as_py():
                raise InvalidArgument(f"{where} has NULL in key column {name!r}", clause="AMB-136")
        found.append(rows)
    return found


def _moved(record: records.MemWal, parts: list[pa.Table]) -> MovedMemWal:
    return MovedMemWal(
        region=record.region,
        generation=record.generation,
        state=record.state,
        entries=len(parts),
        rows=sum(part.num_rows for part in parts),
    )


def _state_before(planned: MigrationPlan, record: records.MemWal) -> State:
    ids = {(one.region, one.generation): one.state for one in planned.unmerged}
    return ids.get((record.region, record.generation), record.state)


def _taken(found: Records, owner: str, version: TableVersion) -> Records:
    return tuple(r if r.state is State.MERGED else replace(r, owner_id=owner, version_updated=version) for r in found)


async def _merge(io: Io, record: records.MemWal, rows: pa.Table) -> None:
    """Rows first, state after: a crash in between merges the same rows again, which changes nothing."""
    if rows.num_rows:
        state = await latest(io)
        await merge_insert(io, state, last_of_each(rows, state.primary_key))
    await index.change(io, lambda found, version: _merged(found, record, version))


def _merged(found: Records, record: records.MemWal, version: TableVersion) -> Records:
    """``record`` as merged, from any state; raises `OwnerChanged` if another writer took it meanwhile."""
    changed = []
    for each in found:
        if (each.region, each.generation) != (record.region, record.generation):
            changed.append(each)
            continue
        if each.owner_id != record.owner_id:
            raise records.OwnerChanged(each.region, each.generation, record.owner_id, each.owner_id)
        changed.append(replace(each, state=State.MERGED, version_updated=version))
    return tuple(changed)
