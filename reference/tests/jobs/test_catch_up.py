"""Base table indexes catch up with merged generations, and pylance answers from them; on tables that pylance wrote."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import memwal
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from memwal.cli.main import app
from memwal.codec import index_details, table_manifest
from memwal.codec.index_details import IndexCatchup, IndexDetails
from memwal.codec.pb.lance import table_pb2
from memwal.effects import Io
from memwal.ids import Generation, Milliseconds, RegionId
from memwal.jobs import extension, index_builder
from memwal.revisions import LITERAL, STRICT, R
from memwal.table import coverage
from memwal.table.mirror import Mirror, fill
from memwal.table.state import TableState
from typer.testing import CliRunner

from ..kit.catch_up_scenes import CREATE, DIMENSION, SCHEMA, enabled, fragments_of, native, recorded, rows, vector
from ..kit.tables import flush

KINDS = list(CREATE)
REVISIONS = ["A", "B", "R"]


def indexed_only(place: Path, kind: str, key: int) -> list[int]:
    """Keys that pylance finds for the row of ``key`` from the index alone: rows without cover are not looked at."""
    scanner = lance.dataset(str(place)).scanner
    if kind == "btree":
        found = scanner(columns=["id"], filter=f"id = {key}", fast_search=True)
    elif kind == "bitmap":
        found = scanner(columns=["id"], filter=f"cat = 'new' AND id = {key}", fast_search=True)
    elif kind == "inverted":
        found = scanner(columns=["id"], full_text_query=f"word{key}", fast_search=True)
    else:
        near = {"column": "vector", "q": np.array(vector(key), np.float32), "k": 1, "nprobes": 2, "refine_factor": 50}
        found = scanner(columns=["id"], nearest=near, fast_search=True)
    return found.to_table().column("id").to_pylist()


def explained(place: Path, kind: str, key: int) -> str:
    scanner = lance.dataset(str(place)).scanner
    if kind == "inverted":
        return str(scanner(full_text_query=f"word{key}").explain_plan())
    if kind.startswith("IVF"):
        near = {"column": "vector", "q": np.array(vector(key), np.float32), "k": 1}
        return str(scanner(nearest=near).explain_plan())
    return str(scanner(filter=f"id = {key}" if kind == "btree" else "cat = 'new'").explain_plan())


@pytest.mark.clause("CATCHUP-001", "CATCHUP-005", "CATCHUP-006", "CATCHUP-007", "CATCHUP-008", "AMB-72")
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_each_kind_catches_up_and_pylance_finds_merged_rows_by_it(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "t"
    table = enabled(place, [kind])
    region = flush(table, rows(290, 310, "new"), rows(310, 330, "new"))
    table.merge()
    before = table.refresh()._state
    assert fragments_of(before, kind) == {0}
    assert recorded(before, kind, region) == 0
    assert indexed_only(place, kind, 325) != [325]
    (done,) = table.catch_up(kind).indexes
    after = table._state
    assert done.fragments == (1, 2)
    assert done.credited == ((region, 2),)
    assert fragments_of(after, kind) == {0, 1, 2}
    assert recorded(after, kind, region) == 2
    assert after.version == before.version + 1
    assert all(e.dataset_version <= before.version for e in after.manifest.indices if e.name == kind)
    assert indexed_only(place, kind, 325) == [325]
    assert indexed_only(place, kind, 295) == [295]
    expected = {"btree": "ScalarIndexQuery", "bitmap": "ScalarIndexQuery", "inverted": "MatchQuery"}.get(kind, "ANN")
    assert expected in explained(place, kind, 325)
    assert table.catch_up(kind).committed == ()
    assert table.version == after.version


@pytest.mark.clause("CATCHUP-001", "CATCHUP-008")
@pytest.mark.parametrize("revision", REVISIONS)
def test_catch_up_gives_pylance_the_rows_of_a_scan_in_every_revision(tmp_path: Path, revision: str) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"], revision)
    region = flush(table, rows(250, 310, "new"), rows(280, 330, "newer"))
    table.merge()
    assert [done.index_name for done in table.catch_up().committed] == ["bitmap", "btree"]
    assert [recorded(table._state, name, region) for name in ("bitmap", "btree")] == [2, 2]
    opened = lance.dataset(str(place))
    for condition in ("id = 300", "id >= 240 AND id < 290", "cat = 'new'", "cat = 'newer' AND id > 300", "id = 999"):
        by_index = opened.scanner(filter=condition, columns=["id", "cat"]).to_table()
        by_scan = opened.scanner(filter=condition, columns=["id", "cat"], use_scalar_index=False).to_table()
        assert sorted(map(str, by_index.to_pylist())) == sorted(map(str, by_scan.to_pylist()))
    assert opened.count_rows("cat = 'newer'") == 50
    assert opened.count_rows("cat = 'new'") == 30


@pytest.mark.parametrize(
    ("column", "kind"), [("tags", "LABEL_LIST"), ("text", "NGRAM"), ("id", "ZONEMAP"), ("text", "BLOOMFILTER")]
)
def test_other_kinds_that_pylance_can_extend_catch_up_too(tmp_path: Path, column: str, kind: str) -> None:
    schema = pa.schema([SCHEMA.field("id"), ("text", pa.string()), ("tags", pa.list_(pa.string()))])

    def some(first: int, end: int) -> pa.Table:
        ids = list(range(first, end))
        return pa.table([ids, [f"text {i}" for i in ids], [[f"tag{i}"] for i in ids]], schema=schema)

    place = tmp_path / "t"
    lance.write_dataset(some(0, 50), str(place)).create_scalar_index(column, kind, name="i")
    table = memwal.enable(place, revision="R")
    region = flush(table, some(40, 60))
    table.merge()
    table.catch_up()
    assert fragments_of(table._state, "i") == {0, 1}
    assert recorded(table._state, "i", region) == 1
    condition = {"tags": "array_has_any(tags, ['tag55'])", "text": "contains(text, '55')", "id": "id = 55"}[column]
    assert lance.dataset(str(place)).to_table(filter=condition).column("id").to_pylist() == [55]


def centroids(place: Path, name: str) -> list[object]:
    return [part["centroids"] for part in lance.dataset(str(place)).stats.index_stats(name)["indices"]]


def many(first: int, end: int) -> pa.Table:
    """Rows whose vectors are spread, so that pylance would rather have more partitions than two."""
    ids = np.arange(first, end)
    flat = np.random.default_rng(first).standard_normal((end - first) * DIMENSION).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), DIMENSION)
    empty = pa.array([""] * len(ids))
    return pa.table([ids, empty, empty, vectors], schema=SCHEMA)


@pytest.mark.clause("AMB-51")
def test_catch_up_keeps_centroids_where_pylance_would_train_new_ones(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["IVF_FLAT"])
    flush(table, rows(300, 301))
    table.merge()
    table.base.append(many(1000, 60_000))
    trained = centroids(place, "IVF_FLAT")[0]
    first = [e.uuid.uuid for e in table.refresh()._state.manifest.indices if e.name == "IVF_FLAT"]
    table.catch_up()
    assert centroids(place, "IVF_FLAT") == [trained, trained]
    kept = [e.uuid.uuid for e in table._state.manifest.indices if e.name == "IVF_FLAT"]
    assert kept[:1] == first
    table.base.append(many(60_000, 120_000))
    lance.dataset(str(place)).optimize.optimize_indices(index_names=["IVF_FLAT"])
    assert any(found != trained for found in centroids(place, "IVF_FLAT"))


def codebooks(place: Path, name: str) -> list[bytes]:
    """The codebook buffer of each part of a product quantised index, as pylance's file reader gives it."""
    (found,) = (i for i in lance.dataset(str(place)).describe_indices() if i.name == name)
    files = [str(place / "_indices" / part.uuid / "auxiliary.idx") for part in found.segments]
    return [LanceFileReader(file).read_global_buffer(2) for file in files]


