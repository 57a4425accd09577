"""Where generations are, which folders count, and in which order they are merged."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import lance
import memwal
import pyarrow as pa
import pytest
from memwal.drive import drive
from memwal.effects import Put, PutIfAbsent, Request, run
from memwal.stores.local import LocalStore

from ..kit.tables import flush

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
REVISIONS = ["A", "B", "R"]


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table([[i for i, _ in pairs], [v for _, v in pairs]], schema=SCHEMA)


def values(table: pa.Table) -> dict[int, str]:
    return dict(zip(table.column("id").to_pylist(), table.column("v").to_pylist(), strict=True))


@pytest.fixture(params=REVISIONS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> memwal.Table:
    return memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=request.param)


def region_folder(place: Path, region: str) -> Path:
    return place / "t" / "_mem_wal" / region


def generations(place: Path, region: str) -> list[str]:
    return sorted(path.name for path in region_folder(place, region).iterdir() if "_gen_" in path.name)


def listed(table: memwal.Table) -> list[tuple[int, str]]:
    """Number and folder of each generation that the only region lists."""
    manifest = table.regions()[0].manifest
    assert manifest is not None
    return [(entry.generation, entry.path) for entry in manifest.flushed]


class Crash(BaseException):
    pass


def crash_at(writer: memwal.Writer, place: Path, part: str) -> None:
    """Flush, and crash before the first object is created whose name has ``part`` in it."""
    store = LocalStore(place / "t")

    async def once(request: Request[Any]) -> Any:
        return await request

    def perform(request: Request[Any]) -> Any:
        if isinstance(request, PutIfAbsent | Put) and part in request.path:
            raise Crash
        return drive(once(request), store)

    with pytest.raises(Crash):
        run(writer._writer.flush(), perform)


@pytest.mark.clause("GEN-005", "AMB-44")
@pytest.mark.parametrize("part", ["bloom_filter.bin", "_versions/", "/manifest/"])
def test_a_flush_that_is_tried_again_never_writes_into_the_folder_of_the_failed_one(
    table: memwal.Table, tmp_path: Path, part: str
) -> None:
    crashed = table.writer(background=False)
    crashed.put(rows((1, "a")))
    crash_at(crashed, tmp_path, part)
    region = crashed.region_id
    before = {
        p: p.read_bytes() for p in region_folder(tmp_path, region).rglob("*") if "_gen_" in str(p) and p.is_file()
    }
    with table.writer(region, background=False) as writer:
        writer.flush()
    assert {p: p.read_bytes() for p in before} == before
    ((number, path),) = listed(table)
    assert number == 1
    assert path not in {p.relative_to(region_folder(tmp_path, region)).parts[0] for p in before}
    prefixes = {name.split("_")[0] for name in generations(tmp_path, region)}
    assert len(prefixes) == len(generations(tmp_path, region)) == (1 if part == "bloom_filter.bin" else 2)
    assert all(re.fullmatch("[0-9a-f]{8}", prefix) for prefix in prefixes)


@pytest.mark.clause("GEN-006", "AMB-94")
@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_folder_that_no_manifest_lists_is_no_generation(table: memwal.Table, tmp_path: Path, number: int) -> None:
    with table.writer(background=False) as writer:
        writer.put(rows((1, "new")))
        writer.flush()
    region = writer.region_id
    other = memwal.create(tmp_path / "other", SCHEMA, primary_key=["id"], revision=table.revision.name)
    with other.writer(background=False) as stranger:
        stranger.put(rows((1, "stray"), (2, "stray")))
        stranger.flush()
    stray = region_folder(tmp_path, region) / f"00000000_gen_{number}"
    (theirs,) = (tmp_path / "other" / "_mem_wal" / stranger.region_id).glob("*_gen_1")
    shutil.copytree(theirs, stray)
    for consistency in ("strong", "eventual"):
        table.snapshot()
        assert values(table.scan(consistency=consistency)) == {1: "new"}
    assert [merged for _, merged in table.merge().merged] == [1]
    assert values(pa.table(lance.dataset(str(tmp_path / "t")).to_table())) == {1: "new"}
    assert values(table.scan()) == {1: "new"}


@pytest.mark.clause("GEN-007", "GEN-003", "AMB-81")
def test_a_lower_generation_is_older_and_merged_first(table: memwal.Table) -> None:
    with table.writer(background=False) as writer:
        for value in ("first", "second", "third"):
            writer.put(rows((1, value)))
            writer.flush()
    assert [number for number, _ in listed(table)] == [1, 2, 3]
    assert values(table.scan()) == {1: "third"}
    report = table.merge()
    assert [generation for _, generation in report.merged] == [1, 2, 3]
    assert values(table.scan()) == {1: "third"}


@pytest.mark.clause("GEN-008", "AMB-49")
def test_the_manifest_of_a_generation_has_the_name_of_the_second_scheme(table: memwal.Table, tmp_path: Path) -> None:
    with table.writer(background=False) as writer:
        writer.put(rows((1, "a")))
        writer.flush()
    ((_, path),) = listed(table)
    found = [p.name for p in (region_folder(tmp_path, writer.region_id) / path / "_versions").iterdir()]
    assert [name for name in found if name.endswith(".manifest")] == ["18446744073709551614.manifest"]


@pytest.mark.clause("GEN-015", "GEN-017", "AMB-116")
def test_a_memtable_serves_reads_before_it_is_flushed_and_becomes_the_generation_with_the_same_rows(
    table: memwal.Table, tmp_path: Path
) -> None:
    with table.writer(background=False, durable=False) as writer:
        writer.put(rows((2, "b"), (1, "a")))
        writer.put(rows((3, "c")))
        ((number, held),) = writer.memory().tables
        assert number == 1
        assert values(table.scan(writers=[writer])) == {1: "a", 2: "b", 3: "c"}
        assert values(table.scan()) == {}
        writer.flush()
        ((_, path),) = listed(table)
        stored = lance.dataset(str(region_folder(tmp_path, writer.region_id) / path)).to_table()
    assert stored.select(["id", "v"]).to_pylist() == held.select(["id", "v"]).to_pylist()


@pytest.mark.clause("GEN-019", "AMB-36", "AMB-52")
def test_a_region_folder_holds_manifests_the_wal_and_generations_and_nothing_else(
    table: memwal.Table, tmp_path: Path
) -> None:
    crashed = table.writer(background=False)
    crashed.put(rows((1, "a")))
    crash_at(crashed, tmp_path, "_versions/")
    with table.writer(crashed.region_id, background=False) as writer:
        writer.put(rows((2, "b")))
        writer.flush()
        writer.put(rows((3, "c")))
    table.merge()
    with table.writer(table.register_region(), background=False) as other:
        other.put(rows((9, "z")))
    root = tmp_path / "t" / "_mem_wal"
    assert sorted(p.name for p in root.iterdir()) == sorted([writer.region_id, other.region_id])
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", writer.region_id)
    for region in root.iterdir():
        kinds = {re.sub("^[0-9a-f]{8}_gen_[0-9]+$", "generation", p.name) for p in region.iterdir()}
        assert kinds <= {"manifest", "wal", "generation"}
        assert {"manifest", "wal"} <= kinds
        suffix = "lance" if table.revision.name == "A" else "arrow"
        assert all(re.fullmatch(rf"[01]{{64}}\.{suffix}", p.name) for p in (region / "wal").iterdir())
        names = {p.name for p in (region / "manifest").iterdir()} - {"version_hint.json"}
        assert all(re.fullmatch(r"[01]{64}\.binpb", name) for name in names)
        assert json.loads((region / "manifest" / "version_hint.json").read_text())["version"] >= 1


@pytest.mark.clause("GEN-020", "AMB-75", "AMB-76", "AMB-127")
@pytest.mark.parametrize("revision", ["A", "B"])
def test_the_folder_of_the_mem_wal_index_holds_one_file_with_the_region_snapshots(
    tmp_path: Path, revision: str
) -> None:
    table = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], revision=revision)
    flush(table, rows((1, "a")))
    table.snapshot(inline_most=0)
    entry = table._state.mem_wal_entry
    assert entry is not None
    folders = list((tmp_path / "t" / "_indices").iterdir())
    assert [p.name.replace("-", "") for p in folders] == [entry.uuid.uuid.hex()]
    assert [p.name for p in folders[0].iterdir()] == ["index.lance"]
    stored = lance.file.LanceFileReader(str(folders[0] / "index.lance")).read_all().to_table()
    assert stored.num_rows == 1
    assert values(table.scan(consistency="eventual")) == {1: "a"}
