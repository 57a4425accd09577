"""Region snapshots: their file, where it is, and the builder that makes them."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import memwal
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal import paths
from memwal.codec import data_file, region_manifest
from memwal.codec.index_details import IndexDetails, RegionField, RegionSpec
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.effects import Get, Head, Now, Put, PutIfAbsent, Request, StoreRequest
from memwal.errors import ArtifactError, OutcomeUnknown, Throttled
from memwal.ids import Epoch, FieldId, Generation, ManifestVersion, Milliseconds, RegionId, SpecId, WalPosition
from memwal.index import discovery, mem_wal, regions, snapshot, snapshot_file
from memwal.index.snapshot import RegionRow
from memwal.region import manifest as manifests
from memwal.revisions import CONFIG_INLINE_REGIONS, LITERAL, STRICT, A, B, Interpretation, R, Revision
from memwal.table.state import TableState
from memwal.table.write import set_config

from ..kit.ground import Actor, Ground, keys, row
from ..kit.profiles import read_as
from ..kit.tables import IO, bucket_of, changed, flushed, keys_of, newest, objects_below, opened, registered, table

PATH = "_indices/x/index.lance"
ONE = RegionId("7c9e6679-7425-40de-944b-e07fc1f90ae7")
TWO = RegionId("0f8fad5b-d9cb-469f-a165-70867728950e")


def field(name: str, kind: str) -> RegionField:
    return RegionField(field_id=name, source_ids=(FieldId(0),), transform="identity", result_type=kind)


def spec(number: int, *fields: RegionField) -> RegionSpec:
    return RegionSpec(spec_id=SpecId(number), fields=fields)


def details(*specs: RegionSpec) -> IndexDetails:
    return IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, specs=specs)


def state_of(region: RegionId, number: int = 1, spec_id: int = 1, generations: int = 2) -> RegionManifest:
    return RegionManifest(
        version=ManifestVersion(number),
        region_id=region,
        spec_id=SpecId(spec_id),
        epoch=Epoch(3),
        position_replay_after=WalPosition(17),
        position_last_seen=WalPosition(19),
        generation_current=Generation(generations + 1),
        flushed=tuple(
            FlushedGeneration(generation=Generation(g), path=f"0123abcd_gen_{g}") for g in range(1, generations + 1)
        ),
    )


def of(region: RegionId, spec_id: int = 1, manifest: RegionManifest | None = None, **values: object) -> RegionRow:
    return RegionRow(region_id=region, spec_id=SpecId(spec_id), values=tuple(values.items()), manifest=manifest)


USER_BUCKET = details(spec(1, field("user_bucket", "int32")))
ROWS = (of(ONE, manifest=state_of(ONE, 5), user_bucket=3), of(TWO, user_bucket=None))


# --- the file --------------------------------------------------------------------------------------------------------

POINTERS = {
    "A": ("replay_after_wal_id", "wal_id_last_seen"),
    "B": ("replay_after_wal_entry_position", "wal_entry_position_last_seen"),
}


@pytest.mark.clause("SNAP-001", "SNAP-002", "SNAP-003", "SNAP-004", "SNAP-005", "SNAP-006", "SNAP-007", "SNAP-008")
@pytest.mark.clause("SNAP-009", "SNAP-010", "SNAP-011", "SNAP-021", "AMB-36")
@pytest.mark.parametrize("revision", [A, B], ids=lambda r: r.name)
def test_the_file_has_one_row_per_region_and_the_columns_of_the_texts(revision: Revision) -> None:
    data = snapshot_file.encode(ROWS, USER_BUCKET, revision)
    replay, seen = POINTERS[revision.name]
    generations = pa.list_(pa.struct([("generation", pa.uint64()), ("path", pa.string())]))
    found = data_file.decode(data, PATH)
    assert [(f.name, f.type) for f in found.schema] == [
        ("region_id", pa.binary(16)),
        ("version", pa.uint64()),
        ("region_spec_id", pa.uint32()),
        ("writer_epoch", pa.uint64()),
        (replay, pa.uint64()),
        (seen, pa.uint64()),
        ("current_generation", pa.uint64()),
        ("flushed_generations", generations),
        ("region_field_user_bucket", pa.int32()),
    ]
    first, second = found.to_pylist()
    assert (first["region_id"], second["region_id"]) == (uuid.UUID(TWO).bytes, uuid.UUID(ONE).bytes)
    assert list(second.values())[1:] == [
        5, 1, 3, 17, 19, 3,
        [{"generation": 1, "path": "0123abcd_gen_1"}, {"generation": 2, "path": "0123abcd_gen_2"}], 3,
    ]  # fmt: skip
    assert list(first.values())[1:] == [0, 1, 0, 0, 0, 0, [], None]
    assert [f.nullable for f in found.schema] == [False] * 8 + [True]
    assert snapshot_file.encode(tuple(reversed(ROWS)), USER_BUCKET, revision) == data


@pytest.mark.clause("SNAP-001", "SNAP-004", "SNAP-010", "AMB-53", "AMB-54", "AMB-57", "AMB-67")
def test_regions_of_several_specs_and_manual_ones_share_the_columns_and_known_null_is_not_unknown() -> None:
    both = details(
        spec(1, field("a", "int64"), field("b", "string")), spec(2, field("b", "string"), field("c", "bool"))
    )
    ids = [RegionId(str(uuid.UUID(int=n, version=4))) for n in range(5)]
    rows = (
        of(ids[0], 0, state_of(ids[0], spec_id=0)),
        of(ids[1], 1, a=7, b="x"),
        of(ids[2], 1, state_of(ids[2]), a=None, b="y"),
        of(ids[3], 2, b=None, c=True),
        of(ids[4], 2),
    )
    data = snapshot_file.encode(rows, both, B)
    stored = data_file.decode(data, PATH)
    assert [n for n in stored.schema.names if n.startswith("region_field_")] == [f"region_field_{n}" for n in "abc"]
    assert stored.column("region_field_b").to_pylist() == [None, "x", "y", None, None]
    assert snapshot_file.decode(data, both, B, PATH) == rows
    plain = data_file.encode(stored.replace_schema_metadata(None))
    assert dict(snapshot_file.decode(plain, both, B, PATH)[2].values) == {"b": "y"}


VALUES: dict[str, tuple[str, Any]] = {
    "int8": ("int8", -5),
    "uint64": ("uint64", 2**64 - 1),
    "bool": ("bool", False),
    "text": ("string", "né"),
    "bytes": ("binary", b"\x00"),
    "date": ("date32:day", date(2024, 2, 29)),
    "timestamp": ("timestamp:us:-", datetime(2024, 2, 29, 1, 2, 3, 4)),
}


@pytest.mark.clause("SNAP-010", "AMB-57")
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("revision", [A, B, R], ids=lambda r: r.name)
def test_region_values_of_every_kind_survive_the_file(name: str, revision: Revision) -> None:
    kind, value = VALUES[name]
    one = details(spec(1, field("f", kind)))
    rows = (of(TWO, f=None), of(ONE, manifest=state_of(ONE), f=value))
    assert snapshot_file.decode(snapshot_file.encode(rows, one, revision), one, revision, PATH) == rows


@given(st.lists(st.tuples(st.uuids(), st.integers(0, 3), st.none() | st.integers(-9, 9)), unique_by=lambda r: r[0]))
def test_every_set_of_regions_survives_the_file(drawn: list[tuple[uuid.UUID, int, int | None]]) -> None:
    one = details(spec(1, field("f", "int32")))
    rows = [
        of(RegionId(str(u)), manifest=state_of(RegionId(str(u)), n) if n else None, f=v)
        for u, n, v in sorted(drawn, key=lambda r: str(r[0]))
    ]
    assert snapshot_file.decode(snapshot_file.encode(rows, one, B), one, B, PATH) == tuple(rows)


@pytest.mark.clause("SNAP-009", "SNAP-011", "AMB-77")
def test_columns_are_found_by_name_in_any_order_beside_others_and_with_other_lists() -> None:
    stored = data_file.decode(snapshot_file.encode(ROWS, USER_BUCKET, B), PATH)
    child = pa.struct([("path", pa.large_string()), ("generation", pa.uint64()), ("rows", pa.int32())])
    lists = pa.array(
        [[{**g, "rows": 1} for g in item] for item in stored.column("flushed_generations").to_pylist()],
        pa.large_list(pa.field("element", child)),
    )
    other = stored.set_column(7, "flushed_generations", lists).append_column("status", pa.array([0, 1]))
    shuffled = other.select(list(reversed(other.schema.names)))
    expected = tuple(sorted(ROWS, key=lambda r: r.region_id))
    assert snapshot_file.decode(data_file.encode(shuffled), USER_BUCKET, B, PATH) == expected
    without = data_file.encode(stored.drop_columns(["region_field_user_bucket"]))
    assert [r.values for r in snapshot_file.decode(without, USER_BUCKET, B, PATH)] == [(), ()]


COLUMNS = {
    "region_id": "SNAP-002",
    "version": "SNAP-003",
    "region_spec_id": "SNAP-004",
    "writer_epoch": "SNAP-005",
    "replay_after_wal_entry_position": "SNAP-006",
    "wal_entry_position_last_seen": "SNAP-007",
    "current_generation": "SNAP-008",
    "flushed_generations": "SNAP-009",
}


@pytest.mark.clause("SNAP-002", "SNAP-003", "SNAP-004", "SNAP-005", "SNAP-006", "SNAP-007", "SNAP-008", "SNAP-009")
@pytest.mark.parametrize("fault", ["missing", "another type", "a NULL"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_missing_mistyped_or_null_is_refused_by_its_clause(name: str, fault: str) -> None:
    stored = data_file.decode(snapshot_file.encode(ROWS, USER_BUCKET, B), PATH)
    at = stored.schema.get_field_index(name)
    kind = stored.schema.field(name).type
    if fault == "missing":
        damaged = stored.drop_columns([name])
    elif fault == "another type":
        damaged = stored.set_column(at, name, pa.array(["1", "2"]))
    else:
        damaged = stored.set_column(
            at, pa.field(name, kind), pa.array([None, *stored.column(name).to_pylist()[1:]], kind)
        )
    with pytest.raises(ArtifactError) as caught:
        snapshot_file.decode(data_file.encode(damaged), USER_BUCKET, B, PATH)
    assert (caught.value.clause, caught.value.path) == (COLUMNS[name], PATH)


@pytest.mark.clause("SNAP-001", "SNAP-010", "AMB-57")
def test_a_damaged_snapshot_is_refused_by_the_clause_it_breaks() -> None:
    data = snapshot_file.encode(ROWS, USER_BUCKET, B)
    stored = data_file.decode(data, PATH)

    def clause(table: pa.Table | bytes) -> str:
        with pytest.raises(ArtifactError) as caught:
            snapshot_file.decode(table if isinstance(table, bytes) else data_file.encode(table), USER_BUCKET, B, PATH)
        return caught.value.clause

    assert clause(data[:-5]) == "SNAP-001"
    assert clause(b"") == "SNAP-001"
    assert clause(pa.concat_tables([stored, stored.slice(1)])) == "SNAP-001"
    assert clause(stored.set_column(8, "region_field_user_bucket", pa.array(["a", "b"]))) == "SNAP-010"
    for text in ("[1]", "{", '{"user_bucket": 3}'):
        assert clause(stored.replace_schema_metadata({"memwal.known_null": text})) == "AMB-57"
    assert json.loads(stored.schema.metadata[b"memwal.known_null"]) == {"user_bucket": [TWO]}


# --- where it is -----------------------------------------------------------------------------------------------------


def buckets(made: memwal.Table, count: int) -> tuple[str, ...]:
    return tuple(made.register_regions([{"b": i} for i in range(count)]))


def external_names(ground: Ground) -> list[str]:
    return objects_below(ground, "_indices")


@pytest.mark.clause("INDEX-008", "INDEX-009", "INDEX-012", "INDEX-013", "INDEX-014")
@pytest.mark.clause("SNAP-012", "SNAP-013", "SNAP-015", "SNAP-022", "AMB-75", "AMB-76")
@pytest.mark.parametrize("count", [0, 1, 100, 101])
@pytest.mark.parametrize("revision", ["A", "B"])
def test_up_to_100_regions_are_inline_and_more_are_a_file_below_the_uuid_of_the_index(
    ground: Ground, revision: str, count: int
) -> None:
    made = table(ground, revision, spec=memwal.bucket("b", "id", 1_000))
    if count:
        buckets(made, count)
    made.snapshot()
    state = newest(ground)
    found, entry = state.mem_wal, state.mem_wal_entry
    assert entry is not None
    assert found.num_regions == count
    if count <= 100:
        assert found.inline_snapshots is not None
        stored = data_file.decode(found.inline_snapshots, PATH)
        assert external_names(ground) == []
    else:
        assert found.inline_snapshots is None
        name = f"{uuid.UUID(bytes=entry.uuid.uuid)}/index.lance"
        assert name in external_names(ground)
        stored = data_file.decode(ground.objects[f"t/_indices/{name}"], PATH)
        assert len(entry.index_details.value) < 200
    assert (stored.num_rows, stored.schema) == (count, snapshot_file.schema(found, made.revision))
    rows = registered(ground).values()
    assert sorted(dict(r.values)["b"] for r in rows) == list(range(count))
    assert sorted(info.values["b"] for info in opened(ground).regions()) == list(range(count))


def test_ten_thousand_regions_are_registered_built_and_listed_at_once(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 10_000))
    before = len(ground.asked)
    regions_ = buckets(made, 10_000)
    assert len(set(regions_)) == 10_000
    assert len(ground.asked) - before < 10
    assert made.snapshot() == 10_000
    assert len(external_names(ground)) == 2
    asked = len(ground.asked)
    listed = opened(ground).regions()
    assert [info.region_id for info in listed] == sorted(regions_)
    assert {info.region_id: info.values["b"] for info in listed} == dict(zip(regions_, range(10_000), strict=True))
    assert len(ground.asked) - asked < 12
    assert made.register_region({"b": 4_321}) == regions_[4_321]


@pytest.mark.clause("SNAP-014", "AMB-75")
def test_the_threshold_is_the_tables_or_the_callers_and_readers_ask_for_none(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 10))
    three = buckets(made, 3)
    assert made.snapshot(inline_most=2) == 3
    assert len(external_names(ground)) == 1
    assert opened(ground).register_region({"b": 1}) == three[1]
    made.snapshot(inline_most=3)
    assert newest(ground).mem_wal.inline_snapshots is not None
    assert sorted(registered(ground)) == sorted(three)
    ground.run(set_config(IO, {CONFIG_INLINE_REGIONS: "2"}))
    made.snapshot()
    assert newest(ground).mem_wal.inline_snapshots is None
    assert sorted(registered(ground)) == sorted(three)
    ground.run(set_config(IO, {CONFIG_INLINE_REGIONS: "many"}))
    with pytest.raises(ArtifactError, match="SNAP-014"):
        made.snapshot()


def test_the_snapshot_of_revision_r_is_inline_at_any_count(ground: Ground) -> None:
    made = table(ground, "R", spec=memwal.bucket("b", "id", 200))
    buckets(made, 150)
    made.snapshot(inline_most=0)
    assert newest(ground).mem_wal.num_regions == 150
    assert external_names(ground) == []
    assert len(registered(ground)) == 150


@pytest.mark.clause("SNAP-013", "INDEX-008", "AMB-75")
def test_a_missing_snapshot_file_fails_version_reads_and_registration_and_the_newest_state_is_listed(
    ground: Ground,
) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 4))
    first, second = buckets(made, 2)
    flushed(made, first, keys_of(made, 0, 1)[0])
    made.snapshot(inline_most=0)
    version = made.version
    for name in external_names(ground):
        del ground.objects[f"t/_indices/{name}"]
    for read in (
        lambda: memwal.open("t", version=version, store=ground).scan(),
        lambda: made.scan(consistency="eventual"),
    ):
        with pytest.raises(ArtifactError, match="counts 2 regions"):
            read()
    with pytest.raises(ArtifactError, match="SNAP-013"):
        made.register_region({"b": 0})
    assert keys(made.scan()) == keys_of(made, 0, 1)
    assert [info.region_id for info in made.regions()] == [first]
    assert [found.region_id for found in ground.run(discovery.known(IO, newest(ground)))] == [first]
    assert "SNAP-013" in str(ground.events("snapshot_gone")[-1]["reason"])
    assert made.snapshot() == 1
    assert made.register_region({"b": 0}) == first
    assert made.register_region({"b": 1}) != second


@pytest.mark.clause("INDEX-012", "AMB-75")
def test_a_count_that_is_not_the_number_of_rows_is_refused(ground: Ground) -> None:
    made = table(ground)
    made.register_region()
    changed(ground, lambda d: replace(d, num_regions=2))
    with pytest.raises(ArtifactError, match="counts 2 regions, and the snapshot has 1") as caught:
        opened(ground).regions()
    assert caught.value.clause == "INDEX-012"


@pytest.mark.clause("SNAP-013", "AMB-76", "AMB-115")
@pytest.mark.parametrize("profile", [STRICT, LITERAL], ids=["strict", "literal"])
def test_a_version_keeps_its_own_snapshot_file_unless_files_are_replaced(
    ground: Ground, profile: Interpretation
) -> None:
    made = table(ground)
    region = made.register_region()
    flushed(made, region, 1)
    ground.run(regions.build_snapshot(read_as(IO, profile), inline_most=0))
    version = newest(ground).version
    flushed(made, region, 2)
    ground.run(regions.build_snapshot(read_as(IO, profile), inline_most=0))
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    assert sorted(keys(made.scan(consistency="eventual"))) == [1, 2]
    old = memwal.open("t", version=version, store=ground).scan()
    assert sorted(keys(old)) == ([1] if profile is STRICT else [1, 2])
    assert len(external_names(ground)) == (2 if profile is STRICT else 1)


@pytest.mark.clause("SNAP-013", "AMB-76")
def test_a_change_of_other_fields_leaves_the_snapshot_file_under_the_uuid_that_names_it(ground: Ground) -> None:
    made = table(ground)
    flushed(made, made.register_region(), 1)
    made.snapshot(inline_most=0)
    before = external_names(ground)
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    made.merge()
    assert external_names(ground) == before
    assert len(registered(ground)) == 1
    made.snapshot()
    assert newest(ground).mem_wal.inline_snapshots is not None


# --- the builder -----------------------------------------------------------------------------------------------------


def a_table(ground: Ground) -> tuple[memwal.Table, str]:
    """Generation 1 flushed, and three entries above it."""
    made = table(ground)
    region = made.register_region()
    flushed(made, region, 1)
    with made.writer(region, background=False) as writer:
        for key in (2, 3, 4):
            writer.put(row(key))
    return made, region


@pytest.mark.clause("SNAP-016", "SNAP-018", "SNAP-019", "SNAP-020", "SNAP-021", "SNAP-024", "SNAP-026", "INDEX-022")
@pytest.mark.clause("AMB-33")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_the_builder_lists_regions_finds_the_end_of_each_wal_and_commits_rows_like_the_manifests(
    ground: Ground, revision: str
) -> None:
    made = table(ground, revision)
    unregistered = RegionId("3f2b8c1e-5d77-4f0a-9c44-0a6d2b7e9f10")
    flushed(made, unregistered, 1)
    with made.writer(unregistered, background=False) as writer:
        for key in (2, 3, 4):
            writer.put(row(key))
        end = writer.position_next - 1
    assert registered(ground) == {}
    before = newest(ground).version
    stale = made.regions()[0].manifest
    assert stale is not None
    assert stale.position_last_seen < end
    assert made.snapshot() == 1
    state = newest(ground)
    assert state.version == before + 1
    (found,) = registered(ground).values()
    info = opened(ground).regions()[0].manifest
    assert info is not None
    assert info.position_last_seen == end
    assert (info.version, info.epoch, info.generation_current) == (stale.version + 1, stale.epoch, 2)
    plain = tuple(FlushedGeneration(generation=g.generation, path=g.path) for g in info.flushed)
    assert found.manifest == replace(info, flushed=plain, shard_fields=())


@pytest.mark.clause("SNAP-019", "SNAP-021", "SNAP-026")
def test_the_row_of_every_region_has_the_end_of_its_own_wal(ground: Ground) -> None:
    made = table(ground)
    ends = {}
    for count in (1, 3, 2):
        region = RegionId(made.register_region())
        with made.writer(region, background=False) as writer:
            for key in range(count):
                writer.put(row(10 * count + key))
            ends[region] = writer.position_next - 1
    assert len(set(ends.values())) == 3
    made.snapshot()
    rows = registered(ground).values()
    assert {r.region_id: r.manifest.position_last_seen for r in rows if r.manifest is not None} == ends


@pytest.mark.clause("SNAP-019", "SNAP-021")
def test_a_builder_reads_the_manifest_of_the_region_that_changed_and_of_no_other(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 3))
    named = made.register_regions([{"b": number} for number in range(3)])
    for number, region in enumerate(named):
        with made.writer(region) as writer:
            writer.put(row(next(key for key in range(40) if bucket_of(made, key) == number)))
            writer.flush()
    with made.writer(named[1]) as writer:
        writer.put(row(next(key for key in range(40) if bucket_of(made, key) == 1)))
        made.snapshot()
        writer.flush()
    before = len(ground.asked)
    made.snapshot()
    asked = [r for r in ground.asked[before:] if "/_mem_wal/" in r.path]
    assert {r.path.split("/")[2] for r in asked if isinstance(r, Get)} == {named[1]}
    assert len([r for r in asked if named[0] in r.path]) == 3
    for region, stored in registered(ground).items():
        assert stored.manifest == ground.run(manifests.latest(manifests.folder(IO, region), made.revision))


@pytest.mark.clause("SNAP-019", "SNAP-021", "AMB-30")
@pytest.mark.parametrize("kept", [1, 2, 5])
def test_a_manifest_version_that_was_collected_is_no_longer_taken_for_the_newest(ground: Ground, kept: int) -> None:
    made, region = a_table(ground)
    made.snapshot()
    stored = registered(ground)[RegionId(region)].manifest
    assert stored is not None
    for key in range(5, 10):
        flushed(made, region, key)
    below = manifests.folder(IO, RegionId(region))
    listed = ground.run(manifests.versions(below))
    for version in listed[:-kept]:
        del ground.objects[below.path(paths.manifest(version))]
    for name in [name for name in ground.objects if name.startswith(below.path("wal/"))]:
        del ground.objects[name]
    # A request of a collected number may be carried out late: a copy of what the snapshot has.
    ground.objects[below.path(paths.manifest(stored.version))] = region_manifest.encode(stored, made.revision)
    made.snapshot()
    found = registered(ground)[RegionId(region)].manifest
    assert found is not None
    assert found.version == listed[-1]


def test_a_whole_snapshot_replaces_what_a_foreign_builder_wrote_wrongly(ground: Ground) -> None:
    made, region = a_table(ground)
    made.snapshot()
    right = registered(ground)[RegionId(region)]
    assert right.manifest is not None
    wrong = replace(right, manifest=replace(right.manifest, flushed=()))

    async def foreign(state: TableState, current: IndexDetails) -> snapshot.StoredSnapshot:
        return await snapshot.store(IO, state, current, [wrong])

    ground.run(mem_wal.change(IO, foreign))
    made.snapshot()
    assert registered(ground)[RegionId(region)] == wrong
    made.snapshot(whole=True)
    assert registered(ground)[RegionId(region)] == right


@pytest.mark.clause("SNAP-020", "AMB-33")
@pytest.mark.parametrize("failure", [OutcomeUnknown("x"), Throttled("x")], ids=["unknown", "throttled"])
def test_a_hint_that_cannot_be_stored_does_not_stop_the_builder(ground: Ground, failure: Any) -> None:
    made, region = a_table(ground)

    def fault(request: StoreRequest[Any]) -> Any:
        return failure if isinstance(request, PutIfAbsent | Put) and "/manifest/" in request.path else None

    ground.before = fault
    ground.run(regions.build_snapshot(IO))
    (found,) = registered(ground).values()
    assert (found.region_id, found.manifest is not None) == (region, True)
    assert sorted(keys(made.scan())) == [1, 2, 3, 4]


class Clock(Ground):
    """A ground whose time is the number of requests made so far."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int] = []

    def local(self, request: Request[Any]) -> Any:
        if isinstance(request, Now):
            self.times.append(len(self.asked))
            return Milliseconds(len(self.asked))
        return super().local(request)


