"""The MemWAL index of a table: what it decides, who owns which of its fields, and what nobody may undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.codec import index_details, table_manifest
from memwal.codec.index_details import IndexCatchup, IndexDetails, RegionField, RegionSpec
from memwal.codec.pb.lance import table_pb2
from memwal.codec.region_manifest import FlushedGeneration
from memwal.effects import Get, Head, Protocol
from memwal.errors import ArtifactError, Conflict, InvalidArgument
from memwal.ids import Epoch, FieldId, Generation, ManifestVersion, Milliseconds, RegionId, SpecId
from memwal.index import mem_wal, regions, snapshot, snapshot_file
from memwal.jobs import collector
from memwal.jobs.merger import merge_region
from memwal.revisions import LITERAL, STRICT, Interpretation, R
from memwal.table.commit import transaction_of
from memwal.table.state import TableState

from ..kit.folder import Folder
from ..kit.ground import Actor, Ground, keys, row
from ..kit.interleaving import orders
from ..kit.profiles import read_as
from ..kit.tables import IO, bucket_of, changed, changing, flushed, history, newest, opened, registered, table
from ..kit.wire import blob, num

EMPTY = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None)


def entry_of(state: TableState) -> table_pb2.IndexMetadata:
    entry = state.mem_wal_entry
    assert entry is not None
    return entry


# --- one index -------------------------------------------------------------------------------------------------------


def without_index(ground: Ground) -> TableState:
    """A table on which MemWAL is not enabled."""
    from memwal.table import schema, write

    from ..kit.ground import SCHEMA

    return ground.run(write.create(IO, schema.with_primary_key(SCHEMA, ["id"])))


@pytest.mark.clause("INDEX-001", "AMB-05")
def test_of_two_that_enable_mem_wal_at_once_one_wins_and_the_other_gets_a_conflict(ground: Ground) -> None:
    state = without_index(ground)
    first = Actor(ground, mem_wal.enable(IO, state, EMPTY))
    second = Actor(ground, mem_wal.enable(IO, state, EMPTY))
    while first.waiting is not None and "_versions" not in first.waiting.path:
        first.step()
    second.finish()
    with pytest.raises(Conflict):
        first.finish()
    found = [index.name for index in newest(ground).manifest.indices]
    assert found == ["__lance_mem_wal"]
    with pytest.raises(InvalidArgument, match="INDEX-001"):
        ground.run(mem_wal.enable(IO, newest(ground), EMPTY))


@pytest.mark.clause("INDEX-001", "AMB-05")
def test_two_mem_wal_indexes_in_one_version_are_an_error_whatever_their_names(ground: Ground) -> None:
    table(ground)
    state = newest(ground)
    other = table_pb2.IndexMetadata()
    other.CopyFrom(entry_of(state))
    other.name, other.uuid.uuid = "mine", b"1" * 16
    other.index_details.type_url = "type.example/lance.table.MemWalIndexDetails"
    manifest = replace(state.manifest, indices=(*state.manifest.indices, other))
    ground.objects[state.path] = table_manifest.encode(manifest)
    with pytest.raises(ArtifactError, match="'__lance_mem_wal', 'mine'") as caught:
        opened(ground)
    assert caught.value.clause == "INDEX-001"


@pytest.mark.clause("AMB-05")
def test_a_rewritten_entry_keeps_its_name_and_what_it_holds_besides(ground: Ground) -> None:
    table(ground)
    state = newest(ground)
    entry = entry_of(state)
    entry.name = "another engine's name"
    entry.MergeFromString(num(7_777, 5))
    ground.objects[state.path] = table_manifest.encode(replace(state.manifest, indices=(entry,)))
    memwal.open("t", store=ground).register_region()
    later = entry_of(newest(ground))
    assert later.name == "another engine's name"
    assert num(7_777, 5) in later.SerializeToString()
    assert later.dataset_version == newest(ground).version


RECORD = blob(1, blob(1, b"north") + num(2, 3))
MERGED, FLUSHED = num(5, 3), num(5, 2)


def with_revision_0(ground: Ground, payload: bytes) -> TableState:
    """A table with an index of revision 0 instead of the engine's."""
    table(ground)
    state = newest(ground)
    entry = entry_of(state)
    entry.index_details.value = payload
    ground.objects[state.path] = table_manifest.encode(replace(state.manifest, indices=(entry,)))
    return newest(ground)


