"""Merging flushed generations into the base table, in ascending order, with progress in the same commit.

Any number of mergers may work on one region, and none of them waits for another. A merger reads the newest table
version and then the newest manifest of each region, merges the generation after the progress that it found, and commits
rows and progress together. One commit may carry the next generations of several regions (AMB-150). A merger that
commits second finds the progress changed and begins anew with what is still to be merged.

Memory is bounded by the keys of one commit's generations and `memwal.table.upsert.KEYS_BYTES` of those of the base, not
by rows. Source: MemWAL revisions A and B, "MemTable Merger", "Merge Workflow" and appendix 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..clauses import implements
from ..codec import marks as coding
from ..codec.region_manifest import RegionManifest
from ..coroutines import ahead
from ..effects import Io
from ..errors import AlreadyMerged, ArtifactError, Conflict, EngineBug, InvalidArgument, NotFound, Unmergeable
from ..ids import Generation, RegionId
from ..index import discovery
from ..read.fragments import holding_keys
from ..read.generation import open_source
from ..read.sources import unmerged
from ..region import manifest as manifests
from ..table.marks import record
from ..table.state import TableState, check_writable, latest
from ..table.upsert import KeysRead, Work, begin, discard, fits, schema_of, upsert
from ..table.write import CONFLICT_ATTEMPTS
from . import merge_group
from .defaults import COMMIT_EVERY
from .merge_group import GroupMember, NextMerge, combined, held_bytes, parts, share_keys

Failure = ArtifactError | InvalidArgument | Unmergeable
"""Why a region cannot be merged to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One generation that this merger committed."""

    region_id: RegionId
    generation: Generation
    rows: int
    """Rows upserted, after keeping the last of each key."""
    deleted: int
    """Keys deleted (R)."""
    commit: int
    """Number of the commit among those of its call, from 1 on: several generations may share one."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One commit in the making; kept when it is lost to another, so that what is stored is not stored again."""

    members: tuple[GroupMember, ...]
    first: TableState
    """The base version for which it was begun."""
    work: Work

    def holds(self, following: Mapping[RegionId, NextMerge], state: TableState) -> bool:
        """Whether each member is still what follows in its region, in a table with the same columns."""
        return fits(self.work, state) and all(
            member.region in following and member.listed == following[member.region].listed for member in self.members
        )


@dataclass(slots=True)
class _Run:
    """What one call has done so far, and what is left."""

    waiting: list[RegionId]
    """Regions that may have something to be merged."""
    until: Generation | None
    beside: Collection[RegionId]
    commit_every: int
    base: KeysRead = field(default_factory=KeysRead)
    done: list[Merged] = field(default_factory=list)
    failed: dict[RegionId, Failure] = field(default_factory=dict)
    attempt: _Attempt | None = None
    opened: dict[RegionId, GroupMember] = field(default_factory=dict)
    """Opened and not committed yet."""
    apart: set[RegionId] = field(default_factory=set)
    """Regions that share no commit: they have keys in common, or one with several could not be prepared."""
    lost: set[tuple[RegionId, Generation]] = field(default_factory=set)
    """Generations that could not be merged and are skipped (literal, AMB-81)."""
    conflicts: int = 0
    """Since the last commit."""

    def end(self, region: RegionId, failure: Failure | None = None) -> None:
        """Nothing more of ``region`` is merged."""
        self.waiting.remove(region)
        self.opened.pop(region, None)
        if failure is not None:
            self.failed[region] = failure


async def merge_region(io: Io, region: RegionId, until: Generation | None = None) -> tuple[Merged, ...]:
    """Merge every generation of ``region`` that is listed and not merged; returns those that this call committed.

    As `merge_regions` of this region alone; what is wrong with it is raised.
    """
    done, failed = await merge_regions(io, (region,), until)
    for failure in failed.values():
        raise failure
    return done


@implements("MERGE-007", "MERGE-009", "MERGE-011", "MERGE-012", "MERGE-014", "MERGE-015", "AMB-81", "AMB-82", "AMB-84")
async def merge_regions(
    io: Io,
    regions: Sequence[RegionId],
    until: Generation | None = None,
    beside: Collection[RegionId] = (),
    *,
    commit_every: int = COMMIT_EVERY,
    done: list[Merged] | None = None,
) -> tuple[tuple[Merged, ...], Mapping[RegionId, Failure]]:
    """Merge every generation of ``regions`` that is listed and not merged; returns those that this call committed.

    With them the regions that could not be merged to their end, and why; such a region stops none of the others.
    ``until``: the last generation to merge in each; None: all. ``beside``: manual regions that the caller knows of
    beside the registered ones. ``commit_every``: most regions that share a commit, each with its next generation
    (AMB-150, one version for several regions); 1: none does.

    A commit counts when the newest version has its progress. A generation that another merger committed first is
    skipped. One that cannot be opened stops its region: a merger never continues with the next. Raises `Conflict` if
    the table cannot be merged into or changed too often, and the store's own outcomes; what was committed before that
    stays, and is in ``done``, which each commit is added to.
    """
    run = _Run(list(dict.fromkeys(regions)), until, beside, commit_every, done=[] if done is None else done)
    while run.waiting:
        try:
            await _step(io, run)
        except AlreadyMerged as merged:
            # MERGE-011, MERGE-014: another has merged it; continue with what follows in the newest version.
            await io.note("merge_skipped", region=merged.region, generation=merged.generation)
            await _give_up(io, run)
        except Conflict as conflict:
            run.conflicts += 1
            # MERGE-012, retry: the progress is still below, so that the generation is to be merged.
            if not conflict.retryable or run.conflicts >= CONFLICT_ATTEMPTS:
                await _give_up(io, run)
                raise
            first = run.attempt.members[0].region if run.attempt is not None else run.waiting[0]
            await io.note("merge_conflict", region=first, theirs=conflict.theirs)
    await _give_up(io, run)
    return tuple(run.done), run.failed


