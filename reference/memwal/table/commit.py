"""Committing a transaction: build the next manifest, create it if absent, rebase when another was first.

Source: table documents, "Commit Algorithm" and "Conflict Resolution".
"""

from __future__ import annotations

import uuid
from functools import cache

from .. import confirm, paths
from ..clauses import implements
from ..codec import table_manifest
from ..codec.table_manifest import TableManifest
from ..effects import Commits, Io
from ..errors import AlreadyExists, AlreadyMerged, Conflict, EngineBug, InvalidArgument, NotFound
from ..ids import Milliseconds, TableVersion
from ..revisions import CONFIG_COMMITS, Interpretation
from . import apply, reuse, transactions, versions
from . import rebase as rebasing
from .conflicts import ConflictVerdict, verdict
from .draft import Draft
from .legacy import pointer
from .state import TableState, check_flags, check_writable, latest, load
from .transactions import Transaction, merged_generations, operation, touched


@implements("TXN-004", "TXN-009", "TXN-010", "TXN-013", "TXN-022", "TXN-023", "TXN-061", "TXN-062")
async def commit(
    io: Io,
    read: TableState | None,
    body: Transaction,
    *,
    rebase: bool = True,
    source: TableManifest | None = None,
    moved: reuse.Moved | None = None,
) -> TableState:
    """Commit ``body`` (its operation set) that was prepared from ``read``; None creates the table.

    All data files that it names must exist. Without ``rebase`` any other commit since ``read`` is a retryable conflict.
    ``source``: the version that a restore or clone copies. ``moved``: where rewritten rows are. Returns the new
    version. Raises `Conflict` (``retryable`` or not), `AlreadyMerged` for merge progress that is not above the
    committed one, and `AlreadyExists` for a table that is already there. Each transaction that is tried has its own
    file, and so has one that a rebase changed: a failed commit leaves files that no version names.
    """
    if read is not None:
        (check_flags if body.HasField("overwrite") else check_writable)(read)
    transaction = Transaction()
    transaction.CopyFrom(body)
    transaction.read_version = read.version if read is not None else body.clone.ref_version
    name = await _stored(io, transaction)
    base = read
    scheme = read.scheme if read is not None else versions.Scheme.V2
    while True:
        path = base.path if base is not None else io.path(paths.VERSIONS)
        draft = apply.build(
            base.manifest if base is not None else None, transaction, path, source, io.interpretation, moved
        )
        _check_mechanism(io, base, draft)
        _stamp(draft, name, await io.now())
        version = TableVersion(draft.message.version)
        if base is not None and version != base.version + 1:
            raise EngineBug(f"{operation(transaction)} makes version {version} of version {base.version}")
        manifest = TableManifest(message=draft.message, indices=tuple(draft.indices))
        data = table_manifest.encode(manifest)
        try:
            await versions.create(io, version, data, scheme)
        except AlreadyExists:
            if base is None:
                raise
            if not rebase:
                reason = "the transaction holds for the version that it read only"
                raise Conflict(version, operation(transaction), "", retryable=True, reason=reason) from None
            base, carried = await _next_base(io, base, version, transaction)
            if carried is not transaction:
                transaction, name = carried, await _stored(io, carried)
            continue
        if scheme is versions.Scheme.V1:
            await pointer.follow(io, version, data)
        return TableState(manifest, io.path(versions.name(version, scheme)))


@implements("TXN-006")
def _check_mechanism(io: Io, base: TableState | None, draft: Draft) -> None:
    """Raise `InvalidArgument` where the table records, before or after, that another mechanism creates its versions."""
    recorded = {draft.message.config.get(CONFIG_COMMITS), base.config.get(CONFIG_COMMITS) if base is not None else None}
    if Commits.EXTERNAL.value in recorded and io.commits is not Commits.EXTERNAL:
        reason = "versions of this table are created by an external manifest store: open it with manifest_store="
        raise InvalidArgument(reason, clause="TXN-006")


async def _stored(io: Io, transaction: Transaction) -> str:
    """Store ``transaction`` under a fresh identity; returns the name of its file."""
    transaction.uuid = str(uuid.UUID(hex=await io.random_hex(32), version=4))
    name = f"{transaction.read_version}-{transaction.uuid}.txn"
    await confirm.create_fresh(io, paths.transaction(name), transactions.encode(transaction))
    return name


