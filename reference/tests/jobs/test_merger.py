"""One merger: what reaches the base table, what stops a merge, and what it leaves behind."""

from __future__ import annotations

import io
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.cli.main import app
from memwal.cli.merge import Display
from memwal.codec import table_manifest
from memwal.drive import drive
from memwal.effects import Get, Io, List
from memwal.errors import ArtifactError, Conflict, InvalidArgument, Unmergeable
from memwal.ids import RegionId, TableVersion
from memwal.jobs import merger
from memwal.jobs.merger import merge_region
from memwal.read import generation as generation_source
from memwal.revisions import STRICT
from memwal.stores.local import LocalStore
from memwal.table import door, origins, schema, write
from memwal.table.state import TableState, latest
from rich.console import Console
from typer.testing import CliRunner

from ..kit.ground import Ground

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("value", pa.int32())])
REVISIONS = ["A", "B", "R"]
IO = Io("t", interpretation=STRICT)


def rows(*triples: tuple[int, str | None, int | None]) -> pa.Table:
    return pa.table([list(column) for column in zip(*triples, strict=True)], schema=SCHEMA)


def flushed(table: memwal.Table, *generations: pa.Table | list[pa.Table], region: str | None = None) -> RegionId:
    """Write and flush one generation for each, to a new region if None; a list is one generation of several puts."""
    with table.writer(region or table.register_region()) as writer:
        for generation in generations:
            for batch in generation if isinstance(generation, list) else [generation]:
                writer.put(batch)
            writer.flush()
        return writer.region_id


def objects(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def native(folder: Path, name: str = "t") -> Any:
    return lance.dataset(str(folder / name))


def values(folder: Path) -> list[tuple[object, ...]]:
    """Rows that pylance reads, sorted by key."""
    return sorted(tuple(row.values()) for row in native(folder).to_table().to_pylist())


@pytest.fixture
def table(tmp_path: Path, revision: str) -> memwal.Table:
    return memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)


@pytest.mark.clause("MERGE-002", "MERGE-020", "AMB-46")
def test_the_base_receives_the_last_row_of_each_key_of_a_generation(table: memwal.Table, tmp_path: Path) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    flushed(table, [rows((1, "a", 1), (3, "a", 1), (1, "b", 2)), rows((3, "c", 3), (4, "c", 3)), rows((4, "d", 4))])
    report = table.merge()
    assert (report.rows, report.deleted) == (3, 0)
    assert values(tmp_path) == [(1, "b", 2), (2, "base", 0), (3, "c", 3), (4, "d", 4)]


@pytest.mark.clause("READ-005", "MERGE-002", "AMB-46")
@pytest.mark.parametrize("revision", ["A", "B"])
def test_of_a_generation_of_an_older_native_writer_the_first_row_of_a_key_is_the_newest(
    table: memwal.Table, tmp_path: Path
) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    flushed(table, [rows((1, "b", 2), (3, "c", 1), (1, "a", 1))])
    (path,) = (tmp_path / "t" / "_mem_wal").rglob("*_gen_1/_versions/*.manifest")
    stored = table_manifest.decode(path.read_bytes(), "m")
    stored.message.writer_version.library, stored.message.writer_version.version = "lance", "7.0.0"
    stored.message.config.clear()
    path.write_bytes(table_manifest.encode(stored))
    expected = [(1, "b", 2), (2, "base", 0), (3, "c", 1)]
    assert sorted(map(tuple, (each.values() for each in table.scan().to_pylist()))) == expected
    table.merge()
    assert values(tmp_path) == expected


def test_a_merge_goes_up_to_the_generation_that_it_is_asked_for_and_not_back(
    table: memwal.Table, tmp_path: Path
) -> None:
    region = flushed(table, rows((1, "a", 1)), rows((1, "b", 2)), rows((1, "c", 3)))
    assert table.merge(region, until=2).merged == ((region, 1), (region, 2))
    assert values(tmp_path) == [(1, "b", 2)]
    assert table.merge(region, until=1).merged == ()
    assert values(tmp_path) == [(1, "b", 2)]
    assert table.merge(region, until=9).merged == ((region, 3),)
    for wrong in ({"until": 1}, {"region": region, "until": 0}):
        with pytest.raises(InvalidArgument, match="the number of a generation, at least 1"):
            table.merge(**wrong)


