"""The MemWAL index: bytes <-> `IndexDetails` (MemWalIndexDetails).

R's message is used for every revision: numbers and types agree, and R only adds fields, which are unknown fields to A
and B. Revision 0 has a message of the same name with another meaning; the wire type of field 1 tells it apart (AMB-04).

One field is the engine's own: the token of a change of specs or columns under way (`IndexDetails.spec_change`). Its
number lies in the range that the protobuf documents leave to private use; engines that do not know it may keep it or
drop it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from dataclasses import field as attribute

from ..clauses import implements
from ..errors import ArtifactError, EngineBug, InvalidArgument
from ..ids import FieldId, Generation, Milliseconds, RegionId, SpecId, region_id_from_bytes, region_id_to_bytes
from ..revisions import Revision
from . import own_field, protobuf
from .pb.memwal_0 import mem_wal_pb2 as zero_pb2
from .pb.memwal_r import mem_wal_pb2

INDEX_NAME = "__lance_mem_wal"
"""Name under which the MemWAL index is created; it is recognised by its type (AMB-05)."""
TYPE_URL = "/lance.table.MemWalIndexDetails"
"""Type URL of the details, in the Any of the index entry."""

_ONLY_IN_R = frozenset(("writer_config_defaults", "maintain_all_indexes"))
_SPEC_CHANGE = 50_142
"""Number of `IndexDetails.spec_change` (text)."""
_LENGTH_DELIMITED = 2
_EMPTY_ID = b"\x0a\x00"
"""A region id without bytes, as an entry of progress has it."""

Progress = tuple[tuple[RegionId, Generation], ...]
"""A generation per region."""
Unknowns = tuple[tuple[RegionId, bytes], ...]
"""Fields of later revisions inside the entries of a `Progress`, and inside their region ids; only where there are any.