@implements("TXN-012", "TXN-013", "TXN-048", "TXN-049", "TXN-055")
async def _next_base(
    io: Io, base: TableState, taken: TableVersion, transaction: Transaction
) -> tuple[TableState, Transaction]:
    """The version that took our place, and our transaction as it has to be on top of it."""
    try:
        winner = await load(io, taken)
    except NotFound:
        newest = await latest(io)
        reason = f"version {taken} was collected before it could be compared"
        raise Conflict(newest.version, operation(transaction), "unknown", retryable=True, reason=reason) from None
    theirs = await transaction_of(io, winner)
    decision, reason = verdict(transaction, theirs)
    if theirs is None:
        raise Conflict(taken, operation(transaction), "missing", retryable=False, reason=reason)
    changed = _changed_meanwhile(transaction, winner)
    if decision is ConflictVerdict.REBASE and changed is not None:
        decision, reason = (
            ConflictVerdict.RETRY,
            f"the committed version has another index {changed!r} than the one to replace",
        )
    if _only_progress_conflicts(transaction, theirs) and not io.interpretation.progress_in_conflict:
        return winner, transaction
    if io.interpretation.progress_in_conflict and decision is not ConflictVerdict.FAIL:
        _check_progress(transaction, winner, operation(theirs), io.interpretation)
    if decision is ConflictVerdict.REBASE:
        carried = await rebasing.onto(io, base, winner, transaction, theirs)
        if carried is not None:
            await io.note("rebased", version=taken, theirs=operation(theirs))
            return winner, carried
        decision, reason = ConflictVerdict.RETRY, "both delete a row, or its values changed (AMB-123)"
    retryable = decision is ConflictVerdict.RETRY
    raise Conflict(taken, operation(transaction), operation(theirs), retryable=retryable, reason=reason)


def _only_progress_conflicts(ours: Transaction, theirs: Transaction) -> bool:
    """Whether both make merge progress, and change no fragment in common."""
    both = touched(ours) & touched(theirs)
    return bool(ours.update.merged_generations and theirs.update.merged_generations) and not both


@implements("MERGE-010", "MERGE-011", "AMB-82", "AMB-84")
def _check_progress(transaction: Transaction, winner: TableState, theirs: str, interpretation: Interpretation) -> None:
    """Raise `AlreadyMerged` or a retryable `Conflict` unless ``winner`` has the progress that ours continues from.

    What counts is the version, not what its transaction says: other operations may have changed the MemWAL index too.
    """
    for region, generation in merged_generations(transaction):
        progress = winner.mem_wal.progress(region)
        if progress >= generation:
            raise AlreadyMerged(region, generation, progress)
        if interpretation.contiguous_merge and progress != generation - 1:
            reason = f"merge progress of region {region} went back to {progress}"
            raise Conflict(winner.version, operation(transaction), theirs, retryable=True, reason=reason)


@implements("AMB-69")
def _changed_meanwhile(transaction: Transaction, winner: TableState) -> str | None:
    """Name of an index entry that the transaction replaces and that ``winner`` does not have as it was; None if none.

    The native package rewrites the MemWAL index in commits of any kind, without naming it in their transactions.
    """
    stored = {entry.uuid.uuid: entry.index_details for entry in winner.manifest.indices}
    for entry in transaction.create_index.removed_indices:
        if stored.get(entry.uuid.uuid) != entry.index_details:
            return entry.name
    return None


@implements("TXN-011", "TXN-016", "AMB-130")
async def transaction_of(io: Io, state: TableState) -> Transaction | None:
    """The transaction that made ``state``: inline or from its file; None if there is neither."""
    if state.manifest.transaction is not None:
        return state.manifest.transaction
    name = state.manifest.message.transaction_file
    if not name:
        return None
    try:
        data = await io.get(paths.transaction(name))
    except NotFound:
        return None
    return transactions.decode(data, io.path(paths.transaction(name)))


@implements("FORMAT-012", "FORMAT-014", "FORMAT-048", "FORMAT-049")
def _stamp(draft: Draft, transaction_file: str, now_ms: Milliseconds) -> None:
    """What belongs to one version alone: nothing of it is carried over from the version before."""
    message = draft.message
    message.transaction_file = transaction_file
    message.timestamp.FromMilliseconds(now_ms)
    for name in ("writer_version", "version_aux_data", "tag"):
        message.ClearField(name)
    message.writer_version.library = "memwal"
    message.writer_version.version = _own_version()


@cache
def _own_version() -> str:
    from importlib.metadata import version  # only commits need it

    return version("memwal")