@pytest.mark.clause("MERGE-001", "MERGE-004", "MERGE-005", "MERGE-019", "AMB-80")
def test_newer_generations_override_older_ones_and_one_without_progress_begins_at_the_first(
    table: memwal.Table, tmp_path: Path
) -> None:
    table.base.append(rows((7, "base", 0)))
    region = flushed(
        table, rows((1, "one", 1), (2, "one", 1)), rows((2, "two", 2), (3, "two", 2)), rows((3, "three", 3))
    )
    assert table.regions()[0].merged == 0
    assert table.merge().merged == ((region, 1), (region, 2), (region, 3))
    assert values(tmp_path) == [(1, "one", 1), (2, "two", 2), (3, "three", 3), (7, "base", 0)]


@pytest.mark.clause("MERGE-005", "GEN-007")
def test_generations_with_more_digits_are_merged_after_those_with_fewer(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    region = flushed(table, *(rows((1, f"gen{number}", number)) for number in range(1, 12)))
    assert table.merge().merged == tuple((region, number) for number in range(1, 12))
    assert values(tmp_path) == [(1, "gen11", 11)]


@pytest.mark.clause("MERGE-006", "AMB-85")
def test_rows_and_progress_are_one_update_transaction_per_generation(table: memwal.Table, tmp_path: Path) -> None:
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    before = table.version
    region = flushed(table, rows((1, "one", 1), (5, "one", 1)), rows((1, "two", 2)))
    start = memwal.open(tmp_path / "t").version
    assert start >= before
    table.merge()
    assert table.version == start + 2
    ground = Ground(objects(tmp_path))
    for version, generation, changed, removed in ((start + 1, 1, 1, 0), (start + 2, 2, 1, 0)):
        state = ground.run(at(version))
        transaction = ground.run(transaction_of(state))
        assert transaction.WhichOneof("operation") == "update"
        update = transaction.update
        assert [(str(uuid.UUID(bytes=m.region_id.uuid)), m.generation) for m in update.merged_generations] == [
            (region, generation)
        ]
        assert (len(update.updated_fragments), len(update.removed_fragment_ids)) == (changed, removed)
        assert len(update.new_fragments) == 1
        assert state.mem_wal.progress(region) == generation
    assert values(tmp_path) == [(1, "two", 2), (2, "base", 0), (5, "one", 1)]


async def at(version: int) -> TableState:
    from memwal.ids import TableVersion
    from memwal.table.state import load

    return await load(IO, TableVersion(version))


async def transaction_of(state: TableState) -> Any:
    from memwal.table.commit import transaction_of as found

    return await found(IO, state)


@pytest.mark.clause("MERGE-003", "MERGE-004", "MERGE-021", "AMB-83")
def test_progress_is_read_from_the_index_first_and_what_it_covers_is_never_opened(
    table: memwal.Table, tmp_path: Path
) -> None:
    region = flushed(table, rows((1, "one", 1)), rows((2, "two", 2)))
    table.merge()
    flushed(table, rows((3, "three", 3)), region=region)
    listed = {g.generation: g.path for g in table.regions()[0].manifest.flushed}
    other = flushed(table, rows((4, "four", 4)))
    ground = Ground(objects(tmp_path))
    assert [m.generation for m in ground.run(merge_region(IO, region))] == [3]
    assert all(isinstance(request, Get | List) for request in ground.asked[:2])
    asked = [request.path for request in ground.asked if isinstance(request, Get | List)]
    assert asked[0] == "t/_versions"
    assert asked[1].startswith("t/_versions/")
    first = next(path for path in asked if "/manifest" in path)
    assert asked.index(first) > 1
    assert [g for g, folder in listed.items() if any(f"/{folder}/" in path for path in asked)] == [3]
    assert [m.generation for m in ground.run(merge_region(IO, other))] == [1]


@pytest.mark.clause("MERGE-008", "GC-001")
def test_a_generation_and_its_wal_become_collectable_by_being_merged(tmp_path: Path, revision: str) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision, wal_collection=True)
    flushed(table, rows((1, "one", 1)))

    def collectable() -> set[str]:
        decisions = table.gc(retain_versions=1, dry_run=True).collected
        return {decision.kind for decision in decisions} & {"generation", "wal"}

    assert collectable() == set()
    table.merge()
    assert collectable() == {"generation", "wal"}