@pytest.mark.clause("AMB-51")
def test_parts_of_a_vector_index_are_merged_behind_the_first_which_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension, "VECTOR_SEGMENTS", 3)
    place = tmp_path / "t"
    table = enabled(place, ["IVF_PQ"])
    (codebook,) = codebooks(place, "IVF_PQ")
    region, parts, firsts = None, [], set()
    for step in range(4):
        region = flush(table, rows(300 + 10 * step, 310 + 10 * step, "new"), region=region)
        table.merge()
        table.catch_up()
        entries = [e for e in table._state.manifest.indices if e.name == "IVF_PQ"]
        parts.append(len(entries))
        firsts.add(entries[0].uuid.uuid)
        assert codebooks(place, "IVF_PQ") == [codebook] * len(entries)
    assert parts == [2, 3, 2, 3]
    assert len(firsts) == 1
    assert fragments_of(table._state, "IVF_PQ") == {0, 1, 2, 3, 4}
    assert [indexed_only(place, "IVF_PQ", key) for key in (305, 315, 325, 335)] == [[305], [315], [325], [335]]


@pytest.mark.clause("AMB-51")
def test_an_index_that_came_out_trained_anew_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["IVF_FLAT"])
    table.base.append(many(1000, 60_000))
    version = table.version
    monkeypatch.setattr(extension, "_merged_segments", lambda before: None)
    monkeypatch.setattr(index_builder, "fill", everything)
    with pytest.raises(memwal.EngineBug, match="trained anew"):
        table.catch_up()
    assert table.refresh().version == version


