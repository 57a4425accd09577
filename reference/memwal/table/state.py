"""One version of a Lance table, and how to find and load versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType

import pyarrow as pa

from .. import paths
from ..clauses import implements
from ..codec import index_details, table_manifest
from ..codec.data_file import FLAT_VERSION, WRITTEN_VERSIONS, FileVersion
from ..codec.index_details import IndexDetails
from ..codec.pb.lance import file_pb2, table_pb2
from ..codec.table_manifest import TableManifest
from ..effects import Io, remembered
from ..errors import ArtifactError, InvalidArgument, NotFound
from ..ids import FieldId, Milliseconds, TableVersion
from ..revisions import CONFIG_MANIFEST_COLLECTION, CONFIG_REVISION, CONFIG_WAL_COLLECTION, REVISIONS, R, Revision
from . import reuse
from . import schema as schemas
from . import versions as naming
from .legacy import older

READ_FLAGS = 1 | 2 | 4 | 8 | 16 | 32
"""Reader feature flags understood: deletion files, stable row ids, file format 2, table config, base paths, and no
transaction file. None of the last five changes how rows are read here."""
WRITE_FLAGS = READ_FLAGS & ~2
"""Writer feature flags understood; stable row ids are not maintained, so such tables are not written."""


_MESSAGE_FACTOR = 4
"""How many times as large as its bytes a message is in memory."""
_UPGRADE = ": write all rows anew first, with memwal.base_table(...).upgrade()"


@dataclass(frozen=True)
class TableState:
    """One table version. Immutable: changes go through `memwal.table.commit`.

    What takes a walk over all fields is worked out once, since callers ask for it column by column.
    """

    manifest: TableManifest
    path: str
    """Object name of the manifest, for errors."""

    def __reduce__(self) -> tuple[type[TableState], tuple[TableManifest, str]]:
        """What was worked out stays behind: another process works it out again."""
        return type(self), (self.manifest, self.path)

    @property
    def version(self) -> TableVersion:
        return TableVersion(self.manifest.message.version)

    @property
    def scheme(self) -> naming.Scheme:
        """How the table's manifests are named."""
        parsed = naming.parse(self.path)
        return parsed[1] if parsed is not None else naming.Scheme.V2

    @property
    def fields(self) -> list[file_pb2.Field]:
        return list(self.manifest.message.fields)

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema, field metadata included."""
        return schemas.to_schema(self.fields, self.manifest.message.schema_metadata, self.path)

    @cached_property
    def field_ids(self) -> Mapping[str, FieldId]:
        """Id of each top-level column."""
        return MappingProxyType(schemas.field_ids(self.fields))

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        return schemas.primary_key(self.fields)

    @property
    def config(self) -> dict[str, str]:
        return dict(self.manifest.message.config)

    @property
    def fragments(self) -> list[table_pb2.DataFragment]:
        return list(self.manifest.message.fragments)

    @property
    def file_version(self) -> FileVersion:
        """Version of the table's data files, which is the same for all of them."""
        text = self.manifest.message.data_format.version
        if not text:
            return older.told_by_files(self.manifest.message)
        major, _, minor = text.partition(".")
        if not (major.isdecimal() and minor.isdecimal()):
            raise ArtifactError("FORMAT-021", self.path, f"data format version {text!r} is not understood")
        return older.table_version((int(major), int(minor)))

    @property
    def rows(self) -> int:
        """Rows of this version, deletions subtracted."""
        return sum(f.physical_rows - f.deletion_file.num_deleted_rows for f in self.fragments)

    @cached_property
    def moves(self) -> tuple[reuse.RewrittenFragments, ...]:
        """Rewrites of fragments that the indexes have yet to follow."""
        return reuse.of(self.manifest.indices, self.path)

    @property
    def mem_wal_entry(self) -> table_pb2.IndexMetadata | None:
        """The MemWAL index, recognised by the type of its details; raises `ArtifactError` if there are two (AMB-05)."""
        found = [i for i in self.manifest.indices if i.index_details.type_url.endswith("MemWalIndexDetails")]
        if len(found) > 1:
            names = ", ".join(repr(i.name) for i in found)
            raise ArtifactError("INDEX-001", self.path, f"{len(found)} MemWAL indexes ({names}); a table has one")
        return found[0] if found else None

    @cached_property
    def mem_wal(self) -> IndexDetails:
        """Details of the MemWAL index; raises `InvalidArgument` if MemWAL is not enabled on the table."""
        entry = self.mem_wal_entry
        if entry is None:
            raise InvalidArgument(f"{self.path}: MemWAL is not enabled on this table", clause="INDEX-001")
        return index_details.decode(entry.index_details.value, R, self.path)

    @cached_property
    def revision(self) -> Revision:
        """Revision recorded in the table config; a table that records none was enabled by the native package (R)."""
        name = self.config.get(CONFIG_REVISION, R.name)
        if name not in REVISIONS:
            known = ", ".join(REVISIONS)
            raise ArtifactError("AMB-06", self.path, f"config {CONFIG_REVISION} is {name!r}; it must be one of {known}")
        return REVISIONS[name]

    @property
    def collects_wal(self) -> bool:
        """Whether the collector may delete WAL files; then each put is verified (AMB-25)."""
        return self.config.get(CONFIG_WAL_COLLECTION) == "on"

    @property
    def collects_manifests(self) -> bool:
        """Whether the collector may delete region manifest versions; then each commit of one is confirmed (AMB-30)."""
        return self.config.get(CONFIG_MANIFEST_COLLECTION) == "on"


