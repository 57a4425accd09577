"""What a writer leaves of its region for others: claims, layout, recovery, flushes; and what jobs make of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import memwal
import pyarrow as pa
import pytest

from ..kit.tables import by_id

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), pa.array([v] * len(ids))], schema=SCHEMA)


@pytest.fixture(params=["A", "B", "R"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> memwal.Table:
    return memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=request.param)


def region_of(tmp_path: Path, region: str) -> Path:
    return tmp_path / "t" / "_mem_wal" / region


def files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def manifests(place: Path) -> list[int]:
    """Versions of the region manifest: their names are the number in 64 binary digits, the lowest first."""
    return sorted(int(path.stem[::-1], 2) for path in (place / "manifest").glob("*.binpb"))


def manifest(place: Path, version: int) -> Path:
    return place / "manifest" / f"{version:064b}"[::-1].join(("", ".binpb"))


@pytest.mark.clause("FENCE-004", "MANIFEST-023")
def test_a_claim_follows_the_newest_manifest_whatever_the_hint_says(table: memwal.Table, tmp_path: Path) -> None:
    first = table.writer(background=False)
    place = region_of(tmp_path, first.region_id)
    first.put(rows(1))
    first.flush()
    assert manifests(place) == [1, 2]
    (place / "manifest" / "version_hint.json").write_text('{"version": 1}')
    second = table.writer(first.region_id, background=False)
    assert (second.epoch, second.generation, manifests(place)) == (2, 2, [1, 2, 3])
    os.remove(place / "manifest" / "version_hint.json")
    third = table.writer(first.region_id, background=False)
    assert (third.epoch, third.generation, manifests(place)) == (3, 2, [1, 2, 3, 4])


@pytest.mark.clause("FENCE-003")
def test_who_cannot_claim_a_region_leaves_nothing_in_it(
    table: memwal.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.writer(background=False)
    first.put(rows(1))
    place = region_of(tmp_path, first.region_id)
    manifest(place, 2).symlink_to("nowhere")  # the claim finds its name taken, however often it tries
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    before = files(place)
    with pytest.raises(memwal.AlreadyExists):
        table.writer(first.region_id)
    assert files(place) == before
    manifest(place, 2).unlink()
    assert table.writer(first.region_id, background=False).epoch == first.epoch + 1


@pytest.mark.clause("FENCE-022", "WRITER-001")
def test_a_writer_keeps_to_its_region_and_to_the_names_there(table: memwal.Table, tmp_path: Path) -> None:
    regions = [table.register_region(), table.register_region()]
    with table.writer(regions[1], background=False) as other:
        other.put(rows(9))
        writer = table.writer(regions[0])
        place, around = region_of(tmp_path, regions[0]), files(tmp_path)
        writer.put(rows(1))
        writer.flush()
        writer.put(rows(2))
        writer.close()
        mine = f"t/_mem_wal/{regions[0]}/"
        assert {name for name in files(tmp_path) ^ around if not name.startswith(mine)} == set()
        layout = r"manifest/([01]{64}\.binpb|version_hint\.json)|wal/[01]{64}\.(arrow|lance)|[0-9a-f]{8}_gen_1/.*"
        assert [name for name in files(place) if not re.fullmatch(layout, name)] == []
        assert {name.partition("/")[0] for name in files(place)} - {"manifest", "wal"} == generations(place)
        (newest,) = [each.manifest for each in table.regions() if each.region_id == regions[0]]
        assert newest is not None
        assert {each.path for each in newest.flushed} == generations(place)
        other.put(rows(8))  # it was not fenced


def generations(place: Path) -> set[str]:
    return {path.name for path in place.glob("*_gen_*")}


@pytest.mark.clause("WRITER-008")
def test_a_writer_that_opens_holds_all_rows_of_its_predecessor_before_it_takes_its_first(table: memwal.Table) -> None:
    crashed = table.writer(background=False)
    crashed.put(rows(1, 2))
    crashed.put(rows(3))
    with table.writer(crashed.region_id, background=False) as writer:
        assert writer.rows == 3
        writer.put(rows(4))
        assert writer.flush() == 1
        assert by_id(table.scan()) == {1: "x", 2: "x", 3: "x", 4: "x"}
    assert table.merge().rows == 4


@pytest.mark.clause("WRITER-012")
def test_the_put_that_reaches_a_limit_does_not_wait_for_the_flush_that_it_starts(
    table: memwal.Table, tmp_path: Path
) -> None:
    with table.writer(memtable_rows=2) as writer:
        place = region_of(tmp_path, writer.region_id)
        writer.put(rows(1, 2))
    assert len(generations(place)) == 1
    assert by_id(table.scan()) == {1: "x", 2: "x"}
    writer = table.writer(writer.region_id, memtable_rows=2)
    manifest(place, 4).write_bytes(b"\xff" * 9)  # what flushes comes upon it
    writer.put(rows(3, 4))
    with pytest.raises(memwal.MemwalError):
        writer.close()
    manifest(place, 4).unlink()
    assert by_id(table.scan()) == {1: "x", 2: "x", 3: "x", 4: "x"}


@pytest.mark.clause("MERGE-021")
def test_a_merger_goes_by_the_progress_of_its_region_in_the_newest_index(table: memwal.Table, tmp_path: Path) -> None:
    first, second = table.register_region(), table.register_region()
    for region, ids in ((first, (1, 2)), (second, (3,))):
        with table.writer(region, background=False) as writer:
            for number in ids:
                writer.put(rows(number))
                writer.flush()
    other = memwal.open(tmp_path / "t")
    assert other.merge(first).merged == ((first, 1), (first, 2))
    other.base.delete("id = 1")
    assert table.merge(first).merged == ()
    assert table.merge(second).merged == ((second, 1),)
    assert by_id(table.scan()) == {2: "x", 3: "x"}


@pytest.mark.clause("SNAP-022")
def test_a_snapshot_of_more_regions_than_the_threshold_is_a_file(tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"])
    for _ in range(2):
        table.register_region()
    before = files(tmp_path / "t" / "_indices")
    assert table.snapshot(inline_most=2) == 2
    assert files(tmp_path / "t" / "_indices") == before
    assert table.snapshot(inline_most=1) == 2
    (made,) = files(tmp_path / "t" / "_indices") - before
    assert made.endswith("/index.lance")
    assert len(memwal.open(tmp_path / "t").regions()) == 2