async def everything(io: Io, state: TableState, mirror: Mirror, **wanted: Any) -> None:
    """As `fill`, with the data of every fragment: what training needs."""
    await fill(io, state, mirror, fragments=coverage.fragment_ids(state), indices=wanted["indices"])


@pytest.mark.clause("TXN-018")
def test_a_table_whose_manifests_have_the_older_names_catches_up(tmp_path: Path) -> None:
    place = tmp_path / "t"
    lance.write_dataset(rows(0, 300), str(place), enable_v2_manifest_paths=False)
    CREATE["btree"](lance.dataset(str(place)))
    table = memwal.enable(place, revision="R", maintained_indexes=["btree"])
    flush(table, rows(300, 310))
    table.merge()
    table.catch_up()
    assert all(len(path.stem) < 20 for path in (place / "_versions").glob("*.manifest"))
    assert indexed_only(place, "btree", 305) == [305]


def test_an_index_created_on_an_empty_table_is_trained_by_its_first_catch_up(tmp_path: Path) -> None:
    place = tmp_path / "t"
    native(place, ["btree"], SCHEMA.empty_table())
    lance.dataset(str(place)).create_index("vector", "IVF_SQ", name="IVF_SQ", num_partitions=2, train=False)
    table = memwal.enable(place, revision="R", maintained_indexes=["btree", "IVF_SQ"])
    flush(table, rows(0, 300, "new"))
    table.merge()
    assert [done.fragments for done in table.catch_up().committed] == [(0,), (0,)]
    assert indexed_only(place, "IVF_SQ", 123) == [123]
    assert indexed_only(place, "btree", 123) == [123]