An entry that is replaced keeps them, one that is removed takes them along.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionField:
    """One component of a region spec."""

    field_id: str
    """Name of the value; unique in its spec."""
    source_ids: tuple[FieldId, ...]
    """Schema fields that the value is computed from, in the order of ``col0``, ``col1``, …"""
    transform: str | None = None
    """Name of a transform; None if there is an expression."""
    expression: str | None = None
    """SQL text over ``col0``, ``col1``, …; None if there is a transform."""
    result_type: str = ""
    """Lance logical type of the value."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the transform, sorted by name."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSpec:
    """How rows map to region values."""

    spec_id: SpecId
    """Positive, never used again (REGION-008, REGION-009)."""
    fields: tuple[RegionField, ...]
    """The components of a region value, in order."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCatchup:
    """How far one base index covers the merged generations."""

    index_name: str
    generations: Progress
    """Last generation that the index covers, per region."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""
    entries_unknown: Unknowns = ()


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
    """All region specs that regions may refer to."""
    maintained_indexes: tuple[str, ...] = ()
    """Names of the base indexes that MemTables and generations carry too."""
    merged: Progress = ()
    """Last generation merged into the base table, per region."""
    catchup: tuple[IndexCatchup, ...] = ()
    """One entry per base index that is known to lag or not to lag (AMB-71)."""
    writer_defaults: tuple[tuple[str, str], ...] = ()
    """Settings of writers that name none, sorted by name (R)."""
    maintain_all: bool | None = None
    """Whether every index is maintained (R)."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""
    merged_unknown: Unknowns = ()
    spec_change: str = ""
    """Token of the change of specs or columns that is under way; empty if there is none (AMB-50, 142)."""
    records_0: bytes = b""
    """Records of revision 0, all of them merged; details that hold them are read and never rewritten (AMB-135)."""
    _progress: dict[RegionId, Generation] = attribute(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_progress", dict(self.merged))

    @implements("AMB-80")
    def progress(self, region: RegionId) -> Generation:
        """Last merged generation of ``region``; 0 if none was merged."""
        return self._progress.get(region, Generation(0))


@implements("INDEX-010", "INDEX-011", "INDEX-012", "INDEX-013", "INDEX-015", "INDEX-016", "INDEX-018", "INDEX-019")
@implements("AMB-03", "AMB-72")
def encode(details: IndexDetails, revision: Revision) -> bytes:
    """Bytes of the message; equal details give equal bytes.

    Fields are in the order of their numbers, unknown ones last. Raises `InvalidArgument` for values of R's additional
    fields in a revision that does not have them, and for details of revision 0.
    """
    if details.records_0:
        reason = "the MemWAL index is of revision 0: enable MemWAL anew, which drops it, before anything is written"
        raise InvalidArgument(reason, clause="AMB-135")
    if not revision.added_fields and (details.writer_defaults or details.maintain_all is not None):
        reason = f"revision {revision.name} has no writer defaults and no maintain_all in the index details"
        raise InvalidArgument(reason, clause="AMB-03")
    message = mem_wal_pb2.MemWalIndexDetails()
    message.ParseFromString(details.unknown + own_field.encode(_SPEC_CHANGE, details.spec_change))
    message.snapshot_ts_millis = details.snapshot_ts_ms
    message.num_shards = details.num_regions
    if details.inline_snapshots is not None:
        message.inline_snapshots = details.inline_snapshots
    for spec in details.specs:
        _encode_spec(message.sharding_specs.add(), spec)
    message.maintained_indexes.extend(details.maintained_indexes)
    later = dict(details.merged_unknown)
    for region, generation in details.merged:
        _encode_progress(message.compacted_sstables.add(), region, generation, later.get(region, b""))
    for entry in details.catchup:
        item = message.index_catchup.add()
        item.ParseFromString(entry.unknown)
        item.index_name = entry.index_name
        later = dict(entry.entries_unknown)
        for region, generation in entry.generations:
            _encode_progress(item.caught_up_generations.add(), region, generation, later.get(region, b""))
    message.writer_config_defaults.update(dict(details.writer_defaults))
    if details.maintain_all is not None:
        message.maintain_all_indexes = details.maintain_all
    data = protobuf.serialise(message)
    found = decode(data, revision, "")
    if found != _in_order(details):
        raise EngineBug(f"{details} were encoded, and readers find {found}")
    return data


def _in_order(details: IndexDetails) -> IndexDetails:
    """``details`` with the fields of later revisions in the order of the entries that have them."""
    catchup = (replace(each, entries_unknown=_of(each.generations, each.entries_unknown)) for each in details.catchup)
    return replace(details, merged_unknown=_of(details.merged, details.merged_unknown), catchup=tuple(catchup))


def _of(progress: Progress, unknown: Unknowns) -> Unknowns:
    later = dict(unknown)
    return tuple((region, later[region]) for region, _ in progress if later.get(region))


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


def _encode_progress(
    message: mem_wal_pb2.CompactedSsTable, region: RegionId, generation: Generation, unknown: bytes
) -> None:
    message.ParseFromString(unknown)
    message.shard_id.uuid = region_id_to_bytes(region)
    message.generation = generation


@implements("INDEX-010", "INDEX-018", "INDEX-019", "AMB-03")
def decode(data: bytes, revision: Revision, path: str) -> IndexDetails:
    """Parse the message; raises `ArtifactError`, also for unmerged data of revision 0.

    Details of revision 0 whose records are all merged have nothing to read, and keep the records.
    """
    message = protobuf.parse(mem_wal_pb2.MemWalIndexDetails, data, clause="INDEX-010", path=path)
    if _is_revision_0(message):
        _refuse_unmerged(data, path)
        if message.ListFields():
            raise ArtifactError("AMB-04", path, "records of revision 0 and fields of later revisions in one message")
        return IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, records_0=data)
    protobuf.refuse_other_types(message, clause="INDEX-010", path=path)
    foreign = frozenset() if revision.added_fields else _ONLY_IN_R
    all_known = "maintain_all_indexes" not in foreign and message.HasField("maintain_all_indexes")
    token, unknown = own_field.split(_SPEC_CHANGE, protobuf.unknown(message, foreign), "INDEX-010", path)
    merged, merged_unknown = _decode_progress(message.compacted_sstables, path)
    details = IndexDetails(
        snapshot_ts_ms=Milliseconds(message.snapshot_ts_millis),
        num_regions=message.num_shards,
        inline_snapshots=message.inline_snapshots if message.HasField("inline_snapshots") else None,
        specs=tuple(_decode_spec(spec, path) for spec in message.sharding_specs),
        maintained_indexes=tuple(message.maintained_indexes),
        merged=merged,
        catchup=tuple(_decode_catchup(item, path) for item in message.index_catchup),
        writer_defaults=() if foreign else tuple(sorted(message.writer_config_defaults.items())),
        maintain_all=message.maintain_all_indexes if all_known else None,
        unknown=unknown,
        merged_unknown=merged_unknown,
        spec_change=token,
    )
    names = [entry.index_name for entry in details.catchup]
    if len(set(names)) != len(names):
        raise ArtifactError("INDEX-019", path, f"an index has two catch-up entries: {names}")
    return details