@pytest.mark.clause("INDEX-011", "INDEX-022", "AMB-74")
def test_the_time_stamp_is_before_the_first_manifest_that_the_builder_reads() -> None:
    ground = Clock()
    a_table(ground)
    changed(ground, lambda d: replace(d, snapshot_ts_ms=Milliseconds(0)))
    before = len(ground.asked)
    ground.run(regions.build_snapshot(IO))
    stamp = newest(ground).mem_wal.snapshot_ts_ms
    reads = [
        at
        for at, r in enumerate(ground.asked)
        if at >= before and isinstance(r, Get | Head) and "/manifest/" in r.path and "_mem_wal" in r.path
    ]
    assert before <= stamp <= reads[0]


@pytest.mark.clause("AMB-69", "AMB-74")
def test_of_two_builders_the_slower_one_takes_nothing_back(ground: Ground) -> None:
    made, region = a_table(ground)
    slow = Actor(ground, regions.build_snapshot(IO)).until(PutIfAbsent, "/_versions/")
    flushed(made, region, 9)
    ground.run(regions.build_snapshot(IO))
    newer = registered(ground)[RegionId(region)].manifest
    slow.finish()
    found = registered(ground)[RegionId(region)].manifest
    assert newer is not None
    assert found == newer
    assert [g.generation for g in found.flushed] == [1, 2]


