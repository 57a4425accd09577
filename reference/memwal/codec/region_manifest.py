"""Region manifests: bytes <-> `RegionManifest` (RegionManifest of A and B, ShardManifest of R).

R's message is used for every revision: numbers and types agree, and R only adds fields. To A and B these are unknown
fields, kept as such on rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import paths
from ..clauses import implements
from ..errors import ArtifactError, EngineBug, InvalidArgument
from ..ids import (
    Epoch,
    Generation,
    ManifestVersion,
    RegionId,
    SpecId,
    WalPosition,
    region_id_from_bytes,
    region_id_to_bytes,
)
from ..revisions import Revision
from . import protobuf
from .pb.memwal_r import mem_wal_pb2

_ACCOUNTING = ("in_memory_bytes", "physical_rows", "primary_key_bytes")
_ONLY_IN_R = frozenset(("shard_field_entries", "status", *_ACCOUNTING))
_STATUS_KNOWN = (mem_wal_pb2.ShardStatus.ACTIVE, mem_wal_pb2.ShardStatus.SEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedGeneration:
    """A valid generation and where it is."""

    generation: Generation
    path: str
    """Folder name, relative to the region's folder (MANIFEST-017)."""
    in_memory_bytes: int | None = None
    """Size of the rows in memory (R)."""
    physical_rows: int | None = None
    """Rows before any deletion (R)."""
    primary_key_bytes: int | None = None
    """Size of the key columns in memory (R)."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionManifest:
    """State of a region as of one manifest version."""

    version: ManifestVersion
    region_id: RegionId
    spec_id: SpecId
    """Region spec that the region was created under; 0 for a manual region. Never changes."""
    epoch: Epoch
    """Newest claim."""
    position_replay_after: WalPosition
    """Newest WAL entry that a flushed generation covers; 0 also before the first flush (AMB-07)."""
    position_last_seen: WalPosition
    """Hint: newest WAL entry known when the manifest was written."""
    generation_current: Generation
    """Number of the oldest MemTable that is not flushed (AMB-42)."""
    flushed: tuple[FlushedGeneration, ...] = ()
    """Valid generations, in the order of their flushes."""
    shard_fields: tuple[tuple[str, bytes], ...] = ()
    """Region value per field id, encoded (R)."""
    sealed: bool = False
    """Whether the region refuses claims (R)."""
    unknown: bytes = b""
    """Fields of later revisions, those inside the region id included, kept on rewrite."""
    shard_fields_unknown: tuple[bytes, ...] = ()
    """Fields of later revisions inside each of ``shard_fields``, kept on rewrite; empty where none has any (R)."""

    def unlisted(self, progress: Generation) -> Iterator[Generation]:
        """Generations that were flushed, are not merged at ``progress``, and are not listed: none in a sound region."""
        listed = {generation.generation for generation in self.flushed}
        return (Generation(g) for g in range(progress + 1, self.generation_current) if g not in listed)


@implements("MANIFEST-002", "MANIFEST-003", "MANIFEST-004", "MANIFEST-005", "MANIFEST-006", "MANIFEST-008")
@implements("MANIFEST-010", "MANIFEST-013", "MANIFEST-015", "MANIFEST-016", "MANIFEST-038", "AMB-03", "AMB-36")
def encode(manifest: RegionManifest, revision: Revision) -> bytes:
    """Bytes of a manifest; equal manifests give equal bytes.

    Fields are in the order of their numbers, unknown ones last. Raises `InvalidArgument` for values of R's additional
    fields in a revision that does not have them.
    """
    if not revision.added_fields and _uses_r(manifest):
        reason = f"revision {revision.name} has no shard fields, status and accounting in region manifests"
        raise InvalidArgument(reason, clause="AMB-53")
    message = mem_wal_pb2.ShardManifest()
    message.ParseFromString(manifest.unknown)
    message.version = manifest.version
    message.writer_epoch = manifest.epoch
    message.replay_after_wal_entry_position = manifest.position_replay_after
    message.wal_entry_position_last_seen = manifest.position_last_seen
    message.current_generation = manifest.generation_current
    message.shard_spec_id = manifest.spec_id
    message.shard_id.uuid = region_id_to_bytes(manifest.region_id)
    for flushed in manifest.flushed:
        item = message.sstables.add()
        item.ParseFromString(flushed.unknown)
        item.generation, item.path = flushed.generation, flushed.path
        for name in _ACCOUNTING:
            if getattr(flushed, name) is not None:
                setattr(item, name, getattr(flushed, name))
    later = manifest.shard_fields_unknown or (b"",) * len(manifest.shard_fields)
    for (field_id, value), unknown in zip(manifest.shard_fields, later, strict=True):
        entry = message.shard_field_entries.add()
        entry.ParseFromString(unknown)
        entry.field_id, entry.value = field_id, value
    if manifest.sealed:
        message.status = mem_wal_pb2.ShardStatus.SEALED
    data = protobuf.serialise(message)
    found = _manifest(mem_wal_pb2.ShardManifest.FromString(data), revision)
    if found != manifest:
        raise EngineBug(f"{manifest} was encoded, and readers find {found}")
    return data


def _uses_r(manifest: RegionManifest) -> bool:
    counts = (getattr(flushed, name) for flushed in manifest.flushed for name in _ACCOUNTING)
    return manifest.sealed or bool(manifest.shard_fields) or any(count is not None for count in counts)


@implements("MANIFEST-002", "MANIFEST-018", "AMB-03", "AMB-35")
def decode(data: bytes, revision: Revision, path: str) -> RegionManifest:
    """Parse a manifest and check it against itself and against its name ``path``; raises `ArtifactError`.

    The region id (field 11) is mandatory and is written after all fields of A and B, so that bytes cut anywhere before
    it are recognised. A cut at a field boundary after it loses only fields of R (14, 15) or later ones, and cannot be
    told from a manifest without them. Fields that the revision does not know are kept, at every depth.
    """
    message = protobuf.parse(mem_wal_pb2.ShardManifest, data, clause="MANIFEST-002", path=path)
    protobuf.refuse_other_types(message, clause="MANIFEST-002", path=path)
    protobuf.refuse_other_types(message.shard_id, clause="MANIFEST-003", path=path)
    if len(message.shard_id.uuid) != 16:
        raise ArtifactError(
            "MANIFEST-003", path, f"its region id has {len(message.shard_id.uuid)} bytes, not 16", len(data)
        )
    if message.version < 1:
        raise ArtifactError("MANIFEST-018", path, "its version is 0 or absent")
    if revision.added_fields and message.status not in _STATUS_KNOWN:
        raise ArtifactError("MANIFEST-002", path, f"status {message.status} is not known: neither active nor sealed")
    for part in (*message.sstables, *(message.shard_field_entries if revision.added_fields else ())):
        clause = "MANIFEST-016" if isinstance(part, mem_wal_pb2.SsTable) else "MANIFEST-002"
        protobuf.refuse_other_types(part, clause=clause, path=path)
    manifest = _manifest(message, revision)
    _check_generations(manifest, path)
    _check_name(manifest, path)
    return manifest


def _manifest(message: mem_wal_pb2.ShardManifest, revision: Revision) -> RegionManifest:
    """What ``message`` says, sound or not."""
    foreign = frozenset() if revision.added_fields else _ONLY_IN_R
    fields = message.shard_field_entries if revision.added_fields else ()
    later = tuple(protobuf.unknown(entry) for entry in fields)
    return RegionManifest(
        version=ManifestVersion(message.version),
        region_id=region_id_from_bytes(message.shard_id.uuid),
        spec_id=SpecId(message.shard_spec_id),
        epoch=Epoch(message.writer_epoch),
        position_replay_after=WalPosition(message.replay_after_wal_entry_position),
        position_last_seen=WalPosition(message.wal_entry_position_last_seen),
        generation_current=Generation(message.current_generation or revision.generation_first),
        flushed=tuple(_flushed(item, foreign) for item in message.sstables),
        shard_fields=tuple((entry.field_id, entry.value) for entry in fields),
        sealed=revision.added_fields and message.status == mem_wal_pb2.ShardStatus.SEALED,
        unknown=protobuf.unknown(message, foreign) + _unknown_of_id(message),
        shard_fields_unknown=later if any(later) else (),
    )


def _unknown_of_id(message: mem_wal_pb2.ShardManifest) -> bytes:
    """The region id's unknown fields, as a manifest that has nothing else; empty if there are none."""
    rest = mem_wal_pb2.ShardManifest()
    rest.shard_id.ParseFromString(protobuf.unknown(message.shard_id))
    return protobuf.serialise(rest) if rest.shard_id.ByteSize() else b""


