"""Merging flushed generations into the base table, in ascending order, with progress in the same commit.

Any number of mergers may work on one region, and none of them waits for another. A merger reads the newest table
version and then the region's newest manifest, merges the generation after the progress that it found, and commits rows
and progress together. Whoever commits second finds the progress changed and begins anew.

Memory is bounded by the keys of one generation and `memwal.table.upsert.KEYS_BYTES` of those of the base, not by rows.
Source: MemWAL revisions A and B, "MemTable Merger", "Merge Workflow" and appendix 2.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ..clauses import implements
from ..codec import marks as coding
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..errors import AlreadyMerged, ArtifactError, Conflict, EngineBug, InvalidArgument, NotFound, Unmergeable
from ..ids import Generation, RegionId
from ..index import discovery
from ..read.generation import GenerationSource, open_source
from ..read.sources import unmerged
from ..region import manifest as manifests
from ..table.marks import record
from ..table.state import TableState, check_writable, latest
from ..table.upsert import KeysRead, Work, begin, discard, fits, upsert
from ..table.write import CONFLICT_ATTEMPTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One generation that this merger committed."""

    region_id: RegionId
    generation: Generation
    rows: int
    """Rows upserted, after keeping the last of each key."""
    deleted: int
    """Keys deleted (R)."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A generation that is being merged; kept over lost commits, so that what is stored is not stored again."""

    listed: FlushedGeneration
    first: TableState
    """The base version for which it was opened."""
    source: GenerationSource
    work: Work


@dataclass(slots=True)
class _Run:
    """What one call has done so far."""

    base: KeysRead
    done: list[Merged] = field(default_factory=list)
    attempt: _Attempt | None = None
    trying: Generation | None = None
    """The generation that is being merged, opened or not."""
    lost: set[Generation] = field(default_factory=set)
    """Generations that could not be merged and are skipped (literal, AMB-81)."""
    conflicts: int = 0


@implements("MERGE-007", "MERGE-009", "MERGE-011", "MERGE-012", "MERGE-014", "MERGE-015", "AMB-81", "AMB-82", "AMB-84")
async def merge_region(
    io: Io,
    region: RegionId,
    until: Generation | None = None,
    beside: Collection[RegionId] = (),
    base: KeysRead | None = None,
) -> tuple[Merged, ...]:
    """Merge every generation of ``region`` that is listed and not merged; returns those that this call committed.

    ``until``: the last one to merge; None: all. ``beside``: manual regions that the caller knows of beside the
    registered ones. ``base``: what the caller's pass over several regions has read of the base, so that it opens no
    fragment twice. A commit counts when the newest version has its progress. A generation that another merger committed
    first is skipped. One that cannot be opened stops the merge with an error: a merger
    never goes on to the next. Raises `ArtifactError` for missing or damaged files, `Unmergeable` for a generation that
    does not fit the table, and `Conflict` if the table cannot be merged into or changed too often.
    """
    run = _Run(base=base or KeysRead())
    while True:
        try:
            if not await _step(io, region, run, until, beside):
                await _give_up(io, run)
                return tuple(run.done)
        except AlreadyMerged as merged:
            # MERGE-011, MERGE-014: another has merged it; go on with what follows in the newest version.
            await io.note("merge_skipped", region=region, generation=merged.generation)
            await _give_up(io, run)
        except Conflict as conflict:
            run.conflicts += 1
            # MERGE-012, retry: the progress is still below, so that the generation is to be merged.
            if not conflict.retryable or run.conflicts >= CONFLICT_ATTEMPTS:
                await _give_up(io, run)
                raise
            await io.note("merge_conflict", region=region, theirs=conflict.theirs)
        except (ArtifactError, InvalidArgument, Unmergeable):
            await _give_up(io, run)
            # AMB-81, skipping a generation: never, its keys may be newer than what is in later ones. Literally it may.
            if io.interpretation.contiguous_merge or run.trying is None:
                raise
            run.lost.add(run.trying)


async def _step(
    io: Io,
    region: RegionId,
    run: _Run,
    until: Generation | None,
    beside: Collection[RegionId],
) -> bool:
    """Merge the generation after the progress of the newest version; False if there is none up to ``until``."""
    run.trying = None
    state = await latest(io)
    # A restore took the table back to before what this call has merged: it is merged anew.
    if run.done and state.mem_wal.progress(region) < run.done[-1].generation:
        await io.note("merge_void", region=region, generation=run.done.pop().generation)
    following = await _following(io, state, region, run.lost)
    if following is None or (until is not None and following[1].generation > until):
        return False
    manifest, listed = following
    run.trying = listed.generation
    try:
        # What is stored of a lost attempt serves again if generation and columns are the same.
        if run.attempt is None or run.attempt.listed != listed or not fits(run.attempt.work, state):
            await _give_up(io, run)
            run.attempt = await _opened(io, state, region, listed, run.base)
        # AMB-149, finished tasks: the table has their marks before the generation may go; then on its newest version.
        marks = coding.decode(run.attempt.source.generation.config.get(coding.DONE), run.attempt.source.path)
        if marks and (await record(io, region, marks)).version != state.version:
            return True
        if io.interpretation.manual_regions_apart:
            run.attempt.work.owner = await _owner(io, state, manifest, beside)
        await _commit(io, state, region, run.attempt)
    except Unmergeable:
        await _check_columns(io, state)
        raise
    rows, deleted = run.attempt.source.rows, run.attempt.source.deleted
    run.attempt = None
    run.done.append(Merged(region_id=region, generation=listed.generation, rows=rows, deleted=deleted))
    await io.note("merged", region=region, generation=listed.generation, rows=rows)
    return True


