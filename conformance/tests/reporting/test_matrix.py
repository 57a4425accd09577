"""Several runs side by side, and the page about released native versions."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from memwal.errors import InvalidArgument
from memwal_conformance import matrix
from memwal_conformance.cli import commands
from memwal_conformance.generated import native_matrix
from memwal_conformance.reporting import side_by_side
from memwal_conformance.reporting.side_by_side import CaseCell
from memwal_conformance.verdicts import Verdict
from typer.testing import CliRunner

FENCES = "scenarios/second_writer_fences_first.json::R"
NAME = "vectors/R/name/wal_entries/case.json::eval"
SMOKE = "scenarios/smoke.json::R"
WHY = "OBSERVED [FENCE-017] the put succeeded\nFAIL [FENCE-016] the row 1 is missing\nsteps:\n  one writer.open: done"


def whole(version: str, **verdicts: str) -> dict[str, Any]:
    """A summary as a run writes it."""
    names = {"fences": FENCES, "name": NAME, "smoke": SMOKE}
    cases = [
        {"case": names[name], "revision": "R", "area": "scenario", "verdict": verdict, "clauses": [], "text": WHY}
        for name, verdict in verdicts.items()
    ]
    says = {"R": {"sentence": f"example {version} says so"}}
    return {"implementation": "example", "version": version, "revisions": says, "cases": cases}


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs, and a third in the short form, which lacks a case."""
    short = {
        "implementation": "pylance",
        "version": "9.0.1",
        "says": ["pylance says so"],
        "cases": {SMOKE: "PASS", FENCES: {"verdict": "FAIL", "clauses": ["FENCE-016"], "text": WHY}},
    }
    found = [
        whole("1", smoke="PASS", fences="PASS", name="UNSUPPORTED"),
        whole("2", smoke="PASS", fences="WARN", name="UNSUPPORTED"),
        short,
    ]
    paths = []
    for number, summary in enumerate(found):
        path = tmp_path / f"run{number}" / "summary.json"
        path.parent.mkdir()
        path.write_text(json.dumps(summary), "utf-8")
        paths.append(path)
    return paths


def run(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    commands(app)
    done = CliRunner().invoke(app, ["matrix", *words], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


def test_both_forms_of_a_summary_are_read(runs: list[Path]) -> None:
    columns = side_by_side.load_all(runs)
    assert [column.label for column in columns] == ["example 1", "example 2", "pylance 9.0.1"]
    assert [column.says for column in columns] == [("example 1 says so",), ("example 2 says so",), ("pylance says so",)]
    assert columns[2].cases[FENCES] == CaseCell(Verdict.FAIL, "[FENCE-016] the row 1 is missing")
    assert columns[0].cases[FENCES] == CaseCell(Verdict.PASS, "")


def test_the_reason_is_the_line_of_the_verdict_and_the_first_line_if_there_is_none(runs: list[Path]) -> None:
    columns = side_by_side.load_all(runs)
    assert columns[1].cases[FENCES].why == "OBSERVED [FENCE-017] the put succeeded"


def test_a_case_is_shown_where_runs_differ_and_counted_where_they_agree(runs: list[Path]) -> None:
    lines = side_by_side.markdown(side_by_side.load_all([*runs[:2], runs[0]])).splitlines()
    assert "1 of 3 cases; of the others 1 are PASS in all runs, 1 UNSUPPORTED." in lines
    assert f"| `{FENCES}` | PASS | **WARN** | PASS |" in lines
    assert not [line for line in lines if line.startswith(f"| `{SMOKE}`")]


@pytest.mark.parametrize(
    ("verdicts", "calm"),
    [
        (("PASS", "PASS"), True),
        (("UNSUPPORTED", "UNSUPPORTED"), True),
        (("PASS", "UNSUPPORTED"), False),
        (("PASS", None), False),
        (("FAIL", "FAIL"), False),
    ],
)
def test_only_runs_that_agree_on_pass_or_unsupported_need_no_row(verdicts: tuple[str | None, ...], calm: bool) -> None:
    cells = tuple(None if verdict is None else CaseCell(Verdict(verdict), "") for verdict in verdicts)
    assert side_by_side.CaseRow(name="x", cells=cells).calm is calm


def test_a_case_that_a_run_does_not_have_is_a_dash(runs: list[Path]) -> None:
    lines = side_by_side.markdown(side_by_side.load_all(runs), every=True).splitlines()
    assert "3 cases." in lines
    assert f"| `{NAME}` | UNSUPPORTED | UNSUPPORTED | – |" in lines
    assert f"| `{SMOKE}` | PASS | PASS | PASS |" in lines
    assert "| R | scenario | 2 PASS | 1 PASS, 1 **WARN** | 1 PASS, 1 **FAIL** |" in lines
    assert f"- pylance 9.0.1, `{FENCES}`: **FAIL**: [FENCE-016] the row 1 is missing" in lines


def test_two_runs_of_one_version_are_told_apart_by_their_folders(runs: list[Path]) -> None:
    labels = [column.label for column in side_by_side.load_all([runs[0], runs[0], runs[1]])]
    assert labels == ["example 1 (run0)", "example 1 (run0)", "example 2"]


def test_the_command_writes_all_formats(runs: list[Path], tmp_path: Path) -> None:
    paths = [str(path) for path in runs]
    status, text = run(*paths, "--format", "json")
    told = json.loads(text)
    assert status == 0
    assert [each["label"] for each in told["runs"]] == ["example 1", "example 2", "pylance 9.0.1"]
    assert told["cases"][NAME] == [{"verdict": "UNSUPPORTED", "why": ""}, {"verdict": "UNSUPPORTED", "why": ""}, None]
    out = tmp_path / "out.html"
    assert run(*paths, "--format", "html", "--out", str(out)) == (0, "")
    page = out.read_text("utf-8")
    assert page.count('class="v FAIL"') == 2
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert f"| `{SMOKE}` |" not in run(*paths)[1]
    assert f"| `{SMOKE}` |" in run(*paths, "--all")[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a summary"),
        ('{"implementation": "x", "version": "1", "revisions": {}, "cases": [{"case": "a"}]}', "is not a summary"),
        ('{"implementation": "x", "version": "1", "says": [], "cases": {"a": "FINE"}}', "is not a summary"),
    ],
)
def test_a_file_that_is_no_summary_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidArgument, match=complaint):
        side_by_side.load(path)
    status, said = run(str(path))
    assert status == 2
    assert "Traceback" not in said


def test_an_unknown_format_is_a_mistake_of_usage(runs: list[Path]) -> None:
    status, said = run(str(runs[0]), "--format", "pdf")
    assert (status, "; choose one of md, html, json" in said) == (2, True)


def test_the_page_of_native_versions_is_up_to_date() -> None:
    assert native_matrix.PAGE.read_text("utf-8") == native_matrix.current(), f"run: {matrix.command('native')}"


def test_native_versions_are_in_the_order_of_their_release(tmp_path: Path) -> None:
    for version in ("14.0.2", "9.0.1", "7.0.0", "10.0.0"):
        (tmp_path / version).mkdir()
        summary = {"implementation": "pylance", "version": version, "says": [], "cases": {}}
        (tmp_path / version / "summary.json").write_text(json.dumps(summary), "utf-8")
    assert "| Revision | Area | pylance 7.0.0 | pylance 9.0.1 | pylance 10.0.0 | pylance 14.0.2 |" in (
        native_matrix.current(tmp_path)
    )