@pytest.mark.clause("SNAP-019", "AMB-69")
def test_after_a_conflict_the_builder_commits_again_without_scanning_again_and_names_the_file_it_wrote(
    ground: Ground,
) -> None:
    made, _ = a_table(ground)
    builder = Actor(ground, regions.build_snapshot(IO, inline_most=0)).until(PutIfAbsent, "/_versions/")
    made.base.append(row(70))
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    before = len(ground.asked)
    builder.finish()
    assert [r for r in ground.asked[before:] if "/_mem_wal/" in r.path] == []
    assert len(external_names(ground)) == 1
    assert newest(ground).mem_wal.maintained_indexes == ("vec",)


@pytest.mark.clause("SNAP-019", "AMB-69", "AMB-76")
def test_a_builder_that_loses_to_a_registration_names_a_file_that_has_the_new_region_too(ground: Ground) -> None:
    made, region = a_table(ground)
    ground.run(set_config(IO, {CONFIG_INLINE_REGIONS: "0"}))
    builder = Actor(ground, regions.build_snapshot(IO)).until(PutIfAbsent, "/_versions/")
    rival = made.register_region()
    builder.finish()
    found = registered(ground)
    assert sorted(found) == sorted([region, rival])
    assert found[RegionId(region)].manifest is not None