@pytest.mark.clause("AMB-04", "AMB-135")
def test_an_index_of_revision_0_with_unmerged_records_cannot_be_opened_nor_replaced(ground: Ground) -> None:
    state = with_revision_0(ground, blob(1, RECORD, FLUSHED))
    with pytest.raises(ArtifactError, match="north/3"):
        opened(ground)
    with pytest.raises(ArtifactError, match="AMB-04"):
        ground.run(mem_wal.enable(IO, state, EMPTY))


@pytest.mark.clause("AMB-04", "AMB-135")
def test_an_index_of_revision_0_that_is_all_merged_is_read_not_rewritten_and_dropped_by_enabling_anew(
    ground: Ground,
) -> None:
    state = with_revision_0(ground, blob(1, RECORD, MERGED))
    before = opened(ground)
    assert before.scan().num_rows == 0
    with pytest.raises(InvalidArgument, match="AMB-135"):
        before.register_region()
    assert entry_of(newest(ground)).index_details.value == blob(1, RECORD, MERGED)
    memwal.enable("t", revision="B", store=ground)
    assert [index.uuid.uuid != entry_of(state).uuid.uuid for index in newest(ground).manifest.indices] == [True]
    after = opened(ground)
    flushed(after, after.register_region(), 1)
    assert keys(after.scan()) == [1]


# --- what the details decide -----------------------------------------------------------------------------------------


@pytest.mark.clause("INDEX-002", "INDEX-009", "INDEX-010", "INDEX-012")
def test_one_message_in_the_table_manifest_holds_configuration_progress_catch_up_and_snapshot(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 1))
    region = made.register_region({"b": 0})
    flushed(made, region, 1, 2)
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    made.merge()
    made.snapshot()
    stored = entry_of(newest(ground)).index_details
    assert stored.type_url == "/lance.table.MemWalIndexDetails"
    details = index_details.decode(stored.value, R, "")
    assert [[f.field_id for f in spec.fields] for spec in details.specs] == [["b"]]
    assert details.maintained_indexes == ("vec",)
    assert details.merged == ((region, 2),)
    assert details.catchup == (IndexCatchup(index_name="vec", generations=((region, Generation(0)),)),)
    assert details.num_regions == 1
    assert details.inline_snapshots is not None
    assert details.inline_snapshots.endswith(b"LANC")
    (found,) = snapshot_file.decode(details.inline_snapshots, details, made.revision, "")
    assert (found.region_id, found.values) == (region, (("b", 0),))


@pytest.mark.clause("INDEX-003")
def test_the_specs_and_maintained_indexes_of_a_table_are_those_of_the_details(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 4))
    flushed(made, made.register_region({"b": 2}), *[k for k in range(20) if bucket_of(made, k) == 2][:1])
    made.snapshot()
    identity = RegionField(field_id="i", source_ids=(FieldId(0),), transform="identity", result_type="int64")
    spec = RegionSpec(spec_id=SpecId(9), fields=(identity,))
    changed(ground, lambda d: replace(d, specs=(spec,), maintained_indexes=("x",)))
    after = opened(ground)
    assert after.spec == spec
    assert after.region_values(row(77)).to_pydict() == {"i": [77]}
    assert newest(ground).mem_wal.maintained_indexes == ("x",)


@pytest.mark.clause("INDEX-004", "AMB-79", "AMB-80")
def test_merge_progress_is_what_the_details_say_whatever_manifest_and_snapshot_list(ground: Ground) -> None:
    made = table(ground)
    region = made.register_region()
    flushed(made, region, 1, 2)
    made.snapshot()
    assert made.regions()[0].merged == 0
    changed(ground, lambda d: replace(d, merged=((region, Generation(1)),)))
    assert keys(made.scan()) == keys(made.scan(consistency="eventual")) == [2]
    assert made.merge().merged == ((region, 2),)
    assert keys(made.scan()) == [2]


@pytest.mark.clause("INDEX-005", "AMB-78")
def test_catch_up_is_what_the_details_record(ground: Ground) -> None:
    made = table(ground)
    region = made.register_region()
    flushed(made, region, 1)
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    made.merge()
    recorded = newest(ground)
    assert "vec" in collector.kept_because(Generation(1), region, [recorded], STRICT)
    covered = (IndexCatchup(index_name="vec", generations=((region, Generation(1)),)),)
    assert (
        collector.kept_because(Generation(1), region, [changed(ground, lambda d: replace(d, catchup=covered))], STRICT)
        == ""
    )


