"""Planted defects are caught, each for the clause that it breaks (the same cases pass for the reference)."""

import json
import re
import sys
from pathlib import Path

import pytest
from kit.runs import run_suite
from memwal.region import claim, transitions
from memwal_conformance.adapters import reference
from memwal_conformance.adapters.harness import REFERENCE
from memwal_conformance.generated.planted_page import best
from memwal_conformance.proving import broken, broken_survey, deaths, defects
from memwal_conformance.proving.defects import DEFECTS
from memwal_conformance.proving.deviations import broken_clauses, judged
from memwal_conformance.proving.planted import register
from memwal_conformance.verdicts import Verdict

HERE = Path(__file__).resolve().parents[2]
REPLACED = [name for name, defect in DEFECTS.items() if defect.replaced]
"""Defects that change the engine; each is asked of an adapter of its own."""
BROKEN = (sys.executable, "-m", "memwal_conformance.proving.broken")


@pytest.mark.parametrize("name", [name for name, defect in DEFECTS.items() if not defect.replaced])
def test_a_planted_defect_fails_its_case_for_its_clause(name: str, tmp_path: Path) -> None:
    """In this process; the suite is run on one of them below, as a user would."""
    found = broken_survey.judge(DEFECTS[name].case, tmp_path, name)
    assert found.failed, found
    assert DEFECTS[name].clause in found.clauses, found


# What a defect leaves open continues writing in a thread of its own, and its store ends with the case.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "name", [*REPLACED[:2], *(pytest.param(name, marks=pytest.mark.long) for name in REPLACED[2:])]
)
def test_a_defect_of_the_engine_fails_its_case_for_its_clause(name: str, tmp_path: Path) -> None:
    verdict, findings = judged(DEFECTS[name].case, (*BROKEN, name), tmp_path, {})
    assert verdict is Verdict.FAIL, findings
    assert DEFECTS[name].clause in broken_clauses(findings), findings


def test_what_a_defect_replaces_in_the_engine_is_there_while_it_is_served_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, seen = (claim.claimed, transitions.check), []
    monkeypatch.setattr(reference, "main", lambda made: seen.append((claim.claimed, transitions.check)))
    broken.main(["keeps_epoch"])
    (served,) = seen
    assert served == (defects._keeps_epoch, defects._unasserted)
    assert (claim.claimed, transitions.check) == honest


@pytest.mark.parametrize(
    ("case", "clause"),
    [
        ("scenarios/second_writer_fences_first.json::B", "FENCE-016"),
        ("scenarios/filter_does_not_revive_old_rows.json::A", "READ-002"),
    ],
)
def test_the_literal_reading_of_a_hazard_fails(case: str, clause: str, tmp_path: Path) -> None:
    verdict, findings = judged(case, REFERENCE, tmp_path, {"profile": "literal"})
    assert verdict is Verdict.FAIL, findings
    assert clause in broken_clauses(findings), findings


def test_the_suite_run_on_a_broken_adapter_fails_and_says_which_clause(tmp_path: Path) -> None:
    adapter = " ".join((*BROKEN, "drops_puts"))
    run = run_suite(
        tmp_path,
        "conformance/scenarios/durable_put_survives_kill.json",
        "conformance/vectors/B/name",
        *("--memwal-adapter", adapter, "--memwal-revision", "B"),
    )
    assert run.status == 1, run.text
    said = r"^broken \(drops_puts\) does not conform to revision B, .*a selection: 5 of [0-9]+ .*broken: .*WAL-001"
    assert re.search(said, run.text, re.MULTILINE), run.text
    assert run.summary["revisions"]["B"]["conforms"] is False
    assert {case["verdict"] for case in run.summary["cases"] if case["area"] == "name"} == {"PASS"}

    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert ("hello", "hello") in {(line.get("actor"), line.get("message")) for line in lines}
    assert ("two", "reader.scan") in {(line.get("actor"), line.get("message")) for line in lines}
    assert all(set(line["outcome"]) <= {"result", "error", "broken"} for line in lines if "message" in line)


@pytest.mark.parametrize(
    "name", ["start_at_last_seen", "filter_of_the_last_row", "replays_flushed_entries", "skipped_version"]
)
@pytest.mark.long
def test_a_bug_planted_in_the_engine_fails_the_case_that_the_survey_names(name: str, tmp_path: Path) -> None:
    kept = deaths.by_name(deaths.deaths())[name]
    shown = best(register()[name], [death for death in kept if death.killer.startswith("case ")])
    case = shown.killer.removeprefix("case ")
    verdict, findings = judged(case, (*BROKEN, "--bug", name), tmp_path, {})
    assert verdict is Verdict.FAIL, findings
    assert set(shown.clauses or ()) <= broken_clauses(findings), findings
