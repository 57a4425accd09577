"""What each of the fifteen transaction types does to a manifest, as pure functions over a draft of the next version.

Source: table documents, "Transaction Types"; AMB-71, 81, 85, 86, 87. A restore and a clone need a manifest besides the
one that they are built on, which is `Draft.source`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..clauses import implements
from ..codec import fragment_bitmap as bitmap
from ..codec.data_file import FILE_VERSION, LEAF_VERSIONS, WRITTEN_VERSIONS
from ..codec.pb.lance import table_pb2
from ..codec.table_manifest import TableManifest
from ..errors import EngineBug, InvalidArgument
from ..revisions import CONFIG_COLLECTED, CONFIG_COMMITS, Interpretation
from . import metadata, progress, reuse
from .draft import SYSTEM_DETAILS, Draft, begin, copied_index
from .legacy import older
from .transactions import Transaction, is_mem_wal, merged_generations, operation, rewrite_groups

ENGINE_CONFIG = "memwal."
"""Prefix of the config keys of MemWAL, which belong to one table and not to its copies."""


_LEAF_VERSIONS = {older.version_text(version) for version in LEAF_VERSIONS}


def build(
    base: TableManifest | None,
    transaction: Transaction,
    path: str,
    source: TableManifest | None,
    interpretation: Interpretation,
    moved: reuse.Moved | None = None,
) -> Draft:
    """The version after ``base`` with ``transaction`` applied; pure.

    ``path``: name of the base's manifest, for errors. ``source``: what a restore or clone copies. ``moved``: where the
    rows of a rewrite go (`reuse`), which no transaction says.
    """
    apply = APPLY.get(operation(transaction))
    if apply is None:
        raise InvalidArgument(f"not an operation that can be committed: {operation(transaction) or 'none'}")
    draft = begin(base, path, source, interpretation)
    draft.moved = moved
    apply(draft, transaction)
    draft.check_fragments()
    draft.set_flags()
    return draft


@implements("TXN-024", "TXN-025", "FORMAT-033")
def _append(draft: Draft, transaction: Transaction) -> None:
    draft.add_fragments(transaction.append.fragments)


@implements("TXN-026", "TXN-027")
def _delete(draft: Draft, transaction: Transaction) -> None:
    body = transaction.delete
    draft.change_fragments(body.updated_fragments, body.deleted_fragment_ids)


@implements("TXN-028", "FORMAT-033", "AMB-87")
def _overwrite(draft: Draft, transaction: Transaction) -> None:
    """Data, schema and indexes are replaced, but for the MemWAL index, whose configuration and progress are kept.

    The message names config values to be set, so that other keys stay.
    """
    body = transaction.overwrite
    if draft.is_first:
        draft.message.data_format.file_format = "lance"
        draft.message.data_format.version = older.version_text(FILE_VERSION)
    else:
        _set_file_version(draft, body.fragments)
    draft.set_schema(body.schema, dict(body.schema_metadata))
    draft.message.config.update(body.config_upsert_values)
    draft.message.base_paths.extend(body.initial_bases)
    draft.indices = [index for index in draft.indices if is_mem_wal(index)]
    draft.set_fragments([])
    draft.add_fragments(body.fragments)


@implements("FORMAT-021")
def _set_file_version(draft: Draft, fragments: Sequence[table_pb2.DataFragment]) -> None:
    """The file version of a table all of whose files are replaced: theirs, or where there are none one that is written.

    Files of others whose version is not named, or not known, leave it as it is.
    """
    files = [file for fragment in fragments for file in fragment.files]
    versions = {(file.file_major_version, file.file_minor_version) for file in files}
    if not files and draft.message.data_format.version not in _LEAF_VERSIONS:
        draft.message.data_format.version = older.version_text(FILE_VERSION)
    elif versions and versions <= set(WRITTEN_VERSIONS):
        draft.message.data_format.version = older.version_text(min(versions))


@implements("TXN-029", "TXN-054")
def _create_index(draft: Draft, transaction: Transaction) -> None:
    removed = {index.uuid.uuid for index in transaction.create_index.removed_indices}
    draft.indices = [index for index in draft.indices if index.uuid.uuid not in removed]
    for index in transaction.create_index.new_indices:
        added = copied_index(index)
        added.dataset_version = index.dataset_version or draft.message.version
        draft.indices.append(added)
    draft.indices = reuse.needed(draft.indices, draft.path)


@implements("TXN-030", "TXN-031", "TXN-032", "TXN-054", "FORMAT-041")
def _rewrite(draft: Draft, transaction: Transaction) -> None:
    """Each group's new fragments replace its old ones, and all stay in the order of ids, which were reserved before.

    Rewritten indexes take their new identity and cover the new fragments of groups that they covered whole. The others
    stay as they are for groups that they covered whole and that the reuse index tells of, and else lose the fragments
    that are gone.
    """
    groups = rewrite_groups(transaction)
    moves = reuse.of(draft.indices, draft.path)
    told = _told(draft)
    for group in groups:
        _replace_group(draft, [f.id for f in group.old_fragments], list(group.new_fragments))
    rewritten = {index.old_id.uuid: index for index in transaction.rewrite.rewritten_indices}
    for index in draft.indices:
        if not index.fragment_bitmap or index.index_details.type_url.endswith(SYSTEM_DETAILS):
            continue
        before = covered = reuse.fragments(bitmap.decode(index.fragment_bitmap, draft.path), moves)
        moved = rewritten.get(index.uuid.uuid)
        for group in groups:
            old = frozenset(f.id for f in group.old_fragments)
            if moved is not None and old <= covered:
                covered |= {f.id for f in group.new_fragments}
            if moved is not None or not (old in told and old <= covered):
                covered -= old
        if covered != before:
            index.fragment_bitmap = bitmap.encode(covered)
        if moved is not None:
            index.uuid.uuid = moved.new_id.uuid
            index.dataset_version = draft.message.version
            if moved.HasField("new_index_details"):
                index.index_details.CopyFrom(moved.new_index_details)
            if moved.new_index_version:
                index.index_version = moved.new_index_version
    draft.indices = reuse.needed(draft.indices, draft.path)


def _told(draft: Draft) -> frozenset[frozenset[int]]:
    """The groups of fragments of which the reuse index of ``draft`` tells from now on where their rows went."""
    if draft.moved is None:
        return frozenset()
    entry = reuse.entry(draft.indices, draft.moved, draft.message.version - 1, draft.path)
    if entry is None:
        return frozenset()
    draft.indices = [*(index for index in draft.indices if not reuse.is_reuse(index)), entry]
    return frozenset(frozenset(each.id for each in group.old_fragments) for group in draft.moved.groups)


def _replace_group(draft: Draft, old: Sequence[int], new: Sequence[table_pb2.DataFragment]) -> None:
    draft.require_fragments(set(old))
    fragments = list(draft.message.fragments)
    reserved = older.highest_fragment_id(draft.message)
    taken = {f.id for f in fragments}
    wrong = sorted(f.id for f in new if f.id in taken or f.id > reserved)
    if wrong:
        raise InvalidArgument(f"fragment ids {wrong} of a rewrite were not reserved", clause="TXN-032")
    kept = [f for f in fragments if f.id not in set(old)]
    draft.set_fragments(sorted([*kept, *new], key=lambda f: f.id))


@implements("TXN-033", "FORMAT-023")
def _merge(draft: Draft, transaction: Transaction) -> None:
    """All fragments with the new columns, and the schema that names them."""
    body = transaction.merge
    ids, wanted = {f.id for f in body.fragments}, {f.id for f in draft.message.fragments}
    if ids != wanted:
        raise EngineBug(f"{draft.path}: a merge of columns names fragments {sorted(ids)}, there are {sorted(wanted)}")
    draft.set_fragments(list(body.fragments))
    draft.set_schema(body.schema, dict(body.schema_metadata) if body.schema_metadata else None)


@implements("TXN-034")
def _project(draft: Draft, transaction: Transaction) -> None:
    """The smaller schema; files that hold no column of it are no longer named, and indexes on lost columns go."""
    draft.set_schema(transaction.project.schema)
    kept = {f.id for f in transaction.project.schema}
    for fragment in draft.message.fragments:
        files = [f for f in fragment.files if kept & set(f.fields)]
        del fragment.files[:]
        fragment.files.extend(files)
    draft.indices = [index for index in draft.indices if is_mem_wal(index) or set(index.fields) <= kept]


@implements("TXN-035", "FORMAT-011", "AMB-87", "AMB-91")
def _restore(draft: Draft, transaction: Transaction) -> None:
    """The content of the earlier version under the next number.

    Fragment ids, base paths and the points below which nothing may be restored are never given back.
    """
    if draft.source is None or draft.source.message.version != transaction.restore.version:
        raise EngineBug(f"{draft.path}: a restore without the version {transaction.restore.version} that it restores")
    now = table_pb2.Manifest()
    now.CopyFrom(draft.message)
    draft.message.CopyFrom(draft.source.message)
    draft.message.version = now.version
    draft.indices = [copied_index(index) for index in draft.source.indices]
    draft.message.max_fragment_id = max(older.highest_fragment_id(now), draft.message.max_fragment_id)
    draft.keep_ids()
    draft.message.writer_feature_flags |= now.writer_feature_flags
    draft.message.reader_feature_flags |= now.reader_feature_flags
    bases = {base.id: base for base in (*draft.message.base_paths, *now.base_paths)}
    kept = [bases[number] for number in sorted(bases)]
    del draft.message.base_paths[:]
    draft.message.base_paths.extend(kept)
    if CONFIG_COMMITS in draft.message.config:
        del draft.message.config[CONFIG_COMMITS]
    for key, value in now.config.items():
        if key == CONFIG_COMMITS or key.startswith(CONFIG_COLLECTED):
            draft.message.config[key] = value


@implements("TXN-036")
def _reserve_fragments(draft: Draft, transaction: Transaction) -> None:
    count = transaction.reserve_fragments.num_fragments
    if count:
        draft.message.max_fragment_id = older.highest_fragment_id(draft.message) + count


@implements("TXN-037", "TXN-038", "AMB-40", "AMB-87")
def _clone(draft: Draft, transaction: Transaction) -> None:
    """A copy of another table's version, without its MemWAL; a shallow one finds files through a base path.

    It keeps the number of that version: deletion files and indexes name the versions that they were made from, and
    none of them may be later than the table's.
    Base paths of the source that are relative to it are written as absolute ones: the copy is elsewhere.
    """
    if draft.source is None or not draft.is_first:
        raise EngineBug(f"{draft.path}: a clone is the first version of a table, made from another's")
    body = transaction.clone
    draft.message.CopyFrom(draft.source.message)
    draft.keep_ids()
    draft.message.ClearField("branch")
    draft.indices = [copied_index(index) for index in draft.source.indices if not is_mem_wal(index)]
    for key in [key for key in draft.message.config if key.startswith(ENGINE_CONFIG)]:
        del draft.message.config[key]
    for base in draft.message.base_paths:
        if not (base.path.startswith("/") or "://" in base.path):
            base.path = f"{body.ref_path.rstrip('/')}/{base.path}"
    if body.is_shallow:
        _refer(draft, body.ref_path)


def _refer(draft: Draft, location: str) -> None:
    """Files of the table itself are those at ``location`` from now on."""
    number = max((base.id for base in draft.message.base_paths), default=0) + 1
    draft.message.base_paths.add(id=number, is_dataset_root=True, path=location)
    for fragment in draft.message.fragments:
        for file in fragment.files:
            if not file.HasField("base_id"):
                file.base_id = number
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            fragment.deletion_file.base_id = number
    for index in draft.indices:
        if not index.HasField("base_id"):
            index.base_id = number


@implements("TXN-039", "TXN-040", "TXN-041", "MERGE-006", "AMB-85")
def _update(draft: Draft, transaction: Transaction) -> None:
    body = transaction.update
    draft.change_fragments(body.updated_fragments, body.removed_fragment_ids)
    draft.add_fragments(body.new_fragments)
    if body.update_mode == Transaction.UpdateMode.REWRITE_COLUMNS:
        draft.uncover(body.fields_modified, (f.id for f in body.updated_fragments))
    progress.advance(draft, merged_generations(transaction))


@implements("TXN-043")
def _update_config(draft: Draft, transaction: Transaction) -> None:
    metadata.apply(draft, transaction.update_config)


@implements("TXN-044")
def _data_replacement(draft: Draft, transaction: Transaction) -> None:
    """In each fragment the new file replaces the one with the same fields; fields that no file has are added."""
    for item in transaction.data_replacement.replacements:
        draft.require_fragments({item.fragment_id})
        fragment = next(f for f in draft.message.fragments if f.id == item.fragment_id)
        fields = list(item.new_file.fields)
        same = [n for n, file in enumerate(fragment.files) if list(file.fields) == fields]
        held = {number for file in fragment.files for number in file.fields}
        if same:
            fragment.files[same[0]].CopyFrom(item.new_file)
        elif held.isdisjoint(fields):
            fragment.files.add().CopyFrom(item.new_file)
        else:
            reason = f"no data file of fragment {item.fragment_id} holds exactly the fields {fields}"
            raise InvalidArgument(reason, clause="TXN-044")
        draft.uncover(fields, [item.fragment_id])


@implements("TXN-045", "AMB-86")
def _update_mem_wal_state(draft: Draft, transaction: Transaction) -> None:
    """Merge progress alone: every fragment stays."""
    progress.advance(draft, merged_generations(transaction))


@implements("TXN-046")
def _update_bases(draft: Draft, transaction: Transaction) -> None:
    """Further base paths; ids and names stay unique, and what is there stays as it is."""
    taken = {base.id for base in draft.message.base_paths}
    names = {base.name for base in draft.message.base_paths if base.name}
    for base in transaction.update_bases.new_bases:
        added = draft.message.base_paths.add()
        added.CopyFrom(base)
        added.id = base.id or max(taken, default=0) + 1
        if added.id in taken or (added.name and added.name in names):
            raise InvalidArgument(f"there is a base path with id {added.id} or name {added.name!r}", clause="TXN-046")
        taken.add(added.id)
        names.add(added.name)


APPLY: dict[str, Callable[[Draft, Transaction], None]] = {
    "append": _append,
    "delete": _delete,
    "overwrite": _overwrite,
    "create_index": _create_index,
    "rewrite": _rewrite,
    "merge": _merge,
    "restore": _restore,
    "reserve_fragments": _reserve_fragments,
    "update": _update,
    "project": _project,
    "update_config": _update_config,
    "data_replacement": _data_replacement,
    "update_mem_wal_state": _update_mem_wal_state,
    "clone": _clone,
    "update_bases": _update_bases,
}
"""How each operation changes a draft."""
