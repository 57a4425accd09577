"""The base table index builder: extends an index over merged data and credits it with what it then covers.

Each step reads one table version, builds in a private mirror of it, stores the new files under fresh UUIDs, and commits
one transaction that puts them into the index and the credit into the MemWAL index. Merges never wait for it.
Source: MemWAL revision A, "Base Table Index Builder".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from .. import confirm
from ..clauses import implements
from ..codec import index_details, index_file
from ..codec.index_details import IndexDetails, Progress
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..effects import Io
from ..errors import Conflict, EngineBug, NotFound, OutcomeUnknown, StorageError, Throttled, check_name
from ..ids import FragmentId, TableVersion
from ..index import snapshot
from ..revisions import R
from ..table import reuse, vector_models
from ..table.commit import commit, transaction_of
from ..table.conflicts import ConflictVerdict, verdict
from ..table.coverage import fragment_ids, index_names, segments, uncovered, with_credit
from ..table.mirror import Mirror, fill, index_folder
from ..table.state import TableState, check_writable, latest, load, versions
from ..table.vector_models import is_vector
from ..table.write import CONFLICT_ATTEMPTS
from .extension import Extension, Segments, extend

Transaction = transaction_pb2.Transaction

REBUILDS = 20
"""Most builds of one call; each further one means that another process changed what the index covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """What one call did for one index."""

    index_name: str
    version_indexed: TableVersion
    """The table version that the index covers now."""
    fragments: tuple[FragmentId, ...]
    """Fragments that were added to the index; empty if it covered the version already."""
    credited: Progress
    """Recorded catch-up per region after the call."""
    committed: bool
    """Whether a new table version was needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """An index over one table version, stored and not yet committed."""

    name: str
    indexed: TableState
    fragments: tuple[FragmentId, ...]
    """Those that it covers and the index in ``indexed`` does not."""
    added: Segments
    removed: Segments
    files: tuple[str, ...]
    """Objects written for it."""

    @property
    def changes(self) -> Transaction.CreateIndex:
        return Transaction.CreateIndex(new_indices=self.added, removed_indices=self.removed)


@implements("CATCHUP-003", "CATCHUP-005", "CATCHUP-006", "CATCHUP-007", "CATCHUP-009", "AMB-69", "AMB-70")
async def catch_up(io: Io, name: str) -> CaughtUp:
    """Extend the index ``name`` over the newest table version and credit it with the generations merged in that.

    The index need not be among the maintained ones. Raises `InvalidArgument` if there is no such index or MemWAL is not
    enabled, `Conflict` if the index was dropped meanwhile or others kept changing it, and `ArtifactError` for damaged
    files.
    """
    for left in reversed(range(REBUILDS)):
        state = await latest(io)
        check_writable(state)
        _ = state.mem_wal
        before = segments(state, name)
        # The first look: the caller named what is not there. Later ones: it was dropped meanwhile.
        if not before and left == REBUILDS - 1:
            check_name("index", name, index_names(state), clause="AMB-48")
        if not before:
            reason = f"index {name!r} was dropped while it was being built"
            raise Conflict(state.version, "create_index", "create_index", retryable=False, reason=reason)
        build = await _build(io, state, name, before)
        try:
            return await _publish(io, build)
        except Conflict as conflict:
            # CATCHUP-009, a conflict that changed the index: build anew on what is newest.
            await _discard(io, build)
            if not conflict.retryable or not left:
                raise
            await io.note("index_conflict", index=name, theirs=conflict.theirs)
    raise AssertionError("unreachable")


@implements("CATCHUP-006", "AMB-76")
async def _build(io: Io, state: TableState, name: str, before: Segments) -> _Build:
    """Index what ``before`` does not cover, and store the new files; nothing refers to them yet.

    An index that covers everything is replaced by itself, so that its credit conflicts with whatever changes it.
    """
    missing = tuple(sorted(uncovered(state, name)))
    if not missing:
        return _Build(name=name, indexed=state, fragments=(), added=before, removed=before, files=())
    await io.note("indexing", index=name, version=state.version, fragments=len(missing))
    with Mirror() as mirror:
        moved = tuple(filter(reuse.is_reuse, state.manifest.indices))
        # An index of runs of letters cannot follow moved rows: pylance reads all texts anew for it (14.0).
        anew = moved and any(each.index_details.type_url.endswith("NGramIndexDetails") for each in before)
        needed = tuple(sorted(fragment_ids(state))) if anew else missing
        await fill(io, state, mirror, fragments=needed, indices=(*before, *moved))
        extension = extend(mirror, state, name, before)
        added, files = await _store(io, mirror, state, extension)
    await _check_models(io, name, before, added)
    return _Build(
        name=name,
        indexed=state,
        fragments=missing,
        added=added,
        removed=extension.removed,
        files=files,
    )


@implements("AMB-51")
async def _check_models(io: Io, name: str, before: Segments, added: Segments) -> None:
    """Vectors of new parts are encoded as those of the old ones were, unless the index was never trained."""
    old = {await vector_models.load(io, entry) for entry in before if is_vector(entry)} - {None}
    new = {await vector_models.load(io, entry) for entry in added if is_vector(entry)}
    if old and not new <= old:
        raise EngineBug(
            f"index {name!r} was trained anew while it was extended, which a maintained index must not be (AMB-51)"
        )


async def _store(io: Io, mirror: Mirror, state: TableState, extension: Extension) -> tuple[Segments, tuple[str, ...]]:
    """Copy new index files from the mirror into the table, one at a time, under UUIDs that no other process has.

    Their row addresses are those of ``state``, whatever rewrites the index had yet to follow (TXN-054).
    """
    added, files = [], []
    for built in extension.added:
        entry = table_pb2.IndexMetadata()
        entry.CopyFrom(built)
        entry.uuid.uuid = await _fresh_uuid(io)
        entry.created_at = await io.now()
        entry.dataset_version = state.version
        source, target = index_folder(built.uuid.uuid), index_folder(entry.uuid.uuid)
        for name in mirror.files(source):
            stored = target + name.removeprefix(source)
            data = mirror.path(name).read_bytes()
            if name.endswith(".lance"):
                data = index_file.with_ordered_maps(data)
            await confirm.create_fresh(io, stored, data)
            files.append(stored)
        added.append(entry)
    return tuple(added), tuple(files)


async def _fresh_uuid(io: Io) -> bytes:
    return uuid.UUID(hex=await io.random_hex(32), version=4).bytes


async def _discard(io: Io, build: _Build) -> None:
    """Delete the files of a build that was not committed; left as they are where that is not certain."""
    ours = {entry.uuid.uuid for entry in build.added}
    try:
        for version in await versions(io):
            later = version > build.indexed.version
            if later and any(e.uuid.uuid in ours for e in (await load(io, version)).manifest.indices):
                return
        for name in build.files:
            await io.delete(name)
    except (NotFound, OutcomeUnknown, StorageError, Throttled) as failure:
        await io.note("index_files_left", index=build.name, reason=str(failure))


@implements("CATCHUP-008", "CATCHUP-009", "AMB-70", "AMB-86")
async def _publish(io: Io, build: _Build) -> CaughtUp:
    """Commit the build with its credit, again and again on newer versions as long as it is right in them.

    The credit is the progress of the version that was indexed, whatever was merged since. Raises `Conflict`,
    ``retryable`` if building anew can help.
    """
    base = build.indexed if io.interpretation.credit_indexed_version else await latest(io)
    for left in reversed(range(CONFLICT_ATTEMPTS)):
        # AMB-70, progress read after building: the credit is what the indexed version had merged, nothing later.
        proven = (build.indexed if io.interpretation.credit_indexed_version else base).mem_wal.merged
        # AMB-69, overwritten progress: the newest details with one entry changed, never those that were read before.
        details = with_credit(base.mem_wal, build.name, proven)
        if details == base.mem_wal and not build.fragments:
            return _done(build, base, committed=False)
        try:
            committed = await commit(io, base, await _transaction(io, build, base, details))
        except Conflict as conflict:
            if not conflict.retryable or not left:
                raise
            base = await latest(io)
            if not await _still_right(io, build, base):
                raise
            await io.note("credit_conflict", index=build.name, theirs=conflict.theirs)
            # The credit conflicted and the index did not: the same build is put on top of the newest version.
            continue
        await io.note("caught_up", index=build.name, version=build.indexed.version)
        return _done(build, committed, committed=True)
    raise AssertionError("unreachable")


def _done(build: _Build, state: TableState, *, committed: bool) -> CaughtUp:
    entry = next((c for c in state.mem_wal.catchup if c.index_name == build.name), None)
    return CaughtUp(
        index_name=build.name,
        version_indexed=build.indexed.version,
        fragments=build.fragments,
        credited=entry.generations if entry is not None else (),
        committed=committed,
    )


async def _transaction(io: Io, build: _Build, base: TableState, details: IndexDetails) -> Transaction:
    """One CreateIndex transaction: the new entries for the old ones, and the MemWAL index if the credit changes it."""
    body = build.changes
    old = base.mem_wal_entry
    if details != base.mem_wal and old is not None:
        new = body.new_indices.add()
        new.CopyFrom(old)
        new.uuid.uuid = await _fresh_uuid(io)
        new.index_details.value = index_details.encode(details, R)
        new.created_at = await io.now()
        new.ClearField("dataset_version")
        body.removed_indices.add().CopyFrom(old)
        if details.num_regions and not details.inline_snapshots:
            external = await io.get(snapshot.external(old.uuid.uuid))
            await confirm.create_fresh(io, snapshot.external(new.uuid.uuid), external)
    return Transaction(create_index=body)


@implements("AMB-69", "AMB-70")
async def _still_right(io: Io, build: _Build, newest: TableState) -> bool:
    """Whether the build may be put on top of ``newest``: every commit since the version it was built from allows that.

    A commit that changed the index itself, rewrote fragments or indexed values, or cannot be told, means building anew.
    """
    ours = Transaction(create_index=build.changes)
    for version in range(build.indexed.version + 1, newest.version + 1):
        try:
            theirs = await transaction_of(io, await load(io, TableVersion(version)))
        except NotFound:
            return False
        # A transaction that cannot be read may have been any.
        if theirs is None or verdict(ours, theirs)[0] is not ConflictVerdict.REBASE:
            return False
    return True
