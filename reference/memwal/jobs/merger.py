"""Merging flushed generations into the base table, in ascending order, with progress in the same commit.

Source: MemWAL revisions A and B, "MemTable Merger"; AMB-46, 81, 82, 83, 84, 85, 92.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..errors import AlreadyMerged, ArtifactError, Conflict, NotFound
from ..ids import Generation, RegionId
from ..keys import newest
from ..read.sources import open_generation, unmerged
from ..region import manifest as manifests
from ..region.rows import Rows
from ..revisions import STRICT, Interpretation
from ..table.state import TableState, latest
from ..table.write import CONFLICT_ATTEMPTS, merge_insert


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One generation that this merger committed."""

    region_id: RegionId
    generation: Generation
    rows: int
    """Rows upserted, after keeping the last of each key."""
    deleted: int
    """Keys deleted (R)."""


@implements(
    "MERGE-001", "MERGE-003", "MERGE-004", "MERGE-005", "MERGE-007", "MERGE-009", "MERGE-010", "MERGE-011",
    "MERGE-012", "MERGE-014", "MERGE-015", "MERGE-021", "AMB-81", "AMB-82", "AMB-84",
)  # fmt: skip
async def merge_region(io: Io, region: RegionId, interpretation: Interpretation = STRICT) -> tuple[Merged, ...]:
    """Merge every generation of ``region`` that is listed and not merged; returns those that this call committed.

    A generation that another merger committed first is skipped. One that cannot be opened stops the merge with an
    error: a merger never goes on to the next.
    """
    done: list[Merged] = []
    conflicts = 0
    while True:
        state = await latest(io)
        try:
            merged = await _merge_next(io, state, region, interpretation)
        except AlreadyMerged:
            continue
        except Conflict as conflict:
            conflicts += 1
            if not conflict.retryable or conflicts >= CONFLICT_ATTEMPTS:
                raise
            await io.note("merge_conflict", region=region, theirs=conflict.theirs)
            continue
        if merged is None:
            return tuple(done)
        done.append(merged)
        await io.note("merged", region=region, generation=merged.generation, rows=merged.rows)


async def _merge_next(io: Io, state: TableState, region: RegionId, interpretation: Interpretation) -> Merged | None:
    """Merge the generation after the progress of ``state``; None if no later one is listed."""
    manifest = await manifests.latest(manifests.folder(io, region), state.revision, interpretation)
    if manifest is None:
        return None
    progress = state.mem_wal.progress(region)
    listed = unmerged(manifest, progress)
    if not listed:
        return None
    following = listed[0]
    if interpretation.contiguous_merge and following.generation != progress + 1:
        return await _skipped(io, state, region, following.generation)
    try:
        rows = await open_generation(manifests.folder(io, region), following.path)
    except (NotFound, ArtifactError):
        if (await latest(io)).mem_wal.progress(region) >= following.generation:
            raise AlreadyMerged(region, following.generation, following.generation) from None
        raise
    stored = Rows(table=state.schema, key=state.primary_key, revision=state.revision)
    live, deleted = stored.split(last_per_key(stored.restored(rows, following.path), state.primary_key))
    await merge_insert(
        io,
        state,
        live,
        delete_keys=deleted,
        progress=((region, following.generation),),
        interpretation=interpretation,
    )
    return Merged(region_id=region, generation=following.generation, rows=live.num_rows, deleted=deleted.num_rows)


async def _skipped(io: Io, state: TableState, region: RegionId, generation: Generation) -> Merged | None:
    """A generation above progress is not listed: another merger and the collector were quicker, or it is lost."""
    newest_state = await latest(io)
    progress = newest_state.mem_wal.progress(region)
    if progress > state.mem_wal.progress(region):
        raise AlreadyMerged(region, generation, progress)
    reason = f"generation {progress + 1} is not listed and not merged, and generation {generation} is listed"
    raise ArtifactError("MERGE-001", manifests.folder(io, region).root, reason)


@implements("MERGE-020", "AMB-46")
def last_per_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The last row of each key, in write order. A table without a key keeps all rows (R)."""
    return rows.take(pa.array(newest(rows, key))) if key else rows