@pytest.mark.clause("MERGE-001", "AMB-81", "AMB-92")
def test_a_generation_that_is_gone_stops_the_merge_and_the_next_one_is_not_merged(
    table: memwal.Table, tmp_path: Path
) -> None:
    region = flushed(table, rows((1, "one", 1)), rows((2, "two", 2)))
    (first, _) = (g.path for g in table.regions()[0].manifest.flushed)
    held = objects(tmp_path)
    ground = Ground({name: data for name, data in held.items() if f"/{first}/" not in name})
    with pytest.raises(ArtifactError) as caught:
        ground.run(merge_region(IO, region))
    assert caught.value.clause == "AMB-92"
    assert first in caught.value.path
    assert ground.run(latest(IO)).mem_wal.progress(region) == 0


@pytest.mark.clause("MERGE-001", "AMB-81")
def test_a_generation_that_is_neither_listed_nor_merged_stops_the_merge(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="B")
    region = flushed(table, rows((1, "one", 1)), rows((2, "two", 2)))
    unlist(tmp_path, region, 1)
    before = objects(tmp_path)
    with pytest.raises(ArtifactError, match=r"generation 1 is neither merged nor listed.*MERGE-001"):
        table.merge()
    assert objects(tmp_path) == before


def unlist(folder: Path, region: RegionId, generation: int) -> None:
    """Remove a generation from the newest region manifest, as if its entry had been lost."""
    from dataclasses import replace

    from memwal.codec import region_manifest
    from memwal.revisions import REVISIONS

    newest = max((folder / "t" / "_mem_wal" / region / "manifest").glob("*.binpb"), key=lambda p: p.name[::-1])
    for path in (folder / "t" / "_mem_wal" / region / "manifest").glob("*.binpb"):
        held = region_manifest.decode(path.read_bytes(), REVISIONS["B"], path.name)
        if held.version >= region_manifest.decode(newest.read_bytes(), REVISIONS["B"], "n").version:
            newest = path
    held = region_manifest.decode(newest.read_bytes(), REVISIONS["B"], newest.name)
    kept = tuple(g for g in held.flushed if g.generation != generation)
    newest.write_bytes(region_manifest.encode(replace(held, flushed=kept), REVISIONS["B"]))


@pytest.mark.clause("AMB-92", "MERGE-006")
def test_a_source_cut_at_any_of_its_files_is_refused_and_nothing_of_it_is_committed(
    table: memwal.Table, tmp_path: Path, revision: str
) -> None:
    table.base.append(rows((1, "base", 0)))
    region = flushed(table, [rows((1, "one", 1), (1, "one", 2)), rows((2, "one", 1))])
    (listed,) = table.regions()[0].manifest.flushed
    held = objects(tmp_path)
    kinds = ("/_versions/", "/data/", "/_deletions/", "/wal/")
    source = [n for n in held if (f"/{listed.path}/" in n or "/wal/" in n) and any(kind in n for kind in kinds)]
    if revision != "A":
        source = [name for name in source if "/wal/" not in name]
    expected = {"A": {"/_versions/", "/wal/"}, "B": {"/_versions/", "/data/"}}
    found = {kind for kind in kinds for name in source if kind in name}
    assert found == expected.get(revision, {"/_versions/", "/data/", "/_deletions/"})
    for name in source:
        for damaged in (None, b"", held[name][:-1], held[name][: len(held[name]) // 2]):
            ground = Ground(held)
            ground.objects.pop(name)
            if damaged is not None:
                ground.objects[name] = damaged
            before = dict(ground.objects)
            if name.endswith(".lance") and "/wal/" in name and damaged is None and barrier(held[name]):
                continue
            with pytest.raises(ArtifactError):
                ground.run(merge_region(IO, region))
            assert ground.objects == before


def barrier(data: bytes) -> bool:
    from memwal.codec import data_file

    return data_file.decode(data, "w").num_rows == 0


@pytest.mark.clause("AMB-92")
def test_files_of_a_merge_that_failed_half_way_are_deleted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation_source, "HELD_BYTES", 0)
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="B")
    table.base.append(rows((1, "base", 0)))
    table.base.append(rows((2, "base", 0), (3, "base", 0)))
    region = flushed(table, rows((1, "one", 1), (2, "one", 1)))
    held = objects(tmp_path)
    generation = next(n for n in held if "_gen_1/data/" in n)
    ground = Ground(held)
    reads = 0

    def fault(request: Any) -> None:
        nonlocal reads
        if isinstance(request, Get) and request.path == generation:
            reads += 1
            if reads == 2:  # the keys were read, the rows are not
                ground.objects[generation] = b""

    ground.before = fault
    with pytest.raises(ArtifactError):
        ground.run(merge_region(IO, region))
    written = [request.path for request in ground.asked if type(request).__name__ == "PutIfAbsent"]
    assert any("_deletions" in path for path in written)
    assert {n for n in ground.objects if n != generation} == {n for n in held if n != generation}


