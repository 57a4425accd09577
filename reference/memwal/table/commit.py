"""Committing a transaction: build the next manifest, create it if absent, rebase when another was first.

Source: table documents, "Commit Algorithm" and "Conflict Resolution".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version as distribution_version

from .. import confirm, paths
from ..clauses import implements
from ..codec import index_details, protobuf, table_manifest
from ..codec.data_file import FILE_VERSION
from ..codec.index_details import IndexCatchup, IndexDetails
from ..codec.pb.lance import table_pb2, transaction_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io
from ..errors import AlreadyExists, AlreadyMerged, ArtifactError, Conflict, EngineBug, InvalidArgument, NotFound
from ..ids import Generation, Milliseconds, RegionId, TableVersion, region_id_from_bytes
from ..revisions import STRICT, Interpretation, R
from . import versions
from .conflicts import Verdict, operation, touched, verdict
from .state import TableState, check_writable, latest, load

Transaction = transaction_pb2.Transaction

_FLAG_DELETION_FILES = 1
_FLAG_TABLE_CONFIG = 8
_FLAG_BASE_PATHS = 16


@dataclass(slots=True)
class Draft:
    """The next version while it is being built from ``base`` by applying a transaction."""

    message: table_pb2.Manifest
    indices: list[table_pb2.IndexMetadata] = field(default_factory=list)
    path: str = ""

    def add_fragments(self, fragments: Iterable[table_pb2.DataFragment]) -> None:
        """Append ``fragments`` under fresh ids (TXN-025, FORMAT-011)."""
        following = self.message.max_fragment_id + 1 if self.message.HasField("max_fragment_id") else 0
        for fragment in fragments:
            added = self.message.fragments.add()
            added.CopyFrom(fragment)
            added.id = following
            self.message.max_fragment_id = following
            following += 1

    def change_fragments(self, updated: Sequence[table_pb2.DataFragment], removed: Iterable[int]) -> None:
        """Replace fragments by id and drop others; raises `EngineBug` if one of them is not there."""
        replacements, gone = {f.id: f for f in updated}, set(removed)
        missing = (set(replacements) | gone) - {f.id for f in self.message.fragments}
        if missing:
            raise EngineBug(f"{self.path}: fragments {sorted(missing)} are to change but are not in the version")
        kept = [replacements.get(f.id, f) for f in self.message.fragments if f.id not in gone]
        del self.message.fragments[:]
        self.message.fragments.extend(kept)


@implements("TXN-022", "TXN-009", "TXN-010", "TXN-013", "TXN-061")
async def commit(
    io: Io,
    read: TableState | None,
    body: Transaction,
    *,
    rebase: bool = True,
    interpretation: Interpretation = STRICT,
) -> TableState:
    """Commit ``body`` (its operation set) that was prepared from ``read``; None creates the table.

    All data files that it names must exist. Without ``rebase`` any other commit since ``read`` is a retryable conflict.
    Returns the new version. Raises `Conflict` (``retryable`` or not),
    `AlreadyMerged` for merge progress that is not above the committed one, and `AlreadyExists` for a table that is
    already there.
    """
    transaction = Transaction()
    transaction.CopyFrom(body)
    if read is not None:
        check_writable(read)
        transaction.read_version = read.version
    transaction.uuid = str(uuid.UUID(hex=await io.random_hex(32), version=4))
    name = f"{transaction.read_version}-{transaction.uuid}.txn"
    await confirm.create(io, paths.transaction(name), protobuf.serialise(transaction))
    base = read
    scheme = read.scheme if read is not None else versions.Scheme.V2
    while True:
        draft = build(base, transaction, io.path(paths.VERSIONS), interpretation)
        _stamp(draft, name, await io.now())
        version = TableVersion(draft.message.version)
        manifest = TableManifest(message=draft.message, indices=tuple(draft.indices))
        try:
            await versions.create(io, version, table_manifest.encode(manifest), scheme)
        except AlreadyExists:
            if base is None:
                raise
            if not rebase:
                reason = "the transaction holds for the version that it read only"
                raise Conflict(version, operation(transaction), "", retryable=True, reason=reason) from None
            base = await _next_base(io, version, transaction, interpretation)
            continue
        return TableState(manifest, io.path(versions.name(version, scheme)))


async def _next_base(
    io: Io, taken: TableVersion, transaction: Transaction, interpretation: Interpretation
) -> TableState:
    """The version that took our place, after checking that ours can be built on top of it."""
    try:
        winner = await load(io, taken)
    except NotFound:
        newest = await latest(io)
        reason = f"version {taken} was collected before it could be compared"
        raise Conflict(newest.version, operation(transaction), "unknown", retryable=True, reason=reason) from None
    theirs = await transaction_of(io, winner)
    if theirs is None:
        reason = "the committed version names no transaction file that can be read"
        raise Conflict(taken, operation(transaction), "missing", retryable=False, reason=reason)
    decision, reason = verdict(transaction, theirs)
    changed = _changed_meanwhile(transaction, winner)
    if decision is Verdict.REBASE and changed is not None:
        decision, reason = Verdict.RETRY, f"the committed version has another index {changed!r} than the one to replace"
    if _only_progress_conflicts(transaction, theirs) and not interpretation.progress_in_conflict:
        return winner
    if interpretation.progress_in_conflict and decision is not Verdict.FAIL:
        _check_progress(transaction, winner, operation(theirs), interpretation)
    if decision is Verdict.REBASE:
        return winner
    retryable = decision is Verdict.RETRY
    raise Conflict(taken, operation(transaction), operation(theirs), retryable=retryable, reason=reason)


def _only_progress_conflicts(ours: Transaction, theirs: Transaction) -> bool:
    """Whether both make merge progress, and change no fragment in common."""
    both = touched(ours) & touched(theirs)
    return bool(ours.update.merged_generations and theirs.update.merged_generations) and not both


@implements("MERGE-010", "MERGE-011", "AMB-82", "AMB-84")
def _check_progress(transaction: Transaction, winner: TableState, theirs: str, interpretation: Interpretation) -> None:
    """Raise `AlreadyMerged` or a retryable `Conflict` unless ``winner`` has the progress that ours goes on from.

    What counts is the version, not what its transaction says: other operations may have changed the MemWAL index too.
    """
    for region, generation in _progress(transaction):
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


@implements("TXN-016")
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
    return protobuf.parse(Transaction, data, clause="TXN-010", path=io.path(paths.transaction(name)))


def _progress(transaction: Transaction) -> list[tuple[RegionId, Generation]]:
    return [
        (region_id_from_bytes(merged.region_id.uuid), Generation(merged.generation))
        for merged in transaction.update.merged_generations
    ]


def _stamp(draft: Draft, transaction_file: str, now_ms: Milliseconds) -> None:
    draft.message.transaction_file = transaction_file
    draft.message.timestamp.FromMilliseconds(now_ms)
    draft.message.writer_version.library = "memwal"
    draft.message.writer_version.version = _own_version()


@cache
def _own_version() -> str:
    return distribution_version("memwal")


def build(
    base: TableState | None, transaction: Transaction, path: str, interpretation: Interpretation = STRICT
) -> Draft:
    """The version after ``base`` with ``transaction`` applied; pure."""
    apply = _APPLY.get(operation(transaction))
    if apply is None:
        raise InvalidArgument(f"this engine does not commit {operation(transaction) or 'an empty operation'!r}")
    draft = Draft(table_pb2.Manifest(version=1), [], path)
    if base is not None:
        draft.message.CopyFrom(base.manifest.message)
        draft.message.version = base.version + 1
        draft.indices = [_copied(index) for index in base.manifest.indices]
        draft.path = base.path
    apply(draft, transaction, interpretation)
    _set_flags(draft.message)
    return draft


def _copied(index: table_pb2.IndexMetadata) -> table_pb2.IndexMetadata:
    copy = table_pb2.IndexMetadata()
    copy.CopyFrom(index)
    return copy


def _set_flags(message: table_pb2.Manifest) -> None:
    """Raise the feature flags that the content needs; flags of others are kept (FORMAT-010)."""
    if any(f.HasField("deletion_file") for f in message.fragments):
        message.reader_feature_flags |= _FLAG_DELETION_FILES
        message.writer_feature_flags |= _FLAG_DELETION_FILES
    if message.config:
        message.writer_feature_flags |= _FLAG_TABLE_CONFIG
    if message.base_paths:
        message.reader_feature_flags |= _FLAG_BASE_PATHS
        message.writer_feature_flags |= _FLAG_BASE_PATHS


@implements("TXN-028")
def _overwrite(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    if draft.message.version != 1:
        raise InvalidArgument("replacing a table is not offered", clause="AMB-87")
    body = transaction.overwrite
    draft.message.fields.extend(body.schema)
    for key, value in body.schema_metadata.items():
        draft.message.schema_metadata[key] = value
    draft.message.config.update(body.config_upsert_values)
    draft.message.base_paths.extend(body.initial_bases)
    draft.message.data_format.file_format = "lance"
    draft.message.data_format.version = ".".join(map(str, FILE_VERSION))
    draft.add_fragments(body.fragments)


@implements("TXN-024", "TXN-025", "FORMAT-033")
def _append(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    draft.add_fragments(transaction.append.fragments)


@implements("TXN-026", "TXN-027")
def _delete(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    body = transaction.delete
    draft.change_fragments(body.updated_fragments, body.deleted_fragment_ids)


@implements("MERGE-006", "AMB-85")
def _update(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    body = transaction.update
    draft.change_fragments(body.updated_fragments, body.removed_fragment_ids)
    draft.add_fragments(body.new_fragments)
    progress = _progress(transaction)
    if progress:
        _set_details(draft, with_progress(_details(draft), progress, interpretation))


@implements("TXN-029")
def _create_index(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    removed = {index.uuid.uuid for index in transaction.create_index.removed_indices}
    draft.indices = [index for index in draft.indices if index.uuid.uuid not in removed]
    for index in transaction.create_index.new_indices:
        added = _copied(index)
        added.dataset_version = index.dataset_version or draft.message.version
        draft.indices.append(added)


@implements("TXN-043")
def _update_config(draft: Draft, transaction: Transaction, interpretation: Interpretation) -> None:
    for entry in transaction.update_config.config_updates.update_entries:
        if entry.HasField("value"):
            draft.message.config[entry.key] = entry.value
        else:
            draft.message.config.pop(entry.key, None)


_APPLY: dict[str, Callable[[Draft, Transaction, Interpretation], None]] = {
    "overwrite": _overwrite,
    "append": _append,
    "delete": _delete,
    "update": _update,
    "create_index": _create_index,
    "update_config": _update_config,
}
"""How each operation that the engine commits changes a draft."""


def _mem_wal(draft: Draft) -> table_pb2.IndexMetadata:
    for index in draft.indices:
        if index.index_details.type_url.endswith("MemWalIndexDetails"):
            return index
    raise ArtifactError("INDEX-001", draft.path, "merge progress for a table without a MemWAL index")


def _details(draft: Draft) -> IndexDetails:
    return index_details.decode(_mem_wal(draft).index_details.value, R, draft.path)


def _set_details(draft: Draft, details: IndexDetails) -> None:
    index = _mem_wal(draft)
    index.index_details.value = index_details.encode(details, R)
    index.dataset_version = draft.message.version


@implements("MERGE-018", "AMB-71", "AMB-81")
def with_progress(
    details: IndexDetails,
    progress: Sequence[tuple[RegionId, Generation]],
    interpretation: Interpretation = STRICT,
) -> IndexDetails:
    """``details`` after merging the given generations.

    Raises `AlreadyMerged` when progress is there or beyond (literal: it stays, AMB-84), and `EngineBug` when a
    generation would be skipped. The first merge of a region also writes an explicit catch-up entry for every maintained
    index that lacks one.
    """
    merged, catchup = dict(details.merged), {c.index_name: c for c in details.catchup}
    for region, generation in progress:
        before = details.progress(region)
        if before >= generation:
            if interpretation.progress_in_conflict:
                raise AlreadyMerged(region, generation, before)
            continue
        if interpretation.contiguous_merge and generation != before + 1:
            raise EngineBug(f"merging generation {generation} of {region} would skip those above {before}")
        merged[region] = generation
        for name in details.maintained_indexes:
            entry = catchup.get(name, IndexCatchup(index_name=name, generations=()))
            if region not in dict(entry.generations):
                entry = replace(entry, generations=(*entry.generations, (region, before)))
            catchup[name] = entry
    return replace(details, merged=tuple(merged.items()), catchup=tuple(catchup.values()))