@pytest.mark.clause("SNAP-013", "AMB-76")
def test_a_builder_that_dies_anywhere_leaves_the_table_readable_and_at_most_a_file_that_nothing_names() -> None:
    first = Ground()
    a_table(first)[0].snapshot(inline_most=0)
    version = newest(first).version
    asked = Ground(first.objects)
    asked.run(regions.build_snapshot(IO, inline_most=0))
    for crash in range(len(asked.asked)):
        ground = Ground(first.objects)
        builder = Actor(ground, regions.build_snapshot(IO, inline_most=0))
        for _ in range(crash):
            builder.step()
        named = snapshot.external(uuid_of(ground))
        assert f"t/{named}" in ground.objects
        assert len(external_names(ground)) <= 2
        assert newest(ground).version in (version, version + 1)
        after = opened(ground)
        assert sorted(keys(after.scan())) == [1, 2, 3, 4]
        assert keys(after.scan(consistency="eventual")) == [1]


def uuid_of(ground: Ground) -> bytes:
    entry = newest(ground).mem_wal_entry
    assert entry is not None
    return bytes(entry.uuid.uuid)


@pytest.mark.clause("SNAP-018", "AMB-36", "AMB-143")
def test_foreign_folders_and_empty_regions_are_passed_by_with_a_note(ground: Ground) -> None:
    made, region = a_table(ground)
    empty = "5c1d9a52-1111-4111-8111-111111111111"
    ground.objects[f"t/_mem_wal/{empty}/manifest/version_hint.json"] = b'{"version":1}'
    ground.objects["t/_mem_wal/.snapshots/x"] = b""
    ground.objects[f"t/_mem_wal/{region.upper()}/manifest/x"] = b""
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    ground.run(regions.build_snapshot(IO))
    assert set(registered(ground)) == {region}
    assert [info.region_id for info in made.regions()] == [region]
    foreign = {e["folder"] for e in ground.events("foreign_folder")}
    assert foreign == {".snapshots", region.upper()}
    assert {e["region"] for e in ground.events("region_without_manifest")} == {empty}