# What a generation and an evolved base have to do with one another (AMB-50).


def evolved(tmp_path: Path, revision: str, *generations: pa.Table) -> tuple[memwal.Table, Any]:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    flushed(table, *generations)
    return table, native(tmp_path)


@pytest.mark.clause("AMB-50")
def test_a_column_that_was_added_reads_as_null_in_rows_of_an_older_generation(tmp_path: Path, revision: str) -> None:
    table, dataset = evolved(tmp_path, revision, rows((1, "one", 1), (3, "one", 1)))
    dataset.add_columns(pa.field("later", pa.int64()))
    assert table.merge().rows == 2
    assert values(tmp_path) == [(1, "one", 1, None), (2, "base", 0, None), (3, "one", 1, None)]


@pytest.mark.clause("AMB-50")
def test_a_merge_that_would_wipe_values_of_an_added_column_is_refused_until_it_would_not(
    tmp_path: Path, revision: str
) -> None:
    table, dataset = evolved(tmp_path, revision, rows((1, "one", 1), (3, "one", 1)))
    dataset.add_columns(pa.field("later", pa.int64()))
    native(tmp_path).update({"later": "7"}, "id = 1")
    before = objects(tmp_path)
    with pytest.raises(Unmergeable, match=r"'later'.*values in 1 row.*AMB-50") as caught:
        table.merge()
    assert caught.value.clause == "AMB-50"
    assert "_gen_1" in caught.value.path
    assert objects(tmp_path) == before
    native(tmp_path).update({"later": "NULL"}, "id = 1")
    native(tmp_path).update({"later": "8"}, "id = 2")
    assert table.merge().rows == 2
    assert values(tmp_path) == [(1, "one", 1, None), (2, "base", 0, 8), (3, "one", 1, None)]


@pytest.mark.clause("AMB-50")
def test_deleted_rows_of_the_base_have_no_values_that_a_merge_could_wipe(tmp_path: Path) -> None:
    table, dataset = evolved(tmp_path, "B", rows((1, "one", 1)))
    dataset.add_columns(pa.field("later", pa.int64()))
    native(tmp_path).update({"later": "7"}, "id = 1")
    native(tmp_path).delete("id = 1")
    table.merge()
    assert values(tmp_path) == [(1, "one", 1, None), (2, "base", 0, None)]


@pytest.mark.clause("AMB-50")
def test_a_column_that_was_dropped_is_left_out(tmp_path: Path, revision: str) -> None:
    table, dataset = evolved(tmp_path, revision, rows((1, "one", 1), (3, "one", 1)))
    dataset.drop_columns(["name"])
    table.merge()
    assert values(tmp_path) == [(1, 1), (2, 0), (3, 1)]


@pytest.mark.clause("AMB-50")
def test_a_column_that_was_dropped_and_added_again_does_not_bring_old_values_back(
    tmp_path: Path, revision: str
) -> None:
    table, dataset = evolved(tmp_path, revision, rows((1, "one", 1), (3, "one", 1)))
    dataset.drop_columns(["name"])
    native(tmp_path).add_columns(pa.field("name", pa.string()))
    table.merge()
    assert values(tmp_path) == [(1, 1, None), (2, 0, None), (3, 1, None)]


@pytest.mark.clause("AMB-50")
def test_a_renamed_column_keeps_its_values(tmp_path: Path, revision: str) -> None:
    table, dataset = evolved(tmp_path, revision, rows((1, "one", 1), (3, "one", 1)))
    dataset.alter_columns({"path": "name", "name": "title"})
    table.merge()
    assert native(tmp_path).schema.names == ["id", "title", "value"]
    assert values(tmp_path) == [(1, "one", 1), (2, "base", 0), (3, "one", 1)]