def timestamp_ms(state: TableState) -> Milliseconds | None:
    """When the version was committed, as its committer's clock said; None if it does not say."""
    message = state.manifest.message
    stamp = message.timestamp.ToMilliseconds() if message.HasField("timestamp") else 0
    return Milliseconds(stamp) if stamp > 0 else None


@implements("FORMAT-008", "FORMAT-027")
def check_readable(state: TableState) -> None:
    """Raise `InvalidArgument` for a reader feature flag that this engine does not know."""
    unknown = state.manifest.message.reader_feature_flags & ~READ_FLAGS
    if unknown:
        raise InvalidArgument(f"{state.path}: unsupported reader feature flags {unknown:#x}", clause="FORMAT-008")


@implements("FORMAT-009", "FORMAT-027")
def check_flags(state: TableState) -> None:
    """Raise `InvalidArgument` for a writer feature flag that this engine does not know."""
    unknown = state.manifest.message.writer_feature_flags & ~WRITE_FLAGS
    if unknown:
        raise InvalidArgument(f"{state.path}: unsupported writer feature flags {unknown:#x}", clause="FORMAT-009")


def files_written(state: TableState) -> bool:
    """Whether this engine writes data files of the table's version with the table's columns."""
    try:
        check_files(state)
    except InvalidArgument:
        return False
    return True


def check_writable(state: TableState) -> None:
    """Raise `InvalidArgument` for a writer feature flag or a file version that this engine does not write.

    Raises `ArtifactError` for a fragment id that occurs twice: a deletion file of one would delete rows of both.
    """
    check_flags(state)
    check_files(state)
    twice = older.doubled(state.manifest.message)
    if twice:
        reason = f"fragments {twice} occur more than once: restore an earlier version, or overwrite the table"
        raise ArtifactError("FORMAT-015", state.path, reason)


@implements("FORMAT-021")
def check_files(state: TableState) -> None:
    """Raise `InvalidArgument` for a file version that this engine does not write, or for files of several versions."""
    found = sorted(older.file_versions(state.manifest.message) | {state.file_version})
    if len(found) > 1:
        reason = f"data files of versions {', '.join(map(older.version_text, found))} in one table are read, but"
        raise InvalidArgument(f"{state.path}: {reason} nothing is added to them{_UPGRADE}", clause="FORMAT-021")
    if state.file_version not in WRITTEN_VERSIONS:
        reason = f"data files of version {older.version_text(state.file_version)} are read, but not written{_UPGRADE}"
        raise InvalidArgument(f"{state.path}: {reason}", clause="FORMAT-021")
    nested = [field.name for field in state.fields if field.parent_id != -1]
    if state.file_version == FLAT_VERSION and nested:
        reason = f"data files of version 2.0 are written without nested columns only, not with {nested[0]!r} in another"
        raise InvalidArgument(f"{state.path}: {reason}", clause="FORMAT-021")


async def versions(io: Io) -> tuple[TableVersion, ...]:
    """All versions of the table at ``io``, ascending."""
    return (await naming.listing(io)).versions


@implements("TXN-003")
async def load(io: Io, version: TableVersion) -> TableState:
    """The given version; raises `NotFound`, or `ArtifactError` for a damaged manifest."""
    try:
        return await _load(io, version, naming.name(version))
    except NotFound:
        listed = await naming.listing(io)
        if listed.name(version) == naming.name(version):
            raise
        return await _load(io, version, listed.name(version))


async def _load(io: Io, version: TableVersion, final: str) -> TableState:
    name = await naming.locate(io, version, final)
    what = ("table manifest", io.path(name), version)
    return await remembered(io, what, partial(_decoded, io, name, version), _size)


def _size(state: TableState) -> int:
    """About what a version takes in memory."""
    held = state.manifest
    return _MESSAGE_FACTOR * (held.message.ByteSize() + sum(index.ByteSize() for index in held.indices))


async def _decoded(io: Io, name: str, version: TableVersion) -> TableState:
    manifest = table_manifest.decode(await io.get(name), io.path(name))
    state = TableState(manifest, io.path(name))
    if state.version != version:
        raise ArtifactError("FORMAT-007", state.path, f"the manifest says version {state.version}, its name {version}")
    check_readable(state)
    return TableState(await older.completed(io, manifest, state.path), state.path)


@implements("TXN-021")
async def latest(io: Io) -> TableState:
    """The newest version. Raises `NotFound` if there is no table.

    A version that is collected between the listing and the read is looked for anew; one that is listed again and still
    not there raises `ArtifactError`.
    """
    missing: set[TableVersion] = set()
    while True:
        listed = await naming.listing(io)
        if not listed.versions:
            raise NotFound(io.path(paths.VERSIONS))
        newest = listed.versions[-1]
        try:
            return await _load(io, newest, listed.name(newest))
        except NotFound as gone:
            if newest in missing:
                raise ArtifactError("TXN-008", gone.path, "the newest version is listed, and it is not there") from None
            missing.add(newest)
