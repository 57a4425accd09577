"""The suite's own collector, on tables that the vectors have, and behind the gate beside a flush."""

import shutil
import sys
from pathlib import Path

import pytest
from kit import designs
from kit.runs import run_suite
from memwal_conformance.adapters import suite_roles
from memwal_conformance.gate import Gate
from memwal_conformance.gate.folder import loaded
from memwal_conformance.judge import artifacts, collecting, content, store, structure
from memwal_sim.store import Contents

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
REVISIONS = ("B", "R")


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, revision: str) -> Path:
    """A table whose first generation is merged and not collected."""
    copy = tmp_path / "t"
    shutil.copytree(VECTORS / revision / "table" / "merged_and_not_collected" / "input" / "table", copy)
    return copy


def listed(root: Path, revision: str) -> list[int]:
    (region,) = store.read(root, revision, ("id",)).regions.values()
    assert region.newest is not None
    return [generation.number for generation in region.newest.generations]


def faults(root: Path, revision: str) -> list[str]:
    return [fault for result in structure.run(store.read(root, revision, ("id",))) for fault in result.faults]


def test_what_is_merged_leaves_the_manifest_and_the_store_and_every_row_stays(root: Path, revision: str) -> None:
    before, numbers = content.durable(store.read(root, revision, ("id",))), listed(root, revision)
    merged = store.read(root, revision, ("id",)).table.memwal[0].merged[0][1]
    assert merged in numbers
    told = suite_roles.handlers()["gc.run"]({"table": str(root), "retain_versions": 1})
    assert [int(gone["generation"]) for gone in told["generations"]] == [n for n in numbers if n <= merged]
    assert listed(root, revision) == [n for n in numbers if n > merged]
    assert faults(root, revision) == []
    assert content.durable(store.read(root, revision, ("id",))) == before
    (region,) = store.read(root, revision, ("id",)).regions.values()
    assert {int(name.rpartition("_")[2]) for name in region.generations}.isdisjoint(range(1, merged + 1))


def test_only_so_many_table_versions_stay(root: Path) -> None:
    (newest,) = (root / "_versions").iterdir()
    older = newest.with_name(f"{int(newest.stem) + 1:020d}.manifest")
    shutil.copy(newest, older)
    suite_roles.handlers()["gc.run"]({"table": str(root), "retain_versions": 2})
    assert older.exists()
    suite_roles.handlers()["gc.run"]({"table": str(root), "retain_versions": 1})
    assert [file.name for file in (root / "_versions").iterdir()] == [newest.name]


def version(merged: dict[str, int], **catchup: dict[str, int]) -> store.table.JudgedTableManifest:
    """A table version with that merge progress, and that catch-up of indexes."""
    details = artifacts.JudgedIndexDetails(
        snapshot_ts_millis=0,
        num_regions=len(merged),
        inline_snapshots=None,
        region_specs=(),
        maintained_indexes=tuple(catchup),
        merged=tuple(merged.items()),
        catchup=tuple((name, tuple(pairs.items())) for name, pairs in catchup.items()),
    )
    return store.table.JudgedTableManifest(version=1, fragments=1, base_paths=(), memwal=(details,), config={})


def test_what_is_not_merged_in_every_retained_version_stays() -> None:
    assert collecting.bound([version({"r": 3}), version({"r": 5})], "r") == 3
    assert collecting.bound([version({}), version({"r": 5})], "r") == 0
    assert collecting.bound([], "r") == 0


def test_an_index_that_lags_holds_a_generation_back() -> None:
    lagging = version({"r": 5, "s": 7}, i={"r": 3}, j={"r": 4, "s": 7})
    assert [collecting.bound([lagging], region) for region in ("r", "s", "t")] == [3, 0, 0]


def test_a_commit_of_another_in_between_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that the collector is about to write is there already: it begins again with that."""
    (manifests,) = root.glob("_mem_wal/*/manifest")
    known = max(artifacts.number_of(file.name, "binpb") or 0 for file in manifests.iterdir())
    newest = (manifests / artifacts.name_of(known, "binpb")).read_bytes()
    honest = collecting.without

    def beaten(data: bytes, generations: set[int], to: int) -> bytes:
        if to == known + 1:
            (manifests / artifacts.name_of(to, "binpb")).write_bytes(honest(newest, (), to))
        return honest(data, generations, to)

    monkeypatch.setattr(collecting, "without", beaten)
    assert suite_roles.handlers()["gc.run"]({"table": str(root), "retain_versions": 1})["generations"] != []
    written = {artifacts.number_of(file.name, "binpb") for file in manifests.iterdir()}
    assert {known + 1, known + 2} <= written


def test_behind_the_gate_the_manifest_changes_before_any_file_of_the_generation_goes(root: Path) -> None:
    objects = {f"t/{name}": data for name, data in loaded(root).objects.items()}
    with Gate(Contents(objects)) as gate:
        key = gate.credentials("collector")
        answers = suite_roles.handlers()
        storage = {
            "endpoint": gate.endpoint,
            "region": gate.region,
            "access_key_id": key.access_key,
            "secret_access_key": key.secret_key,
        }
        answers["configure"]({"revision": "B", "settings": {}, "storage": storage})
        assert answers["gc.run"]({"table": f"s3://{gate.bucket}/t", "retain_versions": 1})["generations"] != []
        made = [entry.operation.partition("_")[0] for entry in gate.log]
        changes = [operation for operation in made if operation in ("CREATE", "DELETE")]
    assert changes[0] == "CREATE"
    assert set(changes[1:]) == {"DELETE"}


def test_cases_with_jobs_run_without_any_option_and_the_sentence_says_whose_the_jobs_were(tmp_path: Path) -> None:
    case = "conformance/scenarios/last_write_wins_through_all_levels.json::B"
    adapter = " ".join((sys.executable, designs.__file__, "only_writes_and_reads"))
    helped = run_suite(tmp_path, case, "--memwal-adapter", adapter, limit_s=400)
    (line,) = [line for line in helped.text.splitlines() if line.startswith("small ")]
    assert line.partition("; played by another: ")[2].startswith("merger, index_builder, collector")
    (found,) = helped.summary["cases"]
    assert found["verdict"] == "PASS", helped.text