@implements("MERGE-001", "MERGE-003", "MERGE-004", "MERGE-010", "MERGE-021", "AMB-80", "AMB-81")
async def _following(
    io: Io, state: TableState, region: RegionId, lost: Collection[Generation]
) -> tuple[RegionManifest, FlushedGeneration] | None:
    """The generation after the progress of ``state``, ``lost`` ones left out; None if no later one is listed.

    With the manifest that lists it.
    """
    folder = manifests.folder(io, region)
    manifest = await manifests.latest(folder, state.revision, collected=state.collects_manifests)
    progress = state.mem_wal.progress(region)
    # MERGE-004, step 2: the listed generations above the progress, ascending.
    listed = [g for g in unmerged(manifest, progress) if g.generation not in lost] if manifest is not None else []
    if manifest is None or not listed:
        return None
    # MERGE-001, ascending order: the next one and no other.
    if io.interpretation.contiguous_merge and listed[0].generation != progress + 1:
        await _check_not_merged(io, state, region, listed[0].generation)
        reason = f"generation {progress + 1} is neither merged nor listed, and generation {listed[0].generation} is"
        raise ArtifactError("MERGE-001", folder.root, reason)
    return manifest, listed[0]


@implements("REGION-003", "AMB-56")
async def _owner(io: Io, state: TableState, manifest: RegionManifest, beside: Collection[RegionId]) -> RegionId | None:
    """The region of ``manifest`` if it is one of several manual ones: its rows may replace its own only."""
    if manifest.spec_id:
        return None
    manual = {row.region_id for row in await discovery.known(io, state) if not row.spec_id}
    return manifest.region_id if (manual | set(beside)) - {manifest.region_id} else None


async def _check_not_merged(io: Io, state: TableState, region: RegionId, generation: Generation) -> None:
    """Raise `AlreadyMerged` if the region's progress went on since ``state``: then what is missing was collected."""
    progress = (await latest(io)).mem_wal.progress(region)
    if progress > state.mem_wal.progress(region):
        raise AlreadyMerged(region, generation, progress)


@implements("MERGE-005", "AMB-92")
async def _opened(io: Io, state: TableState, region: RegionId, listed: FlushedGeneration, base: KeysRead) -> _Attempt:
    try:
        source = await open_source(manifests.folder(io, region), listed.path, state)
    except NotFound as missing:
        await _check_not_merged(io, state, region, listed.generation)
        reason = "the generation is listed and not merged, and it is not there"
        raise ArtifactError("AMB-92", missing.path, reason) from None
    except ArtifactError:
        await _check_not_merged(io, state, region, listed.generation)
        raise
    return _Attempt(listed, state, source, begin(source, state, base))


@implements("MERGE-006", "AMB-83", "AMB-92")
async def _commit(io: Io, state: TableState, region: RegionId, attempt: _Attempt) -> None:
    """Commit the attempt on ``state``; whatever cannot be read means that nothing is committed.

    A file may be gone because the generation was merged by another and collected, or because ``state`` was replaced.
    """
    check_writable(state)
    progress = ((region, attempt.listed.generation),)
    try:
        # MERGE-006, atomically: rows and progress in one transaction.
        committed = await upsert(io, state, attempt.work, progress=progress)
    except ArtifactError:
        newest = await latest(io)
        # It is damage only where the version that names the file is the newest still.
        if newest.version == state.version:
            raise
        await _check_not_merged(io, state, region, attempt.listed.generation)
        if newest.manifest.message.fragments == state.manifest.message.fragments:
            raise
        raise Conflict(newest.version, "update", "", retryable=True, reason="the version was replaced") from None
    if committed.mem_wal.progress(region) < attempt.listed.generation:
        recorded = committed.mem_wal.progress(region)
        reason = f"version {committed.version}, which merged generation {attempt.listed.generation} of {region}"
        raise EngineBug(f"{reason}, records progress {recorded}")


@implements("AMB-50")
async def _check_columns(io: Io, state: TableState) -> None:
    """Raise a retryable `Conflict` if the table has other columns than in ``state``: then that says nothing."""
    newest = await latest(io)
    if newest.fields != state.fields:
        raise Conflict(newest.version, "update", "", retryable=True, reason="columns have come or gone")


async def _give_up(io: Io, run: _Run) -> None:
    attempt, run.attempt = run.attempt, None
    if attempt is not None:
        await discard(io, attempt.work, attempt.first)
