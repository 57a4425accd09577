"""Records of MemWALs: their states, the steps between them, and bytes <-> values.

Source: MemWAL revision 0, "Index Details"; AMB-132, 133, 134. Every step names the owner that it expects, and is a pure
function from records to records; `index` commits what it gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from ..clauses import implements
from ..codec import protobuf
from ..codec.pb.memwal_0 import mem_wal_pb2
from ..errors import ArtifactError, InvalidArgument, Outcome
from ..ids import Generation, TableVersion
from . import segments
from .segments import EntryIds

GENERATION_FIRST = Generation(0)
"""Of a region that has no record; 1 is accepted too (AMB-134)."""


@implements("LEGACY-009", "LEGACY-011", "LEGACY-012", "LEGACY-013", "AMB-132")
class State(IntEnum):
    """Phases of a MemWAL; they only move forward."""

    OPEN = 0
    """Takes entries."""
    SEALED = 1
    """Takes no entries; its MemTable waits for a flush."""
    FLUSHED = 2
    """Persisted, and not merged: its WAL is still needed."""
    MERGED = 3
    """Its rows are in the table; the WAL may be deleted."""


class OwnerChanged(Outcome):
    """Another writer owns the MemWAL now; this one must stop."""

    SENTENCE = (
        "the MemWAL of region {region}, generation {generation}, is owned by {owner_found!r} now, not by "
        "{owner_expected!r}: open it again to continue"
    )

    def __init__(self, region: str, generation: Generation, expected: str, found: str) -> None:
        super().__init__(region=region, generation=generation, owner_expected=expected, owner_found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemWal:
    """One MemWAL: a MemTable and its WAL."""

    region: str
    """Name of the region; any text."""
    generation: Generation
    mem_table_location: str
    """An address whose meaning is the writer's own, such as ``memory://…``."""
    wal_location: str
    """Folder of the WAL; never changes."""
    entries: EntryIds
    """Entries that are in the WAL for good: exactly those are replayed."""
    state: State
    owner_id: str
    version_updated: TableVersion
    """The table version that created or last changed this record."""
    unknown: bytes = b""
    """Fields of later revisions, kept on rewrite."""


Records = tuple[MemWal, ...]


@implements("LEGACY-005", "LEGACY-006", "LEGACY-026")
def encode(records: Records) -> bytes:
    """Bytes of the index details."""
    message = mem_wal_pb2.MemWalIndexDetails()
    for record in records:
        item = message.mem_wal_list.add()
        item.ParseFromString(record.unknown)
        item.id.region, item.id.generation = record.region, record.generation
        item.mem_table_location, item.wal_location = record.mem_table_location, record.wal_location
        item.wal_entries = segments.encode(record.entries)
        item.state = int(record.state)  # type: ignore[assignment]
        item.owner_id, item.last_updated_dataset_version = record.owner_id, record.version_updated
    return protobuf.serialise(message)


@implements("LEGACY-005", "LEGACY-006", "LEGACY-008", "LEGACY-026")
def decode(data: bytes, path: str) -> Records:
    """Parse index details of revision 0; raises `ArtifactError`, also where a region has two unsealed generations."""
    message = protobuf.parse(mem_wal_pb2.MemWalIndexDetails, data, clause="LEGACY-005", path=path)
    protobuf.refuse_other_types(message, clause="LEGACY-005", path=path)
    records = tuple(_decoded(item, path) for item in message.mem_wal_list)
    ids = [(record.region, record.generation) for record in records]
    if len(set(ids)) != len(ids):
        raise ArtifactError("LEGACY-006", path, f"a MemWAL has two records: {sorted(ids)}")
    for region in {record.region for record in records}:
        unsealed = [r.generation for r in records if r.region == region and r.state is State.OPEN]
        if len(unsealed) > 1:
            raise ArtifactError("LEGACY-008", path, f"region {region!r} has the open generations {sorted(unsealed)}")
    return records


def _decoded(item: mem_wal_pb2.MemWalIndexDetails.MemWal, path: str) -> MemWal:
    protobuf.refuse_other_types(item, clause="LEGACY-026", path=path)
    if not item.HasField("id"):
        raise ArtifactError("LEGACY-006", path, "a record has no id")
    if int(item.state) not in set(State):
        raise ArtifactError("LEGACY-013", path, f"state {item.state} of {item.id.region!r} is not known")
    return MemWal(
        region=item.id.region,
        generation=Generation(item.id.generation),
        mem_table_location=item.mem_table_location,
        wal_location=item.wal_location,
        entries=segments.decode(item.wal_entries, path),
        state=State(item.state),
        owner_id=item.owner_id,
        version_updated=TableVersion(item.last_updated_dataset_version),
        unknown=protobuf.unknown(item),
    )


