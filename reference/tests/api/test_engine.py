"""The engine through its public interface, under every revision: write, flush, merge, read, collect."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import lance
import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal import revisions
from memwal.codec import bloom
from memwal.errors import ArtifactError

from ..kit.plan_scene import unmeasured
from ..kit.profiles import under
from ..kit.tables import flush

REVISIONS = ["A", "B", "R"]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.int32())])


def rows(*triples: tuple[int, str | None, int | None]) -> pa.Table:
    plain = pa.schema([pa.field("id", pa.int64(), nullable=False), SCHEMA.field("name"), SCHEMA.field("value")])
    return pa.table([list(column) for column in zip(*triples, strict=True)], schema=plain)


def values(table: pa.Table) -> set[tuple[object, ...]]:
    found = [tuple(row.values()) for row in table.select(["id", "name", "value"]).to_pylist()]
    assert len(found) == len(set(found))
    return set(found)


@pytest.fixture
def table(tmp_path: Path, revision: str) -> memwal.Table:
    return memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)


def base(table: memwal.Table, tmp_path: Path) -> set[tuple[object, ...]]:
    return values(lance.dataset(str(tmp_path / "t")).to_table())


@pytest.mark.clause("READ-001", "READ-002", "READ-003", "READ-004", "READ-005", "READ-006", "READ-015", "READ-016")
def test_the_newest_row_wins_over_base_generations_and_memory(table: memwal.Table, tmp_path: Path) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0), (3, "base", 0), (4, "base", 0)))
    with table.writer(background=False) as writer:
        writer.put(rows((1, "gen1", 1), (2, "gen1", 1), (3, "gen1", 1)))
        assert writer.flush() == 1
        writer.put(rows((2, "early", 2), (3, "gen2", 2), (2, "gen2", 2)))
        assert writer.flush() == 2
        writer.put(rows((3, "early", 3), (3, "memory", 3)))
        writer.put(rows((5, "buffered", 3)), durable=False)
        expected = {(1, "gen1", 1), (2, "gen2", 2), (3, "memory", 3), (4, "base", 0)}
        assert values(table.scan()) == expected
        assert values(table.scan(writers=[writer])) == expected | {(5, "buffered", 3)}
    assert base(table, tmp_path) == {(i, "base", 0) for i in (1, 2, 3, 4)}


@pytest.mark.clause("MERGE-001", "MERGE-002", "MERGE-006", "MERGE-019", "MERGE-020", "READ-007", "FORMAT-002")
def test_merging_moves_generations_into_the_base_in_order(table: memwal.Table, tmp_path: Path) -> None:
    table.base.append(rows((1, "base", 0), (9, "base", 0)))
    flush(table, rows((1, "x", 1), (1, "y", 2)), rows((1, "z", 3), (2, "new", 3)))
    report = table.merge()
    assert [generation for _, generation in report.merged] == [1, 2]
    expected = {(1, "z", 3), (2, "new", 3), (9, "base", 0)}
    assert base(table, tmp_path) == expected
    assert values(table.scan()) == expected
    assert table.regions()[0].merged == 2
    assert table.merge().merged == ()


@pytest.mark.clause("READ-007", "READ-011", "READ-015")
@pytest.mark.parametrize("profile", ["strict", "literal"])
def test_a_merged_generation_that_is_still_listed_gives_no_row_twice(table: memwal.Table, profile: str) -> None:
    flush(table, rows((1, "x", 1), (2, "x", 1)))
    table.merge()
    (region,) = table.regions()
    assert region.manifest is not None
    assert [listed.generation for listed in region.manifest.flushed] == [1]
    found = under(table, profile).scan()
    assert sorted(found.column("id").to_pylist()) == [1, 2]


@pytest.mark.clause("WAL-001", "FENCE-016", "WAL-019", "WAL-022")
def test_durable_writes_survive_a_writer_that_is_never_closed(table: memwal.Table) -> None:
    lost = table.writer(background=False)
    lost.put(rows((1, "durable", 1)))
    lost.put(rows((2, "durable", 2), (1, "newer", 2)))
    lost.put(rows((3, "buffered", 3)), durable=False)
    with table.writer(lost.region_id) as successor:
        assert successor.epoch == lost.epoch + 1
        successor.put(rows((4, "after", 4)))
        assert values(table.scan()) == {(1, "newer", 2), (2, "durable", 2), (4, "after", 4)}
        assert successor.flush() == 1
    assert values(table.scan()) == {(1, "newer", 2), (2, "durable", 2), (4, "after", 4)}


@pytest.mark.clause("FENCE-011", "FENCE-012", "FENCE-017", "FENCE-019")
def test_a_fenced_writer_cannot_put_or_flush_and_stays_stopped(table: memwal.Table) -> None:
    first = table.writer()
    first.put(rows((1, "first", 1)))
    second = table.writer(first.region_id)
    with pytest.raises(memwal.Fenced):
        first.put(rows((2, "late", 2)))
    with pytest.raises(memwal.WriterStopped):
        first.put(rows((3, "later", 3)))
    third = table.writer(first.region_id)
    with pytest.raises(memwal.Fenced):
        second.flush()
    third.put(rows((4, "third", 4)))
    assert values(table.scan()) == {(1, "first", 1), (4, "third", 4)}


@pytest.mark.clause("GEN-001", "GEN-002", "GEN-003", "GEN-004", "GEN-010", "GEN-014", "GEN-011", "GEN-012")
def test_a_generation_is_a_table_that_pylance_opens(table: memwal.Table, tmp_path: Path, revision: str) -> None:
    with table.writer() as writer:
        writer.put(rows((2, "a", 1), (1, "b", 2)))
        writer.put(rows((2, "c", 3)))
        writer.flush()
        region = writer.region_id
    (listed,) = table.regions()[0].manifest.flushed
    assert listed.generation == 1
    assert re.fullmatch("[0-9a-f]{8}_gen_1", listed.path)
    folder = tmp_path / "t" / "_mem_wal" / region / listed.path
    if revision != "A":
        shutil.rmtree(folder.parent / "wal")
    opened = lance.dataset(str(folder)).to_table()
    expected = [(2, "a", 1), (1, "b", 2), (2, "c", 3)] if revision != "R" else [(1, "b", 2), (2, "c", 3)]
    found = [tuple(r.values()) for r in opened.select(["id", "name", "value"]).to_pylist()]
    assert found == expected
    known = bloom.decode((folder / "bloom_filter.bin").read_bytes(), revisions.REVISIONS[revision], "bloom_filter.bin")
    assert known.might_contain(pa.table({"id": [1, 2]})).all()
    assert (folder / "data").exists() == (revision != "A")


@pytest.mark.clause("READ-009", "READ-010", "READ-013", "SNAP-016", "SNAP-021", "SNAP-024")
def test_eventual_reads_see_the_snapshot_and_catch_up_when_it_is_rebuilt(table: memwal.Table) -> None:
    with table.writer() as writer:
        writer.put(rows((1, "one", 1)))
        writer.flush()
        assert values(table.scan(consistency="eventual")) == set()
        assert table.snapshot() == 1
        writer.put(rows((1, "two", 2)))
        writer.flush()
        assert values(table.scan(consistency="eventual")) == {(1, "one", 1)}
        assert values(table.scan()) == {(1, "two", 2)}
        assert table.snapshot() == 1
        assert values(table.scan(consistency="eventual")) == {(1, "two", 2)}


@pytest.mark.clause("READ-010", "READ-012", "TXN-003")
def test_an_old_version_reads_as_it_was(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer() as writer:
        writer.put(rows((1, "one", 1)))
        writer.flush()
    table.snapshot()
    version = table.version
    with table.writer(table.regions()[0].region_id) as writer:
        writer.put(rows((1, "two", 2)))
        writer.flush()
    table.merge()
    table.snapshot()
    old = memwal.open(tmp_path / "t", version=version)
    assert values(old.scan()) == {(1, "one", 1)}
    assert values(table.scan(consistency="eventual")) == {(1, "two", 2)}


@pytest.mark.clause("READ-001", "PLAN-015")
def test_a_filter_never_brings_back_a_superseded_row(table: memwal.Table) -> None:
    table.base.append(rows((1, "old", 10), (2, "old", 10)))
    flush(table, rows((1, "new", 20)))
    assert values(table.scan(filter=pc.field("value") < 15)) == {(2, "old", 10)}
    assert values(table.scan(filter="value < 15")) == {(2, "old", 10)}
    literal = under(table, "literal").scan(filter="value < 15")
    assert values(literal) == {(1, "old", 10), (2, "old", 10)}


def test_projection_gives_the_asked_columns_in_their_order(table: memwal.Table) -> None:
    with table.writer() as writer:
        writer.put(rows((1, "a", 5)))
    assert table.scan(["value", "id"]).to_pylist() == [{"value": 5, "id": 1}]
    assert table.scan(["name"], filter="value = 5").to_pylist() == [{"name": "a"}]
    with pytest.raises(memwal.InvalidArgument, match="nothing"):
        table.scan(["nothing"])
    with pytest.raises(memwal.InvalidArgument, match="filter"):
        table.scan(filter="nothing = 3")


@pytest.mark.clause("GC-001", "GC-003", "GC-004", "GC-010", "GC-013")
def test_collection_deletes_only_what_no_retained_version_needs(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer() as writer:
        region = writer.region_id
        for value in (1, 2):
            writer.put(rows((value, "x", value)))
            writer.flush()
    first = table.merge()
    assert len(first.merged) == 2
    assert table.gc().collected == ()
    flush(table, rows((1, "y", 9)), region=region)
    planned = table.gc(retain_versions=1, dry_run=True)
    before = sorted((tmp_path / "t").rglob("*"))
    assert {d.kind for d in planned.collected} == {"version", "generation", "transaction"}
    assert sorted((tmp_path / "t").rglob("*")) == before
    done = table.gc(retain_versions=1)
    assert [(d.kind, d.name) for d in done.collected] == [(d.kind, d.name) for d in planned.collected]
    folder = tmp_path / "t" / "_mem_wal" / region
    left = [p.name for p in folder.iterdir() if "_gen_" in p.name and any(q.is_file() for q in p.rglob("*"))]
    assert left == [g.path for g in table.regions()[0].manifest.flushed]
    assert values(table.scan()) == {(1, "y", 9), (2, "x", 2)}
    table.merge()
    assert base(table, tmp_path) == {(1, "y", 9), (2, "x", 2)}


@pytest.mark.clause("GC-005", "GC-006", "GC-007", "GC-012", "FENCE-018")
@pytest.mark.parametrize("allowed", [False, True])
def test_wal_entries_go_only_with_their_generation_and_with_consent(
    tmp_path: Path, revision: str, allowed: bool
) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision, wal_collection=allowed)
    writer = table.writer()
    wal = tmp_path / "t" / "_mem_wal" / writer.region_id / "wal"
    writer.put(rows((1, "a", 1)))
    writer.flush()
    flushed = len(list(wal.iterdir()))
    writer.put(rows((2, "b", 2)))
    table.merge()
    table.gc(retain_versions=1)
    assert len(list(wal.iterdir())) == (1 if allowed else flushed + 1)
    assert values(table.scan()) == {(1, "a", 1), (2, "b", 2)}
    writer.put(rows((3, "c", 3)))
    with table.writer(writer.region_id):
        assert values(table.scan()) == {(1, "a", 1), (2, "b", 2), (3, "c", 3)}
    with pytest.raises(memwal.Fenced):
        writer.put(rows((4, "d", 4)))


@pytest.mark.clause("REGION-001", "REGION-002", "REGION-017", "REGION-007", "READ-014")
def test_rows_are_routed_by_the_spec_and_a_foreign_row_is_refused(tmp_path: Path, revision: str) -> None:
    spec = memwal.region_spec([memwal.bucket("bucket", ["id"], 4)])
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision, spec=spec)
    many = rows(*((i, "x", i) for i in range(40)))
    buckets = table.region_values(many).column("bucket")
    assert set(buckets.to_pylist()) == {0, 1, 2, 3}
    for bucket in range(4):
        with table.writer(values={"bucket": bucket}) as writer:
            writer.put(many.filter(pc.equal(buckets, bucket)))
            with pytest.raises(memwal.InvalidArgument, match="region value"):
                writer.put(many)
            writer.flush()
    assert table.register_region({"bucket": 2}) == table.register_region({"bucket": 2})
    assert len(table.regions()) == 4
    table.merge()
    assert values(table.scan()) == {(i, "x", i) for i in range(40)}
    assert base(table, tmp_path) == {(i, "x", i) for i in range(40)}


@pytest.mark.clause("AMB-89")
def test_deletes_work_in_r_and_are_refused_in_a_and_b(table: memwal.Table, tmp_path: Path, revision: str) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    keys = rows((1, None, None)).select(["id"])
    with table.writer() as writer:
        if revision != "R":
            with pytest.raises(memwal.InvalidArgument, match="no deletes"):
                writer.delete(keys)
            return
        writer.delete(keys)
        assert values(table.scan()) == {(2, "base", 0)}
        writer.put(rows((3, "x", 1)))
        writer.flush()
    assert values(table.scan()) == {(2, "base", 0), (3, "x", 1)}
    assert table.merge().deleted == 1
    assert base(table, tmp_path) == {(2, "base", 0), (3, "x", 1)}


def test_a_point_lookup_finds_the_newest_row_of_each_key(table: memwal.Table) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    with table.writer() as writer:
        writer.put(rows((2, "new", 1)))
        wanted = rows((2, None, None), (1, None, None), (7, None, None)).select(["id"])
        assert values(table.get(wanted)) == {(1, "base", 0), (2, "new", 1)}


def test_an_existing_pylance_table_gets_mem_wal(tmp_path: Path, revision: str) -> None:
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, SCHEMA.field("name"), SCHEMA.field("value")])
    lance.write_dataset(rows((1, "native", 1), (2, "native", 2)).cast(schema), str(tmp_path / "t"))
    table = memwal.enable(tmp_path / "t", revision=revision)
    assert table.primary_key == ("id",)
    flush(table, rows((2, "new", 9)))
    table.merge()
    assert base(table, tmp_path) == {(1, "native", 1), (2, "new", 9)}
    with pytest.raises(memwal.InvalidArgument, match="already enabled"):
        memwal.enable(tmp_path / "t", revision=revision)


@pytest.mark.clause("READ-012")
def test_a_listed_generation_that_is_lost_is_damage_and_no_race(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer() as writer:
        writer.put(rows((1, "one", 1)))
        writer.flush()
        region = writer.region_id
    (folder,) = (tmp_path / "t" / "_mem_wal" / region).glob("*_gen_1")
    shutil.rmtree(folder)
    with pytest.raises(ArtifactError, match="lists it, it is not merged, and it is gone") as caught:
        table.scan()
    assert caught.value.clause == "READ-012"
    assert caught.value.path.endswith(folder.name)


@pytest.mark.clause("PLAN-001", "PLAN-002", "PLAN-012", "PLAN-013")
def test_a_plan_has_the_base_once_and_each_generation_and_memtable_under_its_number(table: memwal.Table) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    with table.writer(background=False) as writer:
        writer.put(rows((1, "flushed", 1)))
        writer.flush()
        writer.put(rows((3, "memory", 2)))
        told = re.sub("region [0-9a-f]{8}", "region r", unmeasured(table.explain(writers=[writer], analyse=True)))
    assert told.splitlines() == [
        "DeduplicateExec: partition_by=[id], order_by=[_gen DESC, _rowaddr DESC]  [3 rows]",
        "  UnionExec",
        "    ScanExec: base_table[gen=-1]  [2 rows of 1 fragment]",
        "    ScanExec: region r[gen=2]  [1 row of 1 fragment]",
        "    ScanExec: region r[gen=1]  [1 row of 1 fragment]",
    ]


@pytest.mark.clause("PLAN-017", "PLAN-018", "PLAN-020", "PLAN-029", "PLAN-032")
def test_a_lookup_goes_from_the_newest_source_to_the_one_that_has_the_key_and_reads_none_below(
    table: memwal.Table,
) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    with table.writer(background=False) as writer:
        writer.put(rows((1, "flushed", 1)))
        writer.flush()
        writer.put(rows((3, "memory", 2)))
        key = pa.table({"id": pa.array([1], pa.int64())})
        told = re.sub(
            "region [0-9a-f]{8}", "region r", unmeasured(table.explain(keys=key, writers=[writer], analyse=True))
        )
        assert values(table.get(key, writers=[writer])) == {(1, "flushed", 1)}
    assert told.splitlines() == [
        "CoalesceFirstExec: return_first_non_null  [1 of 1 key]",
        "  BloomFilterGuardExec: bf[region r[gen=2]]  [negative]",
        "    TakeLastExec: region r[gen=2], filter=[id = target]  [skipped]",
        "  BloomFilterGuardExec: bf[region r[gen=1]]  [positive]",
        "    TakeLastExec: region r[gen=1], filter=[id = target]  [1 row of 1 fragment]",
        "  TakeLastExec: base_table[gen=-1], filter=[id = target]  [not read]",
    ]


@pytest.mark.clause("WAL-030", "WRITER-010", "WRITER-017", "WAL-024")
def test_a_durable_put_is_one_more_entry_and_takes_along_what_waited(table: memwal.Table, tmp_path: Path) -> None:
    def entries() -> int:
        return len(list((tmp_path / "t" / "_mem_wal").glob("*/wal/*")))

    with table.writer(background=False) as writer:
        before = entries()
        writer.put(rows((1, "x", 1)))
        assert entries() == before + 1
        writer.put(rows((2, "x", 1)), durable=False)
        writer.put(rows((3, "x", 1)), durable=False)
        assert entries() == before + 1
        writer.put(rows((4, "x", 1)))
        assert entries() == before + 2
        assert sorted(table.scan().column("id").to_pylist()) == [1, 2, 3, 4]


@pytest.mark.clause("FLUSH-026", "FLUSH-011", "GEN-003")
def test_after_each_flush_writes_go_to_the_next_generation_which_has_them_alone(
    table: memwal.Table, tmp_path: Path
) -> None:
    with table.writer(background=False) as writer:
        for number in (1, 2, 3):
            writer.put(rows((number, "x", number)))
            assert writer.flush() == number
    (region,) = table.regions()
    assert region.manifest is not None
    folders = {listed.generation: listed.path for listed in region.manifest.flushed}
    found = {
        number: lance.dataset(str(tmp_path / "t" / "_mem_wal" / region.region_id / path)).to_table().column("id")
        for number, path in folders.items()
    }
    assert {number: ids.to_pylist() for number, ids in found.items()} == {1: [1], 2: [2], 3: [3]}