@pytest.mark.clause("INDEX-006", "INDEX-022", "AMB-79")
def test_where_snapshot_and_manifest_differ_the_manifest_decides(ground: Ground) -> None:
    made = table(ground)
    region = made.register_region()
    flushed(made, region, 1)
    made.snapshot()
    (known,) = registered(ground).values()
    assert known.manifest is not None
    listed = FlushedGeneration(generation=Generation(7), path="00000000_gen_7")
    wrong = replace(known.manifest, version=ManifestVersion(40), epoch=Epoch(50), flushed=(listed,))
    lie = replace(known, manifest=replace(wrong, generation_current=Generation(8)))
    state = newest(ground)
    changed(ground, lambda d: replace(d, inline_snapshots=snapshot_file.encode([lie], d, state.revision)))
    assert keys(made.scan()) == [1]
    info = made.regions()[0].manifest
    assert info is not None
    assert (info.epoch, [g.generation for g in info.flushed]) == (1, [1])
    with made.writer(region, background=False) as writer:
        assert writer.epoch == 2


@pytest.mark.clause("INDEX-007", "SNAP-026", "AMB-74")
def test_an_eventual_read_learns_all_regions_from_the_index_and_opens_no_region_manifest(ground: Ground) -> None:
    made = table(ground)
    for key in range(3):
        flushed(made, made.register_region(), key)
    made.snapshot()
    before = len(ground.asked)
    assert sorted(keys(made.scan(consistency="eventual"))) == [0, 1, 2]
    asked = [r for r in ground.asked[before:] if isinstance(r, Get | Head) and "/manifest/" in r.path]
    assert asked == []


@pytest.mark.clause("INDEX-017")
@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_the_key_index_is_not_listed_among_the_maintained_ones(ground: Ground, revision: str) -> None:
    made = table(ground, revision)
    assert newest(ground).mem_wal.maintained_indexes == ()
    region = made.register_region()
    flushed(made, region, 5)
    assert newest(ground).mem_wal.maintained_indexes == ()
    assert keys(made.get(pa.table({"id": pa.array([5, 6])}))) == [5]
    assert any("_pk_index/" in name for name in ground.objects) == (revision == "R")


# --- who owns what ---------------------------------------------------------------------------------------------------


@pytest.mark.clause("INDEX-020", "AMB-69")
def test_merge_progress_changes_only_in_the_commits_that_carry_merged_rows(ground: Ground) -> None:
    made = table(ground, spec=memwal.bucket("b", "id", 1))
    region = made.register_region({"b": 0})
    flushed(made, region, 1, 2)
    made.merge()
    made.snapshot()
    made.base.append(row(50))
    flushed(made, region, 3)
    changed(ground, lambda d: replace(d, maintained_indexes=("vec",)))
    made.merge()
    made.add_spec(memwal.bucket("c", "id", 2))
    steps = list(zip(history(ground), history(ground)[1:], strict=False))
    merges = []
    for before, after in steps:
        transaction = ground.run(transaction_of(IO, after))
        assert transaction is not None
        progress = before.mem_wal.merged if before.mem_wal_entry is not None else ()
        if after.mem_wal.merged != progress:
            assert transaction.WhichOneof("operation") == "update"
            assert len(transaction.update.new_fragments) == len(transaction.update.merged_generations) == 1
            merges.append(after.mem_wal.progress(region))
        else:
            assert not transaction.update.merged_generations
    assert merges == [1, 2, 3]


def catch_up(details: IndexDetails) -> IndexDetails:
    return replace(details, catchup=(IndexCatchup(index_name="vec", generations=()), *details.catchup))


def configure(details: IndexDetails) -> IndexDetails:
    return replace(details, maintained_indexes=(*details.maintained_indexes, "vec"))