@pytest.mark.clause("AMB-50")
def test_generations_carry_the_field_ids_of_a_base_whose_ids_have_gaps(tmp_path: Path, revision: str) -> None:
    shape = pa.schema(
        [SCHEMA.field("id").with_metadata(KEY), ("gone", pa.int8()), ("s", pa.struct([("x", pa.int8())]))]
    )
    lance.write_dataset(shape.empty_table(), str(tmp_path / "t"))
    native(tmp_path).drop_columns(["gone"])
    native(tmp_path).add_columns(pa.field("value", pa.int32()))
    table = memwal.enable(tmp_path / "t", revision=revision)
    assert {f.name(): f.id() for f in native(tmp_path).lance_schema.fields()} == {"id": 0, "s": 2, "value": 4}
    region = flushed(table, pa.table([[1], [{"x": 5}], [9]], schema=table.schema))
    (listed,) = table.regions()[0].manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / region / listed.path
    stored = {f.name(): f.id() for f in lance.dataset(str(folder)).lance_schema.fields()}
    assert {name: stored[name] for name in ("id", "s", "value")} == {"id": 0, "s": 2, "value": 4}
    assert lance.dataset(str(folder)).to_table().select(["id", "s", "value"]).to_pylist() == [
        {"id": 1, "s": {"x": 5}, "value": 9}
    ]
    native(tmp_path).alter_columns({"path": "value", "name": "count"})
    table.merge()
    assert native(tmp_path).to_table().to_pylist() == [{"id": 1, "s": {"x": 5}, "count": 9}]


@pytest.mark.clause("AMB-50")
def test_ids_that_fit_stay_and_others_are_numbered_above_all_given_ones() -> None:
    fields = schema.to_fields(pa.schema([("a", pa.int8()), ("s", pa.struct([("x", pa.int8())])), ("t", pa.int8())]))
    assert [f.id for f in schema.numbered(fields, {"a": 0, "s": 1})] == [0, 1, 2, 3]
    found = schema.numbered(fields, {"a": 7, "s": 3})
    assert [(f.name, f.id, f.parent_id) for f in found] == [("a", 7, -1), ("s", 3, -1), ("x", 8, 3), ("t", 9, -1)]
    assert [f.id for f in fields] == [0, 1, 2, 3]


@pytest.mark.clause("AMB-50")
def test_a_foreign_generation_without_ids_is_mapped_by_name_and_one_with_marked_columns_by_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, dataset = evolved(tmp_path, "B", rows((3, "one", 1), (4, "one", 1)))
    (listed,) = table.regions()[0].manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / table.regions()[0].region_id / listed.path
    plain = lance.dataset(str(folder)).to_table().select(["value", "id", "name"])
    dataset.alter_columns({"path": "name", "name": "title"})
    native(tmp_path).drop_columns(["value"])
    native(tmp_path).add_columns(pa.field("name", pa.string()))
    foreign(folder, plain)
    assert memwal.open(tmp_path / "t").merge().rows == 2
    assert values(tmp_path) == [(1, "base", None), (2, "base", None), (3, None, "one"), (4, None, "one")]
    marks = {"id": b"0", "name": b"1"}
    fields = [f.with_metadata({b"lance:field_id": marks[f.name]}) if f.name in marks else f for f in plain.schema]
    flushed(table, rows_of(table, 5), region=table.regions()[0].region_id)
    second = folder.parent / table.regions()[0].manifest.flushed[-1].path
    shutil.rmtree(second)
    stored = plain.cast(pa.schema(fields))
    monkeypatch.setattr(door, "OWN_METADATA", b"")  # another writer marks columns as it likes
    drive(write.create(Io(second.name, interpretation=STRICT), stored.schema, stored), LocalStore(second.parent))
    native(tmp_path).delete("id > 2")
    memwal.open(tmp_path / "t").merge()
    expected = [(3, "one", None), (4, "one", None)]
    assert values(tmp_path) == [(1, "base", None), (2, "base", None), *expected]


def written_by_native(folder: Path, stored: pa.Table, version: bytes, *, rows_per_fragment: int = 1 << 20) -> None:
    """Put a table in place of a generation, as a version of the native writer that begins so would have left it."""
    plain = pa.schema([(f.name, f.type) for f in stored.schema])
    foreign(folder, stored.replace_schema_metadata(None).cast(plain), rows_per_fragment=rows_per_fragment)
    (manifest,) = (folder / "_versions").glob("*.manifest")
    data, here = manifest.read_bytes(), lance.__version__.encode()
    assert here in data
    manifest.write_bytes(data.replace(here, version.ljust(len(here), b"0")))