async def _step(io: Io, run: _Run) -> None:
    """Commit what follows the progress of the newest version, in as many regions as share a commit."""
    state = await latest(io)
    following = await _followings(io, state, run)
    if not following:
        return
    if run.attempt is None or not run.attempt.holds(following, state):
        await _give_up(io, run)
        members = await _members(io, state, run, following)
        if not members:
            return
        run.attempt = _Attempt(members, state, begin(combined(members), state, run.base, parts(members)))
    members = run.attempt.members
    try:
        # AMB-149, finished tasks: the table has their marks before the generation may go; then on its newest version.
        marks = {member.region: found for member in members if (found := _marks(member))}
        if marks and (await record(io, marks)).version != state.version:
            return
        if io.interpretation.manual_regions_apart and len(members) == 1:
            run.attempt.work.owner = await _owner(io, state, following[members[0].region].manifest, run.beside)
        await _commit(io, state, run.attempt)
    except (ArtifactError, InvalidArgument, Unmergeable) as failure:
        await _fail(io, state, run, members, failure)
        return
    run.attempt, run.conflicts = None, 0
    commit = run.done[-1].commit + 1 if run.done else 1
    for member in members:
        done = Merged(
            region_id=member.region,
            generation=member.listed.generation,
            rows=member.source.rows,
            deleted=member.source.deleted,
            commit=commit,
        )
        run.opened.pop(member.region)
        run.done.append(done)
        await io.note("merged", region=done.region_id, generation=done.generation, rows=done.rows)


async def _followings(io: Io, state: TableState, run: _Run) -> dict[RegionId, NextMerge]:
    """What is to be merged next in the first regions that have something, as many as may share a commit."""

    async def follow(region: RegionId) -> tuple[RegionId, NextMerge | Failure | None]:
        last = next((merged for merged in reversed(run.done) if merged.region_id == region), None)
        # A restore took the table back to before what this call has merged: it is merged anew.
        if last is not None and state.mem_wal.progress(region) < last.generation:
            await io.note("merge_void", region=region, generation=last.generation)
            run.done.remove(last)
        try:
            return region, await _following(io, state, region, run.lost)
        except (ArtifactError, InvalidArgument, Unmergeable) as failure:
            return region, failure

    found = dict[RegionId, NextMerge]()
    async for region, following in ahead(io, [partial(follow, region) for region in run.waiting]):
        if isinstance(following, Failure):
            run.end(region, following)
            continue  # what is wrong with one region says nothing of the next
        if following is None or (run.until is not None and following.listed.generation > run.until):
            run.end(region)
            continue  # all of it is merged
        # AMB-56: of manual regions it is asked for each commit which rows they may replace.
        alone = region in run.apart or not following.manifest.spec_id
        if not (alone and found):
            found[region] = following
        if alone or len(found) >= run.commit_every:
            break
    return found


async def _members(
    io: Io, state: TableState, run: _Run, following: Mapping[RegionId, NextMerge]
) -> tuple[GroupMember, ...]:
    """Those of ``following`` that go into one commit, opened; what cannot be opened is left out."""

    async def opened(wanted: NextMerge) -> tuple[NextMerge, GroupMember | Failure]:
        member = run.opened.get(wanted.region)
        if member is None or member.listed != wanted.listed or schema_of(member.source.base) != schema_of(state):
            try:
                member = run.opened[wanted.region] = await _opened(io, state, wanted)
            except (ArtifactError, InvalidArgument, Unmergeable) as failure:
                return wanted, failure
        return wanted, member

    members, held = list[GroupMember](), 0
    async for wanted, member in ahead(io, [partial(opened, each) for each in following.values()]):
        if isinstance(member, Failure):
            await _fail(io, state, run, (wanted,), member)
            continue  # it stops its own region only
        held += held_bytes(member.source)
        # One data file has the rows of all: the same columns, and not too many of them.
        if members and (held > merge_group.GROUP_BYTES or member.source.absent != members[0].source.absent):
            break
        members.append(member)
    if share_keys(members):
        # AMB-150: whose row is the newest is not for a merger to say, so that they go one after the other.
        run.apart.update(member.region for member in members)
        del members[1:]
    return tuple(members)