def of_region(records: Records, region: str) -> Records:
    """Records of ``region``, by generation ascending."""
    return tuple(sorted((r for r in records if r.region == region), key=lambda r: r.generation))


def open_record(records: Records, region: str) -> MemWal | None:
    """The record of ``region`` that takes entries; None for a region that has no records."""
    return next((r for r in records if r.region == region and r.state is State.OPEN), None)


def _changed(records: Records, changes: Iterable[MemWal]) -> Records:
    by_id = {(r.region, r.generation): r for r in changes}
    return tuple(by_id.pop((r.region, r.generation), r) for r in records) + tuple(by_id.values())


@implements("LEGACY-019")
def _expect(record: MemWal | None, region: str, owner: str) -> MemWal:
    if record is None:
        raise InvalidArgument(f"region {region!r} has no open MemWAL", clause="LEGACY-008")
    if record.owner_id != owner:
        raise OwnerChanged(region, record.generation, owner, record.owner_id)
    return record


@implements("LEGACY-020", "LEGACY-022")
def claimed(records: Records, region: str, owner: str, wal_location: str, version: TableVersion) -> Records:
    """``owner`` takes over every record of ``region`` that is not merged; a region without an open one gets it."""
    taken = [
        replace(r, owner_id=owner, version_updated=version)
        for r in of_region(records, region)
        if r.state is not State.MERGED
    ]
    if open_record(records, region) is None:
        generation = max((r.generation + 1 for r in of_region(records, region)), default=GENERATION_FIRST)
        taken.append(_fresh(region, Generation(generation), owner, wal_location, version))
    return _changed(records, taken)


def _fresh(region: str, generation: Generation, owner: str, wal_location: str, version: TableVersion) -> MemWal:
    return MemWal(
        region=region,
        generation=generation,
        mem_table_location=f"memory://{owner}/{generation}",
        wal_location=wal_location,
        entries=EntryIds(),
        state=State.OPEN,
        owner_id=owner,
        version_updated=version,
    )


@implements("LEGACY-003", "AMB-133")
def appended(records: Records, region: str, owner: str, entry: int, version: TableVersion) -> Records:
    """The watermark after ``entry`` was stored."""
    record = _expect(open_record(records, region), region, owner)
    return _changed(records, [replace(record, entries=record.entries.adding(entry), version_updated=version)])


@implements("LEGACY-007", "LEGACY-010")
def sealed(records: Records, region: str, owner: str, wal_location: str, version: TableVersion) -> Records:
    """The open MemWAL is sealed and the next one created, in one step."""
    record = _expect(open_record(records, region), region, owner)
    following = _fresh(region, Generation(record.generation + 1), owner, wal_location, version)
    return _changed(records, [replace(record, state=State.SEALED, version_updated=version), following])


@implements("LEGACY-011", "LEGACY-012", "LEGACY-013", "LEGACY-021")
def advanced(
    records: Records, region: str, generation: Generation, owner: str, to: State, version: TableVersion
) -> Records:
    """A sealed MemWAL becomes flushed, or a flushed one merged; raises `InvalidArgument` for any other step."""
    found = next((r for r in records if (r.region, r.generation) == (region, generation)), None)
    record = _expect(found, region, owner)
    if (record.state, to) not in ((State.SEALED, State.FLUSHED), (State.FLUSHED, State.MERGED)):
        reason = f"MemWAL {generation} of {region!r} is {record.state.name} and cannot become {to.name}"
        raise InvalidArgument(reason, clause="LEGACY-013")
    older = [r.generation for r in of_region(records, region) if r.generation < generation and r.state < to]
    if to is State.MERGED and older:
        raise InvalidArgument(f"generations {older} of {region!r} are to be merged first", clause="LEGACY-024")
    return _changed(records, [replace(record, state=to, version_updated=version)])


@implements("LEGACY-012", "AMB-132")
def removed(records: Records, region: str, generation: Generation) -> Records:
    """Without the record of a merged MemWAL; raises `InvalidArgument` if it is not merged."""
    for record in records:
        if (record.region, record.generation) == (region, generation) and record.state is not State.MERGED:
            reason = f"MemWAL {generation} of {region!r} is {record.state.name}: its WAL is still needed"
            raise InvalidArgument(reason, clause="LEGACY-012")
    return tuple(r for r in records if (r.region, r.generation) != (region, generation))