@pytest.mark.clause("AMB-50")
@pytest.mark.parametrize(("version", "expected"), [(b"12.", ("c5", "d5")), (b"13.", ("d5", None))])
def test_a_native_generation_is_mapped_by_id_from_the_version_on_that_gives_it_the_ids_of_the_base(
    tmp_path: Path, version: bytes, expected: tuple[str, str | None]
) -> None:
    shape = pa.schema(
        [SCHEMA.field("id").with_metadata(KEY), ("b", pa.string()), ("c", pa.string()), ("d", pa.string())]
    )
    lance.write_dataset(shape.empty_table(), str(tmp_path / "t"))
    native(tmp_path).drop_columns(["b"])
    table = memwal.enable(tmp_path / "t", revision="R")
    region = flushed(table, pa.table([[5], ["c5"], ["d5"]], schema=table.schema))
    (listed,) = table.regions()[0].manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / region / listed.path
    written_by_native(folder, lance.dataset(str(folder)).to_table(), version)
    assert table.scan().to_pylist() == [{"id": 5, "c": expected[0], "d": expected[1]}]
    assert table.get(pa.table({"id": [5]})).to_pylist() == [{"id": 5, "c": expected[0], "d": expected[1]}]
    table.merge()
    assert values(tmp_path) == [(5, *expected)]


@pytest.mark.clause("READ-005", "AMB-46")
@pytest.mark.parametrize("rows_per_fragment", [3, 2], ids=["one fragment", "two fragments"])
@pytest.mark.parametrize(("version", "seen"), [(b"7.0.", "first"), (b"7.1.", "last")])
def test_native_generations_of_the_first_version_have_their_newest_row_first(
    tmp_path: Path, version: bytes, seen: str, rows_per_fragment: int
) -> None:
    table, _ = evolved(tmp_path, "R", rows((3, "first", 1), (4, "only", 1)))
    region = table.regions()[0]
    (listed,) = region.manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / region.region_id / listed.path
    held = lance.dataset(str(folder)).to_table()
    last = held.slice(0, 1).set_column(1, "name", pa.array(["last"]))
    stacked = pa.concat_tables([held, last]).combine_chunks()
    written_by_native(folder, stacked, version, rows_per_fragment=rows_per_fragment)
    expected = [(1, "base", 0), (2, "base", 0), (3, seen, 1), (4, "only", 1)]
    assert sorted(tuple(row.values()) for row in table.scan().to_pylist()) == expected
    assert table.get(pa.table({"id": [3]})).column("name").to_pylist() == [seen]
    batches = pa.concat_tables(table.batches())
    assert sorted(tuple(row.values()) for row in batches.to_pylist()) == expected
    table.merge()
    assert values(tmp_path) == expected


def foreign(folder: Path, stored: pa.Table, *, rows_per_fragment: int = 1 << 20) -> None:
    """Put a table that nobody of ours wrote in place of a generation."""
    shutil.rmtree(folder)
    lance.write_dataset(stored, str(folder), data_storage_version="2.1", max_rows_per_file=rows_per_fragment)


def rows_of(table: memwal.Table, key: int) -> pa.Table:
    fresh = table.refresh().schema
    return pa.table([[key], *[pa.nulls(1, f.type) for f in list(fresh)[1:]]], schema=fresh)


@pytest.mark.clause("AMB-50")
def test_a_column_of_another_type_a_lost_key_and_a_forbidden_null_are_refused(tmp_path: Path) -> None:
    table, _ = evolved(tmp_path, "B", rows((1, "one", 1), (3, None, 1)))
    (listed,) = table.regions()[0].manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / table.regions()[0].region_id / listed.path
    plain = lance.dataset(str(folder)).to_table()
    wrong = {
        r"'value' is int64 in the generation and int32 in the base.*AMB-50": plain.set_column(
            2, "value", plain["value"].cast(pa.int64())
        ),
        r"key columns \['id'\] are not in the generation.*AMB-50": plain.drop_columns(["id"]),
        r"'_tombstone' may mark deletes.*AMB-89": plain.append_column("_tombstone", pa.array([False, True])),
        r"key column 'id' has NULLs.*AMB-136": plain.set_column(0, "id", pa.array([1, None], pa.int64())),
    }
    for pattern, stored in wrong.items():
        foreign(folder, stored)
        before = objects(tmp_path)
        with pytest.raises(Unmergeable, match=pattern):
            memwal.open(tmp_path / "t").merge()
        assert objects(tmp_path) == before
    assert values(tmp_path) == [(1, "base", 0), (2, "base", 0)]