@pytest.mark.clause("AMB-69")
def test_an_index_that_nobody_maintains_catches_up_and_other_entries_stay(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"], maintained=["bitmap"])
    region = flush(table, rows(300, 310))
    table.merge()
    before = table._state.mem_wal
    table.catch_up("btree")
    after = table._state.mem_wal
    assert fragments_of(table._state, "btree") == {0, 1}
    assert fragments_of(table._state, "bitmap") == {0}
    assert recorded(table._state, "bitmap", region) == 0
    others = {name for name in IndexDetails.__dataclass_fields__ if name != "catchup"}
    assert {n: getattr(after, n) for n in others} == {n: getattr(before, n) for n in others}


@pytest.mark.clause("FORMAT-005")
def test_rows_appended_directly_are_indexed_without_touching_the_mem_wal_index(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    table.base.append(rows(300, 320))
    before = table._state.mem_wal_entry
    (done,) = table.catch_up().committed
    assert (done.fragments, done.credited) == ((1,), ())
    assert table._state.mem_wal_entry == before
    named = {str(uuid.UUID(bytes=i.uuid.uuid)) for i in table._state.manifest.indices if i.name == "btree"}
    assert named <= {path.parent.name for path in (place / "_indices").glob("*/page_data.lance")}
    assert indexed_only(place, "btree", 310) == [310]


def test_an_index_that_covers_the_base_already_is_only_credited(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    region = flush(table, rows(100, 101))
    table.merge()
    lance.dataset(str(place)).optimize.optimize_indices(index_names=["btree"], num_indices_to_merge=1)
    table.refresh()
    assert recorded(table._state, "btree", region) == 1
    assert table.catch_up().committed == ()
    removed = lance.dataset(str(place))
    removed.drop_index("btree")
    CREATE["btree"](lance.dataset(str(place)))
    table.refresh()
    entries = {e.uuid.uuid for e in table._state.manifest.indices if e.name == "btree"}
    assert recorded(table._state, "btree", region) == 1
    assert table.catch_up().committed == ()
    assert {e.uuid.uuid for e in table._state.manifest.indices if e.name == "btree"} == entries


@pytest.mark.clause("CATCHUP-013", "GC-011", "AMB-73")
def test_a_merged_generation_stays_until_every_maintained_index_covers_it(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"])
    region = flush(table, rows(300, 310), rows(310, 320))
    table.merge()

    def listed() -> list[int]:
        manifest = table.regions()[0].manifest
        return [] if manifest is None else [g.generation for g in manifest.flushed]

    table.gc(retain_versions=1)
    assert listed() == [1, 2]
    table.catch_up("btree")
    kept = [d for d in table.gc(retain_versions=1).decisions if d.kind == "generation"]
    assert [(d.collected, "'bitmap'" in d.reason) for d in kept] == [(False, True), (False, True)]
    assert listed() == [1, 2]
    flush(table, rows(320, 330), region=region)
    table.catch_up("bitmap")
    table.merge()
    table.gc(retain_versions=1)
    assert listed() == [3]


@pytest.mark.clause("TXN-011")
def test_pylance_commits_over_a_catch_up_that_it_did_not_see(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"])
    region = flush(table, rows(300, 310))
    table.merge()
    appending, optimising, merging = (lance.dataset(str(place)) for _ in range(3))
    table.catch_up("btree")
    appending.insert(rows(400, 410))
    optimising.optimize.optimize_indices(index_names=["bitmap"], num_indices_to_merge=1)
    upsert = merging.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.mark_sstables_as_compacted([lance.mem_wal.CompactedSsTable(region, 2)])
    upsert.execute(rows(305, 306, "later"))
    state = table.refresh()._state
    assert state.mem_wal.progress(RegionId(region)) == 2
    assert [recorded(state, name, region) for name in ("btree", "bitmap")] == [1, 1]
    assert sum(e.name == "__lance_mem_wal" for e in state.manifest.indices) == 1
    found = lance.dataset(str(place)).to_table(filter="id = 305 OR id = 405", columns=["id", "cat"]).to_pylist()
    assert sorted(map(str, found)) == ["{'id': 305, 'cat': 'later'}", "{'id': 405, 'cat': 'base'}"]


def test_values_that_pylance_rewrote_in_place_are_indexed_anew(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["bitmap"])
    changed = pa.table({"id": pa.array([5, 6], pa.int64()), "cat": ["changed", "changed"]})
    update = lance.dataset(str(place)).merge_insert("id").when_matched_update_all()
    update.write_mode("rewrite_columns").execute(changed)
    table.refresh()
    assert fragments_of(table._state, "bitmap") == set()
    assert table.catch_up().indexes[0].fragments == (0,)
    opened = lance.dataset(str(place))
    assert sorted(opened.to_table(filter="cat = 'changed'").column("id").to_pylist()) == [5, 6]
    assert opened.count_rows("cat = 'base'") == 298
    assert "ScalarIndexQuery" in opened.scanner(filter="cat = 'changed'").explain_plan()


def compacted(table: memwal.Table, place: Path) -> None:
    """Let pylance compact indexed fragments, and leave the index as it is."""
    table.base.append(rows(300, 310))
    table.catch_up()
    lance.dataset(str(place)).optimize.compact_files(defer_index_remap=True)


def test_fragments_that_pylance_compacted_without_remapping_the_index_are_indexed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    compacted(table, place)
    flush(table, rows(305, 320, "new"))
    table.merge()
    table.catch_up()
    assert not coverage.uncovered(table._state, "btree")
    opened = lance.dataset(str(place))
    for key in (7, 303, 307, 315, 400):
        by_scan = opened.scanner(filter=f"id = {key}", use_scalar_index=False).to_table()
        assert opened.to_table(filter=f"id = {key}").equals(by_scan)
    assert indexed_only(place, "btree", 315) == [315]


@pytest.mark.clause("CATCHUP-006", "AMB-78", "TXN-054")
@pytest.mark.parametrize("deferred", [False, True], ids=["remapped", "to be remapped"])
def test_of_fragments_that_pylance_compacted_in_part_the_index_covers_what_it_covered(
    tmp_path: Path, deferred: bool
) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    table.base.append(rows(300, 310))
    table.catch_up()
    region = flush(table, rows(305, 315, "new"))
    table.merge()
    table.base.append(rows(400, 410))
    assert [sorted(each(table._state, "btree")) for each in (coverage.covered, coverage.uncovered)] == [[0, 1], [2, 3]]
    lance.dataset(str(place)).optimize.compact_files(defer_index_remap=deferred)
    state = table.refresh()._state
    (old, new) = sorted(fragment.id for fragment in state.fragments)
    assert coverage.covered(state, "btree") == {old}
    assert coverage.uncovered(state, "btree") == {new}
    nothing = coverage.Credit(planner=Generation(0), collector=Generation(0))
    assert coverage.credited(state, "btree", RegionId(region), interpretation=STRICT) == nothing
    assert table.catch_up().indexes[0].fragments == (new,)
    assert coverage.covered(table._state, "btree") == {old, new}
    assert recorded(table._state, "btree", region) == 1
    opened = lance.dataset(str(place))
    for key in (7, 303, 307, 312, 405):
        by_scan = opened.scanner(filter=f"id = {key}", use_scalar_index=False).to_table()
        assert opened.to_table(filter=f"id = {key}").equals(by_scan)
        assert by_scan.num_rows == 1


@pytest.mark.parametrize("name", ["nothing", "__lance_mem_wal", "__lance_frag_reuse"])
def test_what_is_no_index_over_a_column_is_refused(tmp_path: Path, name: str) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    if name == "__lance_frag_reuse":
        compacted(table, place)
        assert name in [entry.name for entry in table.refresh()._state.manifest.indices]
    version = table.refresh().version
    with pytest.raises(memwal.InvalidArgument, match=r"no index|bookkeeping"):
        table.catch_up(name)
    assert table.refresh().version == version


def test_a_maintained_index_that_the_base_lacks_is_named(tmp_path: Path) -> None:
    table = enabled(tmp_path / "t", ["btree", "bitmap"])
    lance.dataset(str(tmp_path / "t")).drop_index("bitmap")
    with pytest.raises(memwal.InvalidArgument, match=r"\['bitmap'\] are not on the base table.*AMB-48"):
        table.catch_up()
    assert table.catch_up("btree").indexes[0].index_name == "btree"


@pytest.mark.parametrize("damage", ["gone", "cut", "a file gone"])
def test_damaged_index_files_are_an_error_and_commit_nothing(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree"])
    table.base.append(rows(300, 310))
    version = table.version
    for path in (place / "_indices").rglob("*.lance"):
        if damage == "gone" or (damage == "a file gone" and path.name == "page_lookup.lance"):
            path.unlink()
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(memwal.ArtifactError, match="btree"):
        table.catch_up()
    assert table.refresh().version == version


def test_a_table_opened_at_a_version_does_not_catch_up(tmp_path: Path) -> None:
    table = enabled(tmp_path / "t", ["btree"])
    old = memwal.open(tmp_path / "t", version=table.version)
    with pytest.raises(memwal.InvalidArgument, match="read-only"):
        old.catch_up()


@pytest.mark.clause("CATCHUP-002", "AMB-71", "AMB-72", "AMB-78")
def test_what_an_index_is_credited_with(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"], maintained=[])
    region = RegionId(flush(table, rows(300, 310), rows(310, 320)))
    covering = table.refresh()._state
    assert covering.mem_wal.catchup == ()
    table.merge()
    lagging = table._state
    other = RegionId("00000000-0000-4000-8000-000000000000")

    def credit(state: TableState, name: str = "btree", **more: Any) -> tuple[int, int]:
        found = coverage.credited(state, name, region, **{"interpretation": STRICT, **more})
        return found.planner, found.collector

    assert credit(lagging) == (0, 0)
    assert credit(lagging, interpretation=LITERAL) == (2, 2)
    left = with_catchup(lagging, (IndexCatchup(index_name="dropped", generations=((region, 2),)),))
    assert credit(left, "dropped") == (0, 0)
    lance.dataset(str(place)).optimize.optimize_indices(index_names=["btree"], num_indices_to_merge=1)
    credited = table.refresh()._state
    assert credit(credited) == (2, 2)
    assert credit(credited, "bitmap") == (0, 0)
    without = with_catchup(credited, ())
    assert credit(without) == (2, 0)
    assert credit(without, interpretation=LITERAL) == (2, 2)
    assert credit(with_catchup(credited, (IndexCatchup(index_name="btree", generations=((other, 1),)),))) == (0, 0)
    assert credit(with_catchup(credited, (IndexCatchup(index_name="btree", generations=((region, 7),)),))) == (2, 2)
    overstated = with_catchup(lagging, (IndexCatchup(index_name="btree", generations=((region, 2),)),))
    assert credit(overstated) == (2, 2)
    origins = {1: frozenset([(region, 1)]), 2: frozenset([(region, 2)])}
    assert credit(overstated, origins=origins) == (0, 0)
    assert credit(overstated, origins={2: frozenset([(region, 2)])}) == (1, 1)
    assert credit(overstated, origins={2: frozenset([(other, 1)])}) == (2, 2)


def with_catchup(state: TableState, catchup: tuple[IndexCatchup, ...]) -> TableState:
    """``state`` with other catch-up entries, through its bytes."""
    indices = []
    for entry in state.manifest.indices:
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(entry)
        if entry.name == "__lance_mem_wal":
            copy.index_details.value = index_details.encode(replace(state.mem_wal, catchup=catchup), R)
        indices.append(copy)
    data = table_manifest.encode(replace(state.manifest, indices=tuple(indices)))
    return TableState(table_manifest.decode(data, state.path), state.path)


@pytest.mark.clause("AMB-69", "AMB-70")
def test_a_recorded_value_never_decreases_and_nothing_else_changes() -> None:
    one, two = RegionId("00000000-0000-4000-8000-000000000001"), RegionId("00000000-0000-4000-8000-000000000002")
    mine = IndexCatchup(index_name="i", generations=((one, Generation(5)),), unknown=b"\x98\x06\x01")
    yours = IndexCatchup(index_name="j", generations=((one, Generation(1)),))
    details = IndexDetails(
        snapshot_ts_ms=Milliseconds(1),
        num_regions=0,
        inline_snapshots=None,
        merged=((one, Generation(9)),),
        catchup=(yours, mine),
    )
    lower = coverage.with_credit(details, "i", ((one, Generation(4)),))
    assert lower is details
    both = coverage.with_credit(details, "i", ((one, Generation(6)), (two, Generation(3))))
    assert both.catchup[0] is yours
    assert dict(both.catchup[1].generations) == {one: 6, two: 3}
    assert both.catchup[1].unknown == b"\x98\x06\x01"
    assert both.merged == details.merged
    new = coverage.with_credit(details, "k", ((two, Generation(3)),))
    assert new.catchup == (yours, mine, IndexCatchup(index_name="k", generations=((two, Generation(3)),)))


def test_the_command_line_catches_up_and_says_so(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = enabled(place, ["btree", "bitmap"])
    region = flush(table, rows(300, 310))
    table.merge()
    one = CliRunner().invoke(app, ["catch-up", str(place), "--index", "btree"])
    assert one.exit_code == 0
    assert f"btree: 1 fragment added at version {table.version}; caught up: {region} to generation 1" in one.output
    assert "1 of 1 index had to catch up" in one.output
    both = CliRunner().invoke(app, ["catch-up", str(place), "--json"])
    found = {done["index"]: done for done in json.loads(both.output)["indexes"]}
    assert found["btree"]["committed"] is False
    assert found["bitmap"]["fragments"] == [1]
    assert found["bitmap"]["caught_up"] == [{"region_id": region, "generation": 1}]
    refused = CliRunner().invoke(app, ["catch-up", str(place), "--index", "nothing"])
    assert (refused.exit_code, "no index 'nothing'" in refused.output) == (2, True)
