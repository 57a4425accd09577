"""The next version of a table while it is being built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..clauses import implements
from ..codec import fragment_bitmap as bitmap
from ..codec.pb.lance import file_pb2, table_pb2
from ..codec.table_manifest import TableManifest
from ..errors import EngineBug
from ..revisions import Interpretation
from . import reuse
from .legacy import older

_FLAG_DELETION_FILES = 1
_FLAG_TABLE_CONFIG = 8
_FLAG_BASE_PATHS = 16

SYSTEM_DETAILS = ("MemWalIndexDetails", "FragmentReuseIndexDetails")
"""Ends of the type names of index entries that are bookkeeping of the table, and no indexes over columns."""


@dataclass(slots=True)
class Draft:
    """The next version while it is being built."""

    message: table_pb2.Manifest
    indices: list[table_pb2.IndexMetadata]
    path: str
    """Name of the manifest that it is built on, for errors."""
    source: TableManifest | None
    """The version that a restore or clone copies."""
    interpretation: Interpretation
    moved: reuse.Moved | None = None
    """Where the rows of rewritten fragments are, for indexes that are to follow; None: it is not told."""

    @property
    def is_first(self) -> bool:
        return self.message.version == 1

    @implements("TXN-025", "FORMAT-011", "FORMAT-015")
    def add_fragments(self, fragments: Iterable[table_pb2.DataFragment]) -> None:
        """Append ``fragments`` under fresh ids."""
        following = older.highest_fragment_id(self.message) + 1
        for fragment in fragments:
            added = self.message.fragments.add()
            added.CopyFrom(fragment)
            added.id = following
            self.message.max_fragment_id = following
            following += 1

    def keep_ids(self) -> None:
        """Record the highest fragment id that is known, so that fragments that go take their ids with them."""
        highest = older.highest_fragment_id(self.message)
        if highest >= 0:
            self.message.max_fragment_id = highest

    def change_fragments(self, updated: Sequence[table_pb2.DataFragment], removed: Iterable[int]) -> None:
        """Replace fragments by id and drop others; raises `EngineBug` if one of them is not there."""
        replacements, gone = {f.id: f for f in updated}, set(removed)
        self.require_fragments(set(replacements) | gone)
        self.set_fragments([replacements.get(f.id, f) for f in self.message.fragments if f.id not in gone])

    def require_fragments(self, wanted: set[int]) -> None:
        """Raise `EngineBug` unless all fragments of the ids are there: an earlier check has let it pass."""
        missing = wanted - {f.id for f in self.message.fragments}
        if missing:
            raise EngineBug(f"{self.path}: fragments {sorted(missing)} are to change but are not in the version")

    def set_fragments(self, fragments: Sequence[table_pb2.DataFragment]) -> None:
        """The fragments from now on."""
        kept = list(fragments)
        del self.message.fragments[:]
        self.message.fragments.extend(kept)

    def set_schema(self, fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None) -> None:
        """The schema from now on; None keeps its metadata."""
        kept = list(fields)
        del self.message.fields[:]
        self.message.fields.extend(kept)
        if metadata is not None:
            self.message.schema_metadata.clear()
            for key, value in metadata.items():
                self.message.schema_metadata[key] = value

    @implements("TXN-031", "TXN-041")
    def uncover(self, fields: Iterable[int], fragments: Iterable[int]) -> None:
        """Indexes on one of ``fields`` no longer cover ``fragments``: values under them have changed."""
        changed, gone = set(fields), set(fragments)
        moves = reuse.of(self.indices, self.path)
        for index in self.indices:
            if changed & set(index.fields) and index.fragment_bitmap:
                covered = reuse.fragments(bitmap.decode(index.fragment_bitmap, self.path), moves)
                if covered & gone:
                    index.fragment_bitmap = bitmap.encode(covered - gone)

    @implements("FORMAT-015", "FORMAT-021")
    def check_fragments(self) -> None:
        """Raise `EngineBug` for a fragment id that is given twice, and for files of more versions than one."""
        twice = older.doubled(self.message)
        if twice:
            raise EngineBug(f"{self.path}: fragments {twice} would be in the next version more than once")
        versions = {older.version_text(version) for version in older.file_versions(self.message)}
        if versions - {self.message.data_format.version}:
            told = self.message.data_format.version
            raise EngineBug(f"{self.path}: files of versions {sorted(versions)} in a table with files of {told}")

    @implements("FORMAT-010")
    def set_flags(self) -> None:
        """Raise the feature flags that the content needs; flags of others are kept."""
        message = self.message
        if any(f.HasField("deletion_file") for f in message.fragments):
            message.reader_feature_flags |= _FLAG_DELETION_FILES
            message.writer_feature_flags |= _FLAG_DELETION_FILES
        if message.config:
            message.writer_feature_flags |= _FLAG_TABLE_CONFIG
        if message.base_paths:
            message.reader_feature_flags |= _FLAG_BASE_PATHS
            message.writer_feature_flags |= _FLAG_BASE_PATHS


def begin(base: TableManifest | None, path: str, source: TableManifest | None, interpretation: Interpretation) -> Draft:
    """A draft that is equal to ``base`` but for its version; version 1 of a new table if that is None."""
    draft = Draft(table_pb2.Manifest(version=1), [], path, source, interpretation)
    if base is not None:
        draft.message.CopyFrom(base.message)
        draft.message.version = base.message.version + 1
        draft.keep_ids()
        draft.indices = [copied_index(index) for index in base.indices]
    return draft


def copied_index(index: table_pb2.IndexMetadata) -> table_pb2.IndexMetadata:
    """A copy that may be changed."""
    copy = table_pb2.IndexMetadata()
    copy.CopyFrom(index)
    return copy


def copied_fragment(fragment: table_pb2.DataFragment) -> table_pb2.DataFragment:
    """A copy that may be changed."""
    copy = table_pb2.DataFragment()
    copy.CopyFrom(fragment)
    return copy
