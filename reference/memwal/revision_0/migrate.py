"""The way from revision 0 to another: merge what is not merged, then replace the MemWAL index.

Offline (AMB-135): the first step takes every region from its writer. A crash anywhere leaves a table of revision 0 that
the next attempt finishes.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pyarrow as pa

from ..clauses import implements
from ..codec.index_details import IndexDetails
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import Generation, TableVersion
from ..index import mem_wal
from ..keys import newest
from ..revisions import CONFIG_REVISION, Revision
from ..table.state import latest
from ..table.write import conform, merge_insert, set_config
from . import entries, index, records
from .records import Records, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One MemWAL whose rows a migration brings into the table."""

    region: str
    generation: Generation
    state: State
    """Its state before."""
    entries: int
    rows: int
    """Rows in its entries, updates of one key counted each."""


@implements("AMB-135")
async def migrate(
    io: Io, revision: Revision, *, pattern: str = entries.PATTERN, dry_run: bool = False
) -> tuple[Moved, ...]:
    """Merge every MemWAL that is not merged, region by region and generation by generation, and enable ``revision``.

    ``pattern``: name of an entry's file in its WAL, ``{id}`` for the number. A dry run reads the entries and changes
    nothing. Raises `InvalidArgument` for a table that is not of revision 0 or has no key, `ArtifactError` for an entry
    that is listed and cannot be read; then nothing of its MemWAL is merged.
    """
    state = await latest(io)
    found = index.of(state)
    if not state.primary_key:
        raise InvalidArgument("MemWAL needs an unenforced primary key in the schema", clause="FORMAT-001")
    if not dry_run:
        owner = str(uuid.UUID(hex=await io.random_hex(32), version=4))
        state = await index.change(io, lambda now, version: _taken(now, owner, version))
        found = index.of(state)
    moved = []
    for region in sorted({record.region for record in found}):
        for record in records.of_region(found, region):
            if record.state is State.MERGED:
                continue
            schema = state.schema.remove_metadata()
            parts = [conform(part, schema) for part in await entries.replay(io, record, pattern)]
            rows = pa.concat_tables([schema.empty_table(), *parts])
            done = Moved(
                region=region,
                generation=record.generation,
                state=record.state,
                entries=len(parts),
                rows=rows.num_rows,
            )
            if not dry_run:
                await _merge(io, record, rows)
            moved.append(done)
            await io.note("migrated", region=region, generation=record.generation, rows=rows.num_rows)
    if not dry_run:
        await set_config(io, {CONFIG_REVISION: revision.name})
        details = IndexDetails(snapshot_ts_ms=await io.now(), num_regions=0, inline_snapshots=None)
        await mem_wal.enable(io, await latest(io), details)
    return tuple(moved)


def _taken(found: Records, owner: str, version: TableVersion) -> Records:
    return tuple(r if r.state is State.MERGED else replace(r, owner_id=owner, version_updated=version) for r in found)


async def _merge(io: Io, record: records.MemWal, rows: pa.Table) -> None:
    """Rows first, state after, as in `writer.merge`."""
    if rows.num_rows:
        state = await latest(io)
        await merge_insert(io, state, rows.take(pa.array(newest(rows, state.primary_key))))
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