def _flushed(item: mem_wal_pb2.SsTable, foreign: frozenset[str]) -> FlushedGeneration:
    def count(name: str) -> int | None:
        found: int = getattr(item, name)
        return found if name not in foreign and item.HasField(name) else None

    return FlushedGeneration(
        generation=Generation(item.generation),
        path=item.path,
        in_memory_bytes=count("in_memory_bytes"),
        physical_rows=count("physical_rows"),
        primary_key_bytes=count("primary_key_bytes"),
        unknown=protobuf.unknown(item, foreign),
    )


@implements("MANIFEST-014", "MANIFEST-016", "MANIFEST-017", "GEN-013")
def _check_generations(manifest: RegionManifest, path: str) -> None:
    numbers = [flushed.generation for flushed in manifest.flushed]
    if len(set(numbers)) != len(numbers):
        raise ArtifactError("GEN-013", path, f"a generation is listed twice: {numbers}")
    if 0 in numbers:
        raise ArtifactError("MANIFEST-016", path, "a generation is listed without a number, or as 0")
    above = [number for number in numbers if number >= manifest.generation_current]
    if above:
        reason = f"generations {above} are listed, and the current one is {manifest.generation_current}"
        raise ArtifactError("MANIFEST-014", path, reason)
    for flushed in manifest.flushed:
        if paths.generation_number(flushed.path) != flushed.generation:
            reason = f"generation {flushed.generation} is listed with the folder {flushed.path!r}"
            raise ArtifactError("MANIFEST-017", path, reason)


@implements("MANIFEST-003", "MANIFEST-004", "MANIFEST-024", "MANIFEST-025", "AMB-36")
def _check_name(manifest: RegionManifest, path: str) -> None:
    named = paths.manifest_version(path)
    if named is not None and named != manifest.version:
        raise ArtifactError("MANIFEST-004", path, f"the manifest says version {manifest.version}, its name {named}")
    region = _region_folder(path)
    if region is not None and region != manifest.region_id:
        raise ArtifactError("MANIFEST-003", path, f"the manifest is of region {manifest.region_id}")


def _region_folder(path: str) -> str | None:
    """Name of the region's folder in ``path``: the folder below the last ``_mem_wal``; None if there is none."""
    parts = path.split("/")
    below = [parts[i + 1] for i, part in enumerate(parts[:-2]) if part == paths.MEM_WAL]
    return below[-1] if below else None
