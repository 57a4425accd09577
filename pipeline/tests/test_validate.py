"""The whole job on a few thousand flights, and that it does notice a table that was tampered with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from memwal_spark import cli, flights, validate
from memwal_spark.folder import Folder
from memwal_spark.job import Job
from memwal_spark.logs import Flights
from memwal_spark.progress import PhaseProgress
from memwal_spark.proofs import Proof
from memwal_spark.report import AFTER, BASE, BEFORE, JobReport
from rich.console import Console
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS = 3000


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("validate")


@pytest.fixture(scope="module")
def found(spark: SparkSession, out: Path) -> JobReport:
    """The job under revision B, with its faults."""
    return validate.validate(
        Job(out=out, log=Flights(count=FLIGHTS), regions=4, seed=5, fault_seed=5), PhaseProgress(Console(stderr=True))
    )


def invoke(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    cli.commands(app)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.mark.long
def test_every_reading_equals_sparks_own_answer(found: JobReport) -> None:
    assert found.verdict == "ok"
    assert [comparison.name for comparison in found.comparisons] == [BEFORE, AFTER, BASE]
    assert {comparison.actual.rows for comparison in found.comparisons} == {FLIGHTS}
    assert found.events == flights.change_log(FLIGHTS, seed=5).num_rows


def test_both_planned_faults_happened_after_a_flush_and_the_tasks_were_retried(found: JobReport) -> None:
    assert [(proof.fault.kind, proof.happened) for proof in found.faults] == [
        ("task-error", True),
        ("worker-kill", True),
    ]
    assert all(proof.generations >= 1 for proof in found.faults)
    hit = {str(proof.fault.partition) for proof in found.faults}
    assert {region.values["bucket"]: (region.attempts, region.epoch) for region in found.regions} == {
        bucket: (2, 3) if bucket in hit else (1, 2) for bucket in ("0", "1", "2", "3")
    }


def test_generations_were_merged_while_spark_wrote_and_all_are_in_the_end(found: JobReport) -> None:
    assert found.meanwhile is not None
    assert found.meanwhile.generations >= 1
    assert found.unmerged_scanned is not None
    assert found.unmerged_scanned >= 1
    assert [region.merged for region in found.regions] == [region.generations for region in found.regions]
    assert found.collected == sum(region.generations for region in found.regions)
    assert sum(region.rows for region in found.regions) == found.events


def test_an_index_a_collector_readers_and_invariants_were_at_work_beside_spark(found: JobReport) -> None:
    assert found.beside is not None
    assert found.history is not None
    assert min(found.beside.builds, found.beside.collections, found.beside.looks, found.beside.reads) >= 1
    assert [(verified.when, verified.findings) for verified in found.verified] == [
        ("while Spark wrote", ()), ("before the last merge", ()), ("in the end", ()),
    ]  # fmt: skip
    assert dict(found.verified[1].looked_at)["generations"] >= 1
    assert dict(found.verified[2].looked_at)["rows"] == FLIGHTS
    assert 32 <= found.history.keys <= 64  # some of the busiest may be among those that chance has chosen
    assert found.history.conflicts == ()
    assert found.history.overlapping >= 1


def test_the_report_is_written_as_json_and_as_a_page(found: JobReport, out: Path) -> None:
    assert json.loads((out / "report.json").read_text())["verdict"] == "ok"
    assert "row by row" in (out / "report.html").read_text()


def test_a_fault_that_finds_too_few_rows_to_strike_makes_the_run_fail(
    found: JobReport, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unharmed = Proof(fault=found.faults[0].fault, attempts=(), generations=0, happened=False)
    monkeypatch.setattr(validate, "validate", lambda *_: _with(found, unharmed))
    code, shown = invoke("validate", "--out", str(out))
    assert code == 4
    assert "did not happen: no attempt" in shown


def _with(found: JobReport, proof: Proof) -> JobReport:
    return replace(found, faults=(proof,))


def test_a_tampered_row_of_the_base_table_is_named_and_the_exit_code_is_one(found: JobReport, out: Path) -> None:
    import lance

    assert found.verdict == "ok"
    code, shown = invoke("validate", "--again", "--json", "--out", str(out))
    assert code == 0, shown
    last = lance.dataset(str(out / "table")).to_table(filter="origin = 'JFK' AND dep_delay IS NOT NULL").slice(0, 1)
    (victim,) = last.to_pylist()
    lance.dataset(str(out / "table")).update(
        {"dep_delay": "dep_delay + 1"},
        where=f"flight_date = date '{victim['flight_date']}' AND carrier = '{victim['carrier']}' "
        f"AND flight = {victim['flight']} AND origin = 'JFK'",
    )
    code, shown = invoke("validate", "--again", "--out", str(out))
    assert code == 1
    key = f"{victim['flight_date']} {victim['carrier']} {victim['flight']} JFK"
    assert f"changed {key}: dep_delay {victim['dep_delay']} -> {victim['dep_delay'] + 1}" in shown
    report = json.loads((out / "report.json").read_text())
    changed = {c["name"]: (c["missing"], c["extra"], c["changed"]) for c in report["comparisons"]}
    assert changed == {AFTER: (0, 0, 1), BASE: (0, 0, 1)}
    for comparison in report["comparisons"]:
        (difference,) = comparison["differences"]
        assert " ".join(difference["key"].values()) == key
        assert difference["columns"] == ["dep_delay"]
        assert [event["event"] for event in difference["history"]][:2] == ["scheduled", "departed"]
        # The collector may have taken all that the WAL had of the key; what it left names who wrote it.
        logged = [place for place in difference["places"] if place.startswith("wal ")]
        assert all(", job 0, task " in place for place in logged)
        assert difference["places"][-1].startswith("now: seq ")


def test_comparing_again_without_an_earlier_run_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    code, shown = invoke("validate", "--again", "--out", str(tmp_path))
    assert code == 2
    assert "has no earlier run" in shown


@pytest.mark.parametrize("arguments", [("--revision", "C"), ("--regions", "0"), ("--flights", "0")])
def test_arguments_that_make_no_sense_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, _ = invoke("validate", "--out", str(tmp_path), *arguments)
    assert code == 2


def test_an_earlier_run_in_the_folder_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.clear()
    folder.table.mkdir()
    folder.log.touch()
    (tmp_path / "notes.txt").write_text("mine")
    folder.clear()
    assert not folder.table.exists()
    assert not folder.log.exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_of_somebody_else_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "mine").touch()
    code, shown = invoke("validate", "--out", str(tmp_path))
    assert code == 2
    assert "holds table, which is not from an earlier run" in shown
    assert (tmp_path / "table" / "mine").exists()


def test_the_doctor_command_says_what_it_found() -> None:
    code, shown = invoke("doctor", "--json")
    assert code == 0
    assert [check["name"] for check in json.loads(shown)["checks"]] == [
        "Java", "pyspark", "pandas", "pyarrow", "pylance", "data source", "SPARK_HOME",
    ]  # fmt: skip