@pytest.mark.clause("AMB-50")
def test_a_null_for_a_column_without_nulls_is_refused(tmp_path: Path) -> None:
    strict = pa.schema([SCHEMA.field("id"), pa.field("name", pa.string(), nullable=False)])
    table = memwal.create(tmp_path / "t", strict, primary_key=["id"], revision="B")
    flushed(table, pa.table([[1, 2], ["a", "b"]], schema=strict))
    (listed,) = table.regions()[0].manifest.flushed
    folder = tmp_path / "t" / "_mem_wal" / table.regions()[0].region_id / listed.path
    for stored in (pa.table({"id": [1, 2], "name": ["a", None]}), pa.table({"id": [1, 2]})):
        foreign(folder, stored)
        before = objects(tmp_path)
        with pytest.raises(Unmergeable, match=r"'name'.*and the base has none.*AMB-50"):
            table.merge()
        assert objects(tmp_path) == before


# Deletes, and tables of the native writer (revision R).


@pytest.mark.clause("AMB-89")
def test_tombstones_delete_and_their_column_never_reaches_the_base(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="R")
    table.base.append(rows((1, "base", 0), (2, "base", 0), (3, "base", 0)))
    with table.writer() as writer:
        writer.put(rows((3, "new", 1), (4, "new", 1), (5, "new", 1)))
        writer.delete(pa.table({"id": [1, 4, 9]}))
        writer.put(rows((9, "again", 1)))
        writer.flush()
    report = table.merge()
    assert (report.rows, report.deleted) == (3, 2)
    assert native(tmp_path).schema.names == ["id", "name", "value"]
    assert values(tmp_path) == [(2, "base", 0), (3, "new", 1), (5, "new", 1), (9, "again", 1)]


@pytest.mark.clause("AMB-89")
def test_a_generation_of_deletes_only_writes_no_data_file(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="R")
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    with table.writer() as writer:
        writer.delete(pa.table({"id": [2, 7]}))
        writer.flush()
    before = set(objects(tmp_path))
    report = table.merge()
    assert (report.rows, report.deleted) == (0, 2)
    assert not [name for name in set(objects(tmp_path)) - before if name.startswith("t/data/")]
    assert values(tmp_path) == [(1, "base", 0)]
    assert table.regions()[0].merged == 1


def shard(folder: Path, *generations: list[pa.Table]) -> str:
    """One generation per list, by the native writer."""
    region = str(uuid.uuid4())
    for generation in generations:
        with native(folder).mem_wal_writer(region, durable_write=True) as writer:
            for batch in generation:
                writer.put(batch)
    return region


@pytest.mark.clause("MERGE-002", "MERGE-006")
def test_generations_of_the_native_writer_are_merged_and_pylance_reads_the_result(tmp_path: Path) -> None:
    keyed = pa.schema([SCHEMA.field("id").with_metadata(KEY), *list(SCHEMA)[1:]])
    lance.write_dataset(rows((1, "base", 0), (2, "base", 0)).cast(keyed), str(tmp_path / "t"))
    native(tmp_path).initialize_mem_wal(unsharded=True)
    first, second = rows((1, "one", 1), (1, "later", 1)), rows((2, "two", 2), (3, "two", 2))
    region = shard(tmp_path, [first.cast(keyed)], [second.cast(keyed)])
    table = memwal.open(tmp_path / "t")
    assert table.merge().merged == ((region, 1), (region, 2))
    assert values(tmp_path) == [(1, "later", 1), (2, "two", 2), (3, "two", 2)]
    native(tmp_path).optimize.compact_files()
    assert values(tmp_path) == [(1, "later", 1), (2, "two", 2), (3, "two", 2)]
    assert memwal.open(tmp_path / "t").regions()[0].merged == 2
    assert memwal.open(tmp_path / "t").merge().merged == ()


@pytest.mark.clause("MERGE-006")
def test_a_native_table_without_a_key_is_merged_by_appending_with_progress(tmp_path: Path) -> None:
    lance.write_dataset(rows((1, "base", 0)), str(tmp_path / "t"))
    native(tmp_path).initialize_mem_wal(unsharded=True)
    region = shard(tmp_path, [rows((1, "one", 1), (1, "two", 2))], [rows((1, "three", 3))])
    table = memwal.open(tmp_path / "t")
    report = table.merge()
    assert (report.merged, report.rows) == (((region, 1), (region, 2)), 3)
    assert values(tmp_path) == [(1, "base", 0), (1, "one", 1), (1, "three", 3), (1, "two", 2)]
    assert table.merge().merged == ()