@pytest.mark.clause("SNAP-018", "AMB-143")
@pytest.mark.parametrize("left", ["wal/x", "0123abcd_gen_1/_versions/x"])
def test_a_folder_with_data_and_no_manifest_is_damage(ground: Ground, left: str) -> None:
    made, _ = a_table(ground)
    lost = "5c1d9a52-1111-4111-8111-111111111111"
    ground.objects[f"t/_mem_wal/{lost}/{left}"] = b""
    for look in (made.regions, made.snapshot, made.scan):
        with pytest.raises(ArtifactError) as caught:
            look()
        assert caught.value.clause == "AMB-143"
        assert lost in caught.value.path


@pytest.mark.clause("AMB-103")
def test_a_strong_read_sees_a_region_that_is_younger_than_the_snapshot(ground: Ground) -> None:
    made, _ = a_table(ground)
    made.snapshot()
    flushed(made, "5c1d9a52-1111-4111-8111-111111111111", 77)
    assert sorted(keys(opened(ground).scan())) == [1, 2, 3, 4, 77]
    assert sorted(keys(opened(ground).scan(consistency="eventual"))) == [1]


@pytest.mark.clause("AMB-53")
@pytest.mark.parametrize("in_wal", [True, False])
def test_the_values_of_a_region_that_nobody_registered_come_from_its_first_row(ground: Ground, in_wal: bool) -> None:
    made = table(ground, spec=memwal.region_spec([memwal.bucket("b", "id", 4), memwal.identity("i", "id")]))
    region = made.register_region({"b": bucket_of(made, 9), "i": 9})
    with made.writer(region, background=False) as writer:
        writer.put(row(9))
        if not in_wal:
            writer.flush()
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    assert registered(ground) == {}
    made.snapshot()
    assert dict(registered(ground)[RegionId(region)].values) == {"b": bucket_of(made, 9), "i": 9}


@pytest.mark.clause("AMB-53")
def test_a_region_without_rows_that_nobody_registered_has_unknown_values(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 4))
    region = made.register_region({"b": 1})
    with made.writer(region, background=False):
        pass
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    made.snapshot()
    assert registered(ground)[RegionId(region)].values == ()


@pytest.mark.clause("AMB-53")
def test_the_values_of_a_region_of_revision_r_come_from_its_manifest(ground: Ground) -> None:
    made = table(ground, "R", spec=memwal.bucket("b", "id", 4))
    region = made.register_region({"b": 3})
    with made.writer(region, background=False):
        pass
    stored = ground.objects[f"t/{paths.region(RegionId(region))}/{paths.manifest(ManifestVersion(1))}"]
    assert region_manifest.decode(stored, R, "").shard_fields == (("b", b"\x03\x00\x00\x00"),)
    changed(ground, lambda d: replace(d, num_regions=0, inline_snapshots=None))
    made.snapshot()
    assert dict(registered(ground)[RegionId(region)].values) == {"b": 3}