async def _fail(
    io: Io, state: TableState, run: _Run, members: Sequence[NextMerge | GroupMember], failure: Failure
) -> None:
    """Continue without ``members``, whose commit cannot be prepared; with each by itself if they are several."""
    if isinstance(failure, Unmergeable):
        await _check_columns(io, state)
    await _give_up(io, run)
    if len(members) > 1:
        run.apart.update(member.region for member in members)
    # AMB-81, skipping a generation: never, its keys may be newer than what is in later ones. Literally it may.
    elif io.interpretation.contiguous_merge:
        run.end(members[0].region, failure)
    else:
        run.lost.add((members[0].region, members[0].listed.generation))


@implements("MERGE-001", "MERGE-003", "MERGE-004", "MERGE-010", "MERGE-021", "AMB-80", "AMB-81")
async def _following(
    io: Io, state: TableState, region: RegionId, lost: Collection[tuple[RegionId, Generation]]
) -> NextMerge | None:
    """The generation after the progress of ``state``, ``lost`` ones left out; None if no later one is listed."""
    folder = manifests.folder(io, region)
    manifest = await manifests.latest(folder, state.revision, collected=state.collects_manifests)
    progress = state.mem_wal.progress(region)
    # MERGE-004, step 2: the listed generations above the progress, ascending.
    later = unmerged(manifest, progress) if manifest is not None else ()
    listed = [g for g in later if (region, g.generation) not in lost]
    if manifest is None or not listed:
        return None
    # MERGE-001, ascending order: the next one and no other.
    if io.interpretation.contiguous_merge and listed[0].generation != progress + 1:
        await _check_not_merged(io, state, [(region, listed[0].generation)])
        reason = f"generation {progress + 1} is neither merged nor listed, and generation {listed[0].generation} is"
        raise ArtifactError("MERGE-001", folder.root, reason)
    return NextMerge(region, manifest, listed[0])


@implements("REGION-003", "AMB-56")
async def _owner(io: Io, state: TableState, manifest: RegionManifest, beside: Collection[RegionId]) -> RegionId | None:
    """The region of ``manifest`` if it is one of several manual ones: its rows may replace its own only."""
    if manifest.spec_id:
        return None
    manual = {row.region_id for row in await discovery.known(io, state) if not row.spec_id}
    return manifest.region_id if (manual | set(beside)) - {manifest.region_id} else None


async def _check_not_merged(io: Io, state: TableState, wanted: Sequence[tuple[RegionId, Generation]]) -> None:
    """Raise `AlreadyMerged` if progress of a region advanced since ``state``: then what is missing was collected."""
    newest = (await latest(io)).mem_wal
    for region, generation in wanted:
        if newest.progress(region) > state.mem_wal.progress(region):
            raise AlreadyMerged(region, generation, newest.progress(region))


@implements("MERGE-005", "AMB-92")
async def _opened(io: Io, state: TableState, wanted: NextMerge) -> GroupMember:
    region, listed = wanted.region, wanted.listed
    try:
        source = await open_source(manifests.folder(io, region), listed.path, state)
    except NotFound as missing:
        await _check_not_merged(io, state, [(region, listed.generation)])
        reason = "the generation is listed and not merged, and it is not there"
        raise ArtifactError("AMB-92", missing.path, reason) from None
    except ArtifactError:
        await _check_not_merged(io, state, [(region, listed.generation)])
        raise
    return GroupMember(region, listed, source)


def _marks(member: GroupMember) -> tuple[coding.Mark, ...]:
    """The finished tasks whose rows the generation has."""
    return coding.decode(member.source.generation.config.get(coding.DONE), member.source.path)


@implements("MERGE-006", "AMB-83", "AMB-92", "AMB-150")
async def _commit(io: Io, state: TableState, attempt: _Attempt) -> None:
    """Commit the attempt on ``state``; whatever cannot be read means that nothing is committed.

    A file may be gone because a generation was merged by another and collected, or because ``state`` was replaced.
    """
    check_writable(state)
    progress = [(member.region, member.listed.generation) for member in attempt.members]
    try:
        # MERGE-006, atomically: rows and progress in one transaction.
        holding = await holding_keys(io, state, attempt.work.source.keys)
        committed = await upsert(io, state, attempt.work, progress=progress, holding=holding)
    except ArtifactError:
        newest = await latest(io)
        # It is damage only where the version that names the file is the newest still.
        if newest.version == state.version:
            raise
        await _check_not_merged(io, state, progress)
        if newest.manifest.message.fragments == state.manifest.message.fragments:
            raise
        raise Conflict(newest.version, "update", "", retryable=True, reason="the version was replaced") from None
    for region, generation in progress:
        if (recorded := committed.mem_wal.progress(region)) < generation:
            reason = f"version {committed.version}, which merged generation {generation} of {region}"
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
