"""What writers have stored and the base table does not have yet: rows in WALs, and generations to merge.

Source: MemWAL revisions A and B, "WAL Replay", "Background Merge to Base Table".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .. import paths
from ..codec.region_manifest import RegionManifest
from ..coroutines import concurrently
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import Generation, WalPosition
from ..region import manifest as manifests
from ..region.recovery import is_flushed, read_entry, replay_start
from ..table import state
from ..table.state import TableState
from . import regions


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionBacklog:
    """What one region holds that the base table does not have."""

    region_id: str
    wal_rows: int
    """Rows in entries that no generation covers; a key that was written twice counts twice."""
    wal_entries: int
    """Entries that hold them."""
    wal_bytes: int
    """Of these entries as stored."""
    generations: tuple[Generation, ...]
    """Flushed and not merged, ascending."""
    generation_rows: int
    """Rows of these generations."""
    damaged: int
    """Entries and generations that cannot be read, so that their rows cannot be counted."""


async def backlog(io: Io, base: TableState) -> tuple[RegionBacklog, ...]:
    """The backlog of each region that was ever claimed, by id. Reads each such entry once; no claim, no change."""
    live = await regions.discover(io, base.revision)
    asked = [partial(_of, io, base, manifest) for _, manifest in sorted(live.items())]
    return tuple(await concurrently(io, asked))


async def _of(io: Io, base: TableState, manifest: RegionManifest) -> RegionBacklog:
    region = manifests.folder(io, manifest.region_id)
    rows = entries = size_bytes = damaged = 0
    position = replay_start(manifest, base.revision)
    while True:
        try:
            stored_bytes = await region.head(paths.wal(position, base.revision.wal_suffix))
            entry = await read_entry(region, position, base.revision, base.schema)
        except NotFound:
            break
        except ArtifactError:
            damaged += 1
        else:
            if entry.rows.num_rows and not is_flushed(entry, manifest):
                rows, entries, size_bytes = rows + entry.rows.num_rows, entries + 1, size_bytes + stored_bytes
        position = WalPosition(position + 1)
    merged = base.mem_wal.progress(manifest.region_id)
    waiting = sorted((g for g in manifest.flushed if g.generation > merged), key=lambda g: g.generation)
    flushed = await concurrently(io, [partial(_rows_of, region.child(each.path)) for each in waiting])
    return RegionBacklog(
        region_id=manifest.region_id,
        wal_rows=rows,
        wal_entries=entries,
        wal_bytes=size_bytes,
        generations=tuple(each.generation for each in waiting),
        generation_rows=sum(rows for rows in flushed if rows is not None),
        damaged=damaged + flushed.count(None),
    )


async def _rows_of(generation: Io) -> int | None:
    """None for one that cannot be read."""
    try:
        return (await state.latest(generation)).rows
    except (NotFound, ArtifactError):
        return None