@pytest.mark.clause("MERGE-018", "AMB-71")
def test_the_first_merge_of_a_region_records_that_maintained_indexes_lack_it(tmp_path: Path) -> None:
    keyed = pa.schema([SCHEMA.field("id").with_metadata(KEY), *list(SCHEMA)[1:]])
    lance.write_dataset(rows((1, "base", 0)).cast(keyed), str(tmp_path / "t"))
    native(tmp_path).create_scalar_index("id", "BTREE", name="by_id")
    table = memwal.enable(tmp_path / "t", revision="B", maintained_indexes=["by_id"])
    region = flushed(table, rows((1, "one", 1)), rows((2, "two", 2)))
    table.merge()
    details = Ground(objects(tmp_path)).run(latest(IO)).mem_wal
    assert [(c.index_name, c.generations) for c in details.catchup] == [("by_id", ((region, 0),))]
    assert details.merged == ((region, 2),)


@pytest.mark.clause("AMB-113")
def test_the_fragments_of_each_merge_are_known_as_long_as_its_version_is_retained(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="B")
    table.base.append(rows((1, "base", 0), (2, "base", 0)))
    first = flushed(table, rows((1, "one", 1)), rows((5, "two", 2)))
    table.merge()
    table.base.append(rows((8, "direct", 0)))
    second = flushed(table, rows((6, "other", 1)))
    table.merge()

    def known() -> dict[str, dict[int, set[int]]]:
        ground = Ground(objects(tmp_path))
        found = ground.run(merged_fragments())
        return {str(region): {int(g): set(map(int, ids)) for g, ids in of.items()} for region, of in found.items()}

    assert {f.fragment_id for f in native(tmp_path).get_fragments()} == {0, 1, 2, 3, 4}
    assert known() == {first: {1: {1}, 2: {2}}, second: {1: {4}}}
    flushed(table, rows((5, "gone", 3)), region=first)
    table.merge()
    assert known() == {first: {1: {1}, 3: {5}}, second: {1: {4}}}
    table.gc(retain_versions=1)
    assert known() == {first: {3: {5}}}


async def merged_fragments() -> Any:
    return await origins.merged_fragments(IO, await latest(IO))


def test_the_command_reports_what_it_merged(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision="R")
    with table.writer() as writer:
        writer.put(rows((1, "one", 1), (2, "one", 1)))
        writer.delete(pa.table({"id": [2]}))
        writer.flush()
        region = writer.region_id
    shown = CliRunner().invoke(app, ["merge", str(tmp_path / "t"), "--json"])
    assert json.loads(shown.stdout) == {
        "merged": [{"region_id": region, "generation": 1}],
        "rows": 1,
        "deleted": 1,
        "commits": 1,
        "compacted": 0,
    }
    again = CliRunner().invoke(app, ["merge", str(tmp_path / "t"), "--region", region])
    assert again.stdout == "nothing to merge\n"


def test_the_command_shows_a_bar_for_each_stage_to_a_person_and_nothing_to_a_file(tmp_path: Path) -> None:
    shown = {}
    for terminal in (True, False):
        table = memwal.create(tmp_path / str(terminal) / "t", SCHEMA, primary_key=["id"], revision="B")
        table.base.append(rows((1, "base", 0)))
        flushed(table, rows((1, "one", 1), (2, "one", 1)))
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with Display(console) as display:
            memwal.open(tmp_path / str(terminal) / "t", listener=display).merge()
        shown[terminal] = str(console.file.getvalue())  # type: ignore[attr-defined]
    for words in ("reading keys", "matching rows", "writing rows", "merged"):
        assert words in shown[True]
    assert shown[False].strip() == ""


@pytest.mark.parametrize("wrong", ["nothing", "7C9E6679-7425-40DE-944B-E07FC1F90AE7", ""])
def test_a_region_that_is_no_uuid_is_refused(tmp_path: Path, wrong: str) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    with pytest.raises(InvalidArgument, match="AMB-36"):
        table.merge(wrong)


def test_merging_a_region_that_nobody_claimed_does_nothing(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    assert table.merge(str(uuid.uuid4())).merged == ()


@pytest.mark.clause("MERGE-012")
@pytest.mark.parametrize(("retryable", "tries"), [(True, 3), (False, 1)])
def test_a_merge_that_loses_is_tried_again_if_that_can_help_and_not_without_end(
    retryable: bool, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    async def loses(*_: object) -> bool:
        tried.append(1)
        raise Conflict(TableVersion(2), "update", "overwrite", retryable=retryable)

    monkeypatch.setattr(merger, "_step", loses)
    monkeypatch.setattr(merger, "CONFLICT_ATTEMPTS", 3)
    with pytest.raises(Conflict):
        Ground().run(merge_region(IO, RegionId(str(uuid.UUID(int=1)))))
    assert len(tried) == tries
