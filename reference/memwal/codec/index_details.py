"""The MemWAL index: bytes <-> `IndexDetails` (MemWalIndexDetails).

R's message is used for every revision: numbers and types agree, and R only adds fields. Revision 0 has a message of the
same name with another meaning; it is told apart by the wire type of field 1 (AMB-04).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..clauses import implements
from ..errors import ArtifactError
from ..ids import FieldId, Generation, Milliseconds, RegionId, SpecId, region_id_from_bytes, region_id_to_bytes
from ..revisions import Revision
from . import protobuf
from .pb.memwal_0 import mem_wal_pb2 as zero_pb2
from .pb.memwal_r import mem_wal_pb2

INDEX_NAME = "__lance_mem_wal"
TYPE_URL = "/lance.table.MemWalIndexDetails"

Progress = tuple[tuple[RegionId, Generation], ...]
"""A generation per region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionField:
    """One component of a region spec."""

    field_id: str
    source_ids: tuple[FieldId, ...]
    """Schema fields that the value is computed from, in the order of ``col0``, ``col1``, …"""
    transform: str | None = None
    expression: str | None = None
    result_type: str = ""
    """Lance logical type of the value."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSpec:
    """How rows map to region values."""

    spec_id: SpecId
    fields: tuple[RegionField, ...]
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCatchup:
    """How far one base index covers the merged generations."""

    index_name: str
    generations: Progress
    unknown: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDetails:
    """Configuration, merge progress, catch-up progress and region snapshot of a table."""

    snapshot_ts_ms: Milliseconds
    """Time just before the first manifest of the snapshot was read."""
    num_regions: int
    """Rows of the snapshot."""
    inline_snapshots: bytes | None
    """The snapshot as Lance file bytes; None if it is elsewhere or empty."""
    specs: tuple[RegionSpec, ...] = ()
    maintained_indexes: tuple[str, ...] = ()
    merged: Progress = ()
    """Last generation merged into the base table, per region."""
    catchup: tuple[IndexCatchup, ...] = ()
    writer_defaults: tuple[tuple[str, str], ...] = ()
    """Sorted by name (R)."""
    maintain_all: bool | None = None
    """Whether every index is maintained (R)."""
    unknown: bytes = b""

    @implements("AMB-80")
    def progress(self, region: RegionId) -> Generation:
        """Last merged generation of ``region``; 0 if none was merged."""
        return dict(self.merged).get(region, Generation(0))


@implements("INDEX-011", "INDEX-014", "INDEX-015", "INDEX-016", "INDEX-018", "INDEX-019", "AMB-03")
def encode(details: IndexDetails, revision: Revision) -> bytes:
    """Bytes of the message; equal details give equal bytes."""
    message = mem_wal_pb2.MemWalIndexDetails()
    message.ParseFromString(details.unknown)
    message.snapshot_ts_millis = details.snapshot_ts_ms
    message.num_shards = details.num_regions
    if details.inline_snapshots is not None:
        message.inline_snapshots = details.inline_snapshots
    for spec in details.specs:
        _encode_spec(message.sharding_specs.add(), spec)
    message.maintained_indexes.extend(details.maintained_indexes)
    for region, generation in details.merged:
        _encode_progress(message.compacted_sstables.add(), region, generation)
    for entry in details.catchup:
        item = message.index_catchup.add()
        item.ParseFromString(entry.unknown)
        item.index_name = entry.index_name
        for region, generation in entry.generations:
            _encode_progress(item.caught_up_generations.add(), region, generation)
    message.writer_config_defaults.update(dict(details.writer_defaults))
    if details.maintain_all is not None:
        message.maintain_all_indexes = details.maintain_all
    return protobuf.serialise(message)


def _encode_spec(message: mem_wal_pb2.ShardingSpec, spec: RegionSpec) -> None:
    message.ParseFromString(spec.unknown)
    message.spec_id = spec.spec_id
    for field in spec.fields:
        item = message.fields.add()
        item.ParseFromString(field.unknown)
        item.field_id, item.result_type = field.field_id, field.result_type
        item.source_ids.extend(field.source_ids)
        if field.transform is not None:
            item.transform = field.transform
        if field.expression is not None:
            item.expression = field.expression
        item.parameters.update(dict(field.parameters))


def _encode_progress(message: mem_wal_pb2.CompactedSsTable, region: RegionId, generation: Generation) -> None:
    message.shard_id.uuid = region_id_to_bytes(region)
    message.generation = generation


@implements("INDEX-010", "LEGACY-005", "AMB-04")
def decode(data: bytes, revision: Revision, path: str) -> IndexDetails:
    """Parse the message; raises `ArtifactError`, also for unmerged data of revision 0."""
    if _is_revision_0(data):
        _refuse_unmerged(data, path)
        return IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)
    message = protobuf.parse(mem_wal_pb2.MemWalIndexDetails, data, clause="INDEX-010", path=path)
    return IndexDetails(
        snapshot_ts_ms=Milliseconds(message.snapshot_ts_millis),
        num_regions=message.num_shards,
        inline_snapshots=message.inline_snapshots if message.HasField("inline_snapshots") else None,
        specs=tuple(_decode_spec(spec) for spec in message.sharding_specs),
        maintained_indexes=tuple(message.maintained_indexes),
        merged=tuple(_decode_progress(item, path) for item in message.compacted_sstables),
        catchup=tuple(
            IndexCatchup(
                index_name=item.index_name,
                generations=tuple(_decode_progress(g, path) for g in item.caught_up_generations),
                unknown=protobuf.unknown(item),
            )
            for item in message.index_catchup
        ),
        writer_defaults=tuple(sorted(message.writer_config_defaults.items())),
        maintain_all=message.maintain_all_indexes if message.HasField("maintain_all_indexes") else None,
        unknown=protobuf.unknown(message),
    )


def _is_revision_0(data: bytes) -> bool:
    """Whether field 1 is first and length-delimited: a record list, and not a time stamp."""
    return data[:1] == b"\x0a"


def _refuse_unmerged(data: bytes, path: str) -> None:
    message = protobuf.parse(zero_pb2.MemWalIndexDetails, data, clause="INDEX-010", path=path)
    merged = zero_pb2.MemWalIndexDetails.MemWal.State.MERGED
    left = [f"{m.id.region}/{m.id.generation}" for m in message.mem_wal_list if m.state != merged]
    if left:
        raise ArtifactError("AMB-04", path, f"revision 0 data that are not merged: {', '.join(left)}")


def _decode_spec(message: mem_wal_pb2.ShardingSpec) -> RegionSpec:
    fields = tuple(
        RegionField(
            field_id=item.field_id,
            source_ids=tuple(FieldId(i) for i in item.source_ids),
            transform=item.transform if item.HasField("transform") else None,
            expression=item.expression if item.HasField("expression") else None,
            result_type=item.result_type,
            parameters=tuple(sorted(item.parameters.items())),
            unknown=protobuf.unknown(item),
        )
        for item in message.fields
    )
    return RegionSpec(spec_id=SpecId(message.spec_id), fields=fields, unknown=protobuf.unknown(message))


def _decode_progress(message: mem_wal_pb2.CompactedSsTable, path: str) -> tuple[RegionId, Generation]:
    if len(message.shard_id.uuid) != 16:
        raise ArtifactError("INDEX-018", path, f"region id of {len(message.shard_id.uuid)} bytes, not 16")
    return region_id_from_bytes(message.shard_id.uuid), Generation(message.generation)