class Scene:
    """A table with one region of spec 1, generation 1 merged and generation 2 not, and what others do to its index."""

    def __init__(self) -> None:
        ground = Ground()
        made = table(ground, spec=memwal.bucket("b", "id", 2))
        self.region = made.register_region({"b": 1})
        odd = [key for key in range(40) if bucket_of(made, key) == 1]
        flushed(made, self.region, odd[0])
        made.merge()
        made.snapshot()
        flushed(made, self.region, odd[1])
        self.objects = ground.objects

    def others(self) -> dict[str, Callable[[], Protocol[Any]]]:
        return {
            "merge": lambda: merge_region(IO, self.region),
            "catch-up": lambda: changing(catch_up),
            "configuration": lambda: changing(configure),
            "registration": lambda: regions.register(IO, {"b": 0}),
            "another builder": lambda: regions.build_snapshot(IO),
        }

    def check(self, ground: Ground, done: tuple[str, ...]) -> None:
        details = newest(ground).mem_wal
        rows = ground.run(snapshot.load(IO, newest(ground)))
        assert details.progress(self.region) == (2 if "merge" in done else 1)
        assert [c.index_name for c in details.catchup].count("vec") >= ("catch-up" in done)
        assert ("vec" in details.maintained_indexes) == ("configuration" in done)
        assert sorted(dict(r.values)["b"] for r in rows) == ([0, 1] if "registration" in done else [1])
        built = next(r.manifest for r in rows if r.region_id == self.region)
        assert built is not None
        assert [g.generation for g in built.flushed] == [1, 2]
        progress = [v.mem_wal.progress(self.region) for v in history(ground) if v.mem_wal_entry is not None]
        assert progress == sorted(progress)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


OTHERS = ("merge", "catch-up", "configuration", "registration", "another builder")


@pytest.mark.clause("INDEX-020", "INDEX-021", "SNAP-017", "SNAP-023", "SNAP-024", "AMB-69")
@pytest.mark.parametrize("other", OTHERS)
def test_builder_and_another_process_both_keep_what_they_wrote_in_every_order_of_commits(
    scene: Scene, other: str
) -> None:
    played = 0
    for each in orders(scene.objects, [lambda: regions.build_snapshot(IO), scene.others()[other]]):
        assert not any(isinstance(result, Exception) for result in each.results), each.order
        scene.check(each.ground, (other,))
        played += 1
    assert played >= 4


@pytest.mark.clause("INDEX-021", "SNAP-023", "AMB-52", "AMB-69")
def test_builder_merger_and_registrar_undo_nothing_of_each_other_in_any_order(scene: Scene) -> None:
    three = [lambda: regions.build_snapshot(IO), scene.others()["merge"], scene.others()["registration"]]
    for each in orders(scene.objects, three, switches_most=2):
        assert not any(isinstance(result, Exception) for result in each.results), each.order
        scene.check(each.ground, ("merge", "registration"))


@pytest.mark.clause("AMB-69")
@pytest.mark.parametrize(("profile", "progress"), [(STRICT, 2), (LITERAL, 1)], ids=["strict", "literal"])
def test_a_builder_that_commits_what_it_loaded_first_undoes_a_merge(
    scene: Scene, profile: Interpretation, progress: int
) -> None:
    ground = Ground(scene.objects)
    builder = Actor(ground, regions.build_snapshot(read_as(IO, profile)))
    while builder.waiting is not None and not (
        "_versions" in builder.waiting.path and type(builder.waiting).__name__ == "PutIfAbsent"
    ):
        builder.step()
    ground.run(merge_region(IO, scene.region))
    builder.finish()
    assert newest(ground).mem_wal.progress(scene.region) == progress


# --- beside the native implementation --------------------------------------------------------------------------------


@pytest.mark.clause("AMB-05", "AMB-75")
def test_a_native_index_that_counts_its_buckets_is_no_missing_snapshot(tmp_path: Path) -> None:
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    native = lance.write_dataset(row(1).cast(pa.schema([key, pa.field("v", pa.string())])), str(tmp_path / "t"))
    native.initialize_mem_wal(bucket_column="id", num_buckets=4)
    made = memwal.open(tmp_path / "t")
    assert made.regions() == ()
    region = made.register_region({"bucket": 3})
    assert made.register_region({"bucket": 3}) == region
    details = Folder(tmp_path).run(latest_details())
    assert details.num_regions == 4
    assert lance.dataset(str(tmp_path / "t")).mem_wal_index_details()["num_shards"] == 4
    assert made.snapshot() == 1


async def latest_details() -> IndexDetails:
    from memwal.table.state import latest

    return (await latest(IO)).mem_wal


def test_region_ids_of_a_registration_are_version_4(ground: Ground) -> None:
    made = table(ground)
    region = RegionId(made.register_region())
    assert (region[14], region[19] in "89ab") == ("4", True)
