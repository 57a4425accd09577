"""``--memwal-explore SECONDS``: the exploration of an adapter as a case of the suite."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from kit.runs import run_suite
from memwal_conformance.exploring.findings import ForeignFinding
from memwal_conformance.places import SUITE
from memwal_conformance.pytest_plugin import exploring
from memwal_conformance.registry.levels import levels_of

LIVES = str(SUITE / "lives.toml")
HALVES = f"{sys.executable} -m memwal_conformance.proving.broken halves_puts"


def test_what_exploration_finds_fails_the_run_and_is_reported_like_the_rest(tmp_path: Path) -> None:
    report = tmp_path
    words = ("--memwal-adapter", HALVES, "--memwal-revision", "B", "--memwal-explore", "20")
    lives = tmp_path / "lives.toml"
    lives.write_text('[short]\nabout = "A put."\nsteps = "w open, w put, w close"\n', "utf-8")
    run = run_suite(tmp_path, str(lives), "-p", "memwal_conformance.pytest_plugin", *words)
    assert run.status == 1, run.text
    summary = run.summary
    (case,) = summary["cases"]
    assert (case["area"], case["verdict"]) == ("exploration", "FAIL")
    assert case["case"].endswith("lives.toml::B")
    assert "WAL-001" in case["clauses"]
    assert "--memwal-explore 20" in case["command"]
    assert "WAL-001" in summary["revisions"]["B"]["broken"]
    found = json.loads((report / "exploration-B" / "findings.json").read_text("utf-8"))["findings"]
    assert found[0]["words"] == "the row … is missing"
    assert (report / "exploration-B" / "01.log").exists()
    assert not list((report / "failures").glob("*.json"))
    page = (report / "report.html").read_text("utf-8")
    assert "exploration-B/findings.json" in page
    assert page.index("findings-title") < page.index("areas-title")


def test_nothing_is_explored_unless_it_is_asked_for(tmp_path: Path) -> None:
    run = run_suite(tmp_path, LIVES)
    assert (run.status, "exploration" in run.text) == (4, False)


def test_a_budget_that_is_no_time_is_refused(tmp_path: Path) -> None:
    run = run_suite(tmp_path, LIVES, "--memwal-explore", "0")
    assert run.status != 0
    assert "--memwal-explore: 0 is not a time" in run.text


@pytest.mark.parametrize(
    ("oracle", "clauses", "note", "verdict"),
    [
        ("crash", [], None, "CRASH"),
        ("hang", [], None, "HANG"),
        ("rows", ["WAL-001"], None, "FAIL"),
        ("machine", ["WAL-001"], "AMB-11", "OBSERVED"),
    ],
)
def test_a_finding_has_the_verdict_of_its_clauses_or_else_of_its_oracle(
    oracle: str, clauses: list[str], note: str | None, verdict: str
) -> None:
    about = {
        "number": 1,
        "oracle": oracle,
        "words": "",
        "hit": "",
        "severity": "major",
        "clauses": clauses,
        "note": note,
    }
    run = {"sentence": "s", "detail": "", "where": "", "life": {}, "plan": {}, "crash": -1, "told": [], "log": []}
    assert exploring.verdict_of(ForeignFinding(**about, **run), levels_of("B")) == verdict
