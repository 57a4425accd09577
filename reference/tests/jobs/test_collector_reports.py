"""What the garbage collector says of what it does, and on tables that others wrote."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import memwal
import pytest
from memwal import paths
from memwal.cli.gc_options import duration_ms
from memwal.cli.main import app
from memwal.effects import Head
from memwal.ids import ManifestVersion, RegionId
from memwal.jobs.collector import rules
from typer.testing import CliRunner

from ..kit.catch_up_scenes import native
from ..kit.catch_up_scenes import rows as native_rows
from ..kit.collector_scene import EVERY, busy, changes, generation, manifest_versions, orphan, run
from ..kit.ground import SCHEMA, Ground, row

# --- reports ----------------------------------------------------------------------------------------------------------


@EVERY
def test_a_dry_run_changes_nothing_and_foretells_what_is_done(revision: str) -> None:
    ground, region = busy(revision)
    orphan(ground, region, 1)
    memwal.open("t", store=ground).base.delete("id = 1")
    before, since = dict(ground.objects), len(ground.asked)
    foretold = run(ground, dry_run=True, retain_versions=1, retain_manifests=2)
    assert changes(ground, since) == []
    assert ground.objects == before
    done = run(ground, retain_versions=1, retain_manifests=2)
    assert [(d.kind, d.name) for d in foretold if d.collected] == [(d.kind, d.name) for d in done if d.collected]
    assert {d.kind for d in done if d.collected} == {
        "version", "generation", "orphan", "wal", "manifest", "transaction", "data", "deletion"
    }  # fmt: skip
    assert all(d.reason for d in (*foretold, *done))
    assert all(bool(d.rule) != d.collected for d in done)


@EVERY
def test_a_second_run_finds_nothing_to_do(revision: str) -> None:
    ground, _ = busy(revision)
    run(ground, retain_versions=1, retain_manifests=2)
    after, since = dict(ground.objects), len(ground.asked)
    assert not any(d.collected for d in run(ground, retain_versions=1, retain_manifests=2))
    assert changes(ground, since) == []
    assert ground.objects == after


def test_totals_count_by_kind_and_measure_what_goes_only_when_asked() -> None:
    ground, _ = busy("B")
    made = memwal.open("t", store=ground)
    before = sum(map(len, ground.objects.values()))
    since = len(ground.asked)
    plain = made.gc(retain_versions=1, retain_manifests=2, dry_run=True)
    assert not any(isinstance(r, Head) and "/wal/" in r.path for r in ground.asked[since:])
    assert {t.collected_bytes for t in plain.totals if t.collected} == {None}
    report = made.gc(retain_versions=1, retain_manifests=2, sizes=True)
    totals = {t.kind: (t.collected, t.kept) for t in report.totals}
    assert totals == {
        "version": (7, 1),
        "generation": (2, 1),
        "wal": (6, 4),
        "manifest": (6, 2),
        "data": (1, 2),
        "deletion": (0, 1),
        "transaction": (7, 1),
    }
    gone = sum(t.collected_bytes or 0 for t in report.totals)
    unlisting = len(ground.objects[manifest_path(ground)])
    assert before - gone + unlisting == sum(map(len, ground.objects.values()))
    assert len(report.collected) + len(report.kept) == len(report.decisions)


def manifest_path(ground: Ground) -> str:
    region = RegionId(next(n for n in ground.objects if "/_mem_wal/" in n).split("/")[2])
    return f"t/{paths.region(region)}/{paths.manifest(ManifestVersion(max(manifest_versions(ground, region))))}"


def test_each_row_of_the_tables_has_a_name_of_its_own_a_condition_and_clauses() -> None:
    rows = [(found.kind, rule.name) for found, rule in rules()]
    assert len(set(rows)) == len(rows)
    assert {kind for kind, _ in rows} == {
        "version", "generation", "orphan", "wal", "manifest", "data", "deletion", "index", "transaction"
    }  # fmt: skip
    assert all(rule.stays and rule.clauses for _, rule in rules())


def test_the_document_has_the_tables_of_all_kinds() -> None:
    text = (Path(__file__).parents[3] / "docs" / "collection.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    rows = [(found.kind, rule.name, rule.stays, ", ".join(rule.clauses)) for found, rule in rules()]
    assert [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines] == rows


CLI = CliRunner()


@pytest.fixture
def place(tmp_path: Path) -> str:
    made = memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], wal_collection=True)
    generation(made, None, (1, "a"))
    made.merge()
    return str(tmp_path / "t")


def test_the_command_says_what_would_go_and_deletes_it_when_told_to(place: str) -> None:
    said = CLI.invoke(app, ["gc", place, "--retain-versions", "1", "--grace", "0", "--dry-run", "--json"])
    assert said.exit_code == 0
    foretold = json.loads(said.output)
    assert foretold["dry_run"] is True
    assert {t["kind"]: t["collected"] for t in foretold["totals"]}["generation"] == 1
    assert all(t["collected_bytes"] for t in foretold["totals"] if t["collected"])
    done = CLI.invoke(app, ["gc", place, "--retain-versions", "1", "--grace", "0"])
    assert done.exit_code == 0
    assert "deleted generation _mem_wal/" in done.output
    assert "kept 1 version [newest]: the newest version" in done.output
    shown = CLI.invoke(app, ["gc", place, "--retain-versions", "1", "--all"])
    assert "kept version _versions/" in shown.output


def test_the_command_gives_operations_ten_minutes_unless_told_otherwise(place: str) -> None:
    said = CLI.invoke(app, ["gc", place, "--retain-versions", "1", "--json"])
    assert not [d for d in json.loads(said.output)["decisions"] if d["collected"]]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--retain-versions", "0"],
        ["--retain-manifests", "1"],
        ["--grace", "5 weeks"],
        ["--retain-age", "-1s"],
        ["--time-travel", "never"],
    ],
)
def test_the_command_refuses_what_it_does_not_understand_with_exit_code_2(place: str, arguments: list[str]) -> None:
    assert CLI.invoke(app, ["gc", place, *arguments]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "ms"), [("0", 0), ("5ms", 5), ("90s", 90_000), ("2h", 7_200_000), ("7d", 604_800_000)]
)
def test_durations_have_units(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_the_rules_can_be_shown() -> None:
    shown = CLI.invoke(app, ["gc-rules", "--json"])
    assert shown.exit_code == 0
    assert {"kind": "generation", "rule": "unmerged"}.items() <= json.loads(shown.output)[5].items()
    assert CLI.invoke(app, ["gc-rules"]).exit_code == 0


# --- tables of others -------------------------------------------------------------------------------------------------


@pytest.mark.clause("GC-013", "AMB-95")
def test_pylance_reads_and_writes_a_table_that_was_collected(place: str) -> None:
    lance.dataset(place).create_scalar_index("v", "BTREE", name="v")
    memwal.open(place).gc(retain_versions=1)
    made = memwal.open(place)
    made.base.append(row(2, "b"))
    made.base.delete("id = 1")
    made.gc(retain_versions=1)
    dataset = lance.dataset(place)
    assert dataset.to_table(filter="v = 'b'").to_pylist() == [{"id": 2, "v": "b"}]
    dataset.insert(row(3, "c").cast(dataset.schema))
    dataset.optimize.compact_files()
    memwal.open(place).gc(retain_versions=1)
    assert sorted(r["id"] for r in lance.dataset(place).to_table().to_pylist()) == [2, 3]
    lance.dataset(place).validate()


def test_a_native_table_is_collected_and_its_native_writer_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "t"
    native(place, ["btree"])
    region = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
    dataset = lance.dataset(str(place))
    dataset.initialize_mem_wal(maintained_indexes=["btree"])
    for step in range(2):
        with lance.dataset(str(place)).mem_wal_writer(region) as writer:
            writer.put(native_rows(300 + step, 301 + step))
    made = memwal.open(place)
    with made.writer(region, background=False) as own:
        own.flush()
    made.merge()
    made.catch_up()
    before = wal_count(place, region)
    report = made.gc(retain_versions=1, retain_manifests=2)
    kinds = {d.kind for d in report.collected}
    assert {"version", "generation"} <= kinds
    assert "wal" not in kinds
    assert "manifest" not in kinds
    assert wal_count(place, region) == before
    with lance.dataset(str(place)).mem_wal_writer(region) as writer:
        writer.put(native_rows(400, 401))
    assert {300, 301, 400} <= set(memwal.open(place).scan().column("id").to_pylist())


def wal_count(place: Path, region: str) -> int:
    return len(list((place / "_mem_wal" / region / "wal").glob("*.arrow")))