@implements("AMB-04")
def is_revision_0(data: bytes, path: str) -> bool:
    """Whether details hold records of revision 0. Raises `ArtifactError` for bytes that are not a message."""
    return _is_revision_0(protobuf.parse(mem_wal_pb2.MemWalIndexDetails, data, clause="INDEX-010", path=path))


@implements("LEGACY-005", "AMB-04")
def _is_revision_0(message: mem_wal_pb2.MemWalIndexDetails) -> bool:
    """Whether a field 1 is length-delimited: a list of records, and not a time stamp."""
    return protobuf.wire_types_unknown(message).get(1) == _LENGTH_DELIMITED


@implements("LEGACY-006", "LEGACY-026", "AMB-04")
def _refuse_unmerged(data: bytes, path: str) -> None:
    message = protobuf.parse(zero_pb2.MemWalIndexDetails, data, clause="LEGACY-005", path=path)
    merged = zero_pb2.MemWalIndexDetails.MemWal.State.MERGED
    left = [f"{m.id.region}/{m.id.generation}" for m in message.mem_wal_list if m.state != merged]
    if left:
        raise ArtifactError("AMB-04", path, f"revision 0 data that are not merged: {', '.join(left)}")


def _decode_spec(message: mem_wal_pb2.ShardingSpec, path: str) -> RegionSpec:
    protobuf.refuse_other_types(message, clause="INDEX-015", path=path)
    fields = tuple(_decode_field(item, path) for item in message.fields)
    return RegionSpec(spec_id=SpecId(message.spec_id), fields=fields, unknown=protobuf.unknown(message))


def _decode_field(message: mem_wal_pb2.ShardingField, path: str) -> RegionField:
    protobuf.refuse_other_types(message, clause="INDEX-015", path=path)
    return RegionField(
        field_id=message.field_id,
        source_ids=tuple(FieldId(i) for i in message.source_ids),
        transform=message.transform if message.HasField("transform") else None,
        expression=message.expression if message.HasField("expression") else None,
        result_type=message.result_type,
        parameters=tuple(sorted(message.parameters.items())),
        unknown=protobuf.unknown(message),
    )


def _decode_catchup(message: mem_wal_pb2.IndexCatchupProgress, path: str) -> IndexCatchup:
    protobuf.refuse_other_types(message, clause="INDEX-019", path=path)
    generations, later = _decode_progress(message.caught_up_generations, path)
    return IndexCatchup(
        index_name=message.index_name,
        generations=generations,
        unknown=protobuf.unknown(message),
        entries_unknown=later,
    )


def _decode_progress(messages: Iterable[mem_wal_pb2.CompactedSsTable], path: str) -> tuple[Progress, Unknowns]:
    """A generation per region. Two entries of one region would make progress ambiguous, so they are refused."""
    progress: dict[RegionId, Generation] = {}
    later: dict[RegionId, bytes] = {}
    for message in messages:
        protobuf.refuse_other_types(message, clause="INDEX-018", path=path)
        if len(message.shard_id.uuid) != 16:
            raise ArtifactError("INDEX-018", path, f"a region id has {len(message.shard_id.uuid)} bytes, not 16")
        region = region_id_from_bytes(message.shard_id.uuid)
        if region in progress:
            raise ArtifactError("INDEX-018", path, f"region {region} has two entries of progress")
        progress[region] = Generation(message.generation)
        message.ClearField("generation")
        message.shard_id.ClearField("uuid")
        # What is left beside the id was written by a later revision.
        if rest := protobuf.serialise(message).removeprefix(_EMPTY_ID):
            later[region] = rest
    return tuple(progress.items()), tuple(later.items())
