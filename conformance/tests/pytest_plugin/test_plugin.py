"""The plugin as a user runs it: verdicts, the sentence, the reports, and adapters that cannot be judged."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.runs import Run, changed_skeleton, run_suite
from memwal_conformance import document
from memwal_conformance.protocol import Hello
from memwal_conformance.pytest_plugin.session import suite_size
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.reporting import report
from memwal_conformance.verdicts import CaseResult, Finding, Verdict, agreed, level_of, merged

HERE = Path(__file__).resolve().parents[2]
SKELETON = f"{sys.executable} {HERE / 'memwal_conformance' / 'adapters' / 'skeleton.py'}"
NAMES = "conformance/vectors/B/name"
LEVELS = {"WAL-001": "MUST", "WAL-002": "MAY", "WAL-016": "SHOULD", "FENCE-001": "MUST"}
HELLO = Hello(
    implementation="x", version="1", revisions=("B",), roles=("writer",), capabilities=frozenset({"eval.bloom"})
)


def test_the_page_for_adapter_authors_shows_the_messages_as_the_schemas_define_them() -> None:
    page = document.PAGE.read_text("utf-8")
    assert document.filled(page) == page


# A whole run ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smallest adapter under revision B, with a JUnit file."""
    folder = tmp_path_factory.mktemp("skeleton")
    cases = (NAMES, "conformance/vectors/B/hash/text", "conformance/scenarios/smoke.json")
    options = ("--memwal-adapter", SKELETON, "--memwal-revision", "B", "--junit-xml", str(folder / "junit.xml"))
    return run_suite(folder, *cases, *options)


def test_another_implementation_runs_and_what_it_does_not_claim_is_unsupported(skeleton: Run) -> None:
    verdicts = {case["case"]: case["verdict"] for case in skeleton.summary["cases"]}
    assert verdicts == {
        "vectors/B/name/region_manifests/case.json::eval": "PASS",
        "vectors/B/name/table_manifests/case.json::eval": "PASS",
        "vectors/B/name/wal_entries/case.json::eval": "PASS",
        "vectors/B/name/wal_suffix/case.json::eval": "PASS",
        "vectors/B/hash/text/case.json::eval": "UNSUPPORTED",
        "scenarios/smoke.json::B": "UNSUPPORTED",
    }
    assert skeleton.status == 0
    needed = ("reader.open", "reader.scan", "table.create", "writer.open", "writer.put", "eval.hash")
    assert f"not claimed: {', '.join(f'{name} (1)' for name in needed)}\n" in skeleton.text
    assert "SKIPPED" not in skeleton.text


def test_what_hello_names_and_the_suite_does_not_know_is_said(tmp_path: Path) -> None:
    adapter = changed_skeleton(tmp_path, ('"roles": [],', '"roles": [], "without": ["eval.decode wall"],'))
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", adapter, "--memwal-revision", "B")
    assert run.status == 0
    assert "unknown in hello: eval.decode wall\n" in run.text


def test_a_selection_of_cases_shows_no_conformance(skeleton: Run) -> None:
    total = suite_size()["B"]
    sentence = (
        "skeleton was not shown to conform to revision B, no role claimed, so that only names, values and bytes were "
        "asked for: 5 of 5 MUST, 0 warnings, 0 inconclusive, 2 unsupported; "
        f"a selection: 6 of {total} cases ran; neither shown nor refuted: not all cases ran, "
        "no role was tested"
    )
    *_, said, closing = skeleton.text.splitlines()
    assert said == sentence
    assert closing.startswith("4 passed, 2 unsupported in ")
    assert skeleton.summary["revisions"]["B"]["sentence"] == sentence
    assert skeleton.summary["revisions"]["B"]["conforms"] is None


def test_a_report_that_cannot_be_written_takes_no_verdict_along(tmp_path: Path) -> None:
    (tmp_path / "summary.json").mkdir()
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", SKELETON, "--memwal-revision", "B")
    *_, report, said, _closing = run.text.splitlines()
    assert report == f"report: not written: Is a directory: {tmp_path / 'summary.json'}"
    assert said.startswith("skeleton was not shown to conform to revision B")
    assert run.status == pytest.ExitCode.USAGE_ERROR


def test_junit_has_every_case(skeleton: Run) -> None:
    junit = (skeleton.folder / "junit.xml").read_text("utf-8")
    assert junit.count("<testcase") == 6
    assert junit.count("<skipped") == 2


BROKEN_ADAPTERS = {
    "import sys; print('Starting up ...', flush=True); sys.stdin.read()": "is not JSON",
    "import sys; sys.stdin.readline(); sys.stderr.write('no licence\\n'); sys.exit(3)": "exit status 3",
    "import signal; signal.pause()": "no answer to hello in 0.8 s",
}


@pytest.mark.parametrize(("code", "reason"), BROKEN_ADAPTERS.items())
def test_an_adapter_that_cannot_say_what_it_is_is_a_harness_error_and_no_verdict(
    code: str, reason: str, tmp_path: Path
) -> None:
    adapter = f'{sys.executable} -c "{code}"'
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", adapter, "--memwal-timeout", "0.8")
    assert run.status == 1
    assert "HARNESS_ERROR: " in run.text
    assert reason in run.text
    assert "no verdict: " in run.text
    assert "1 failed in" in run.text


def verdicts_of(run: Run) -> dict[str, str]:
    """Verdict by name of the case's folder."""
    return {case["case"].split("/")[3]: case["verdict"] for case in run.summary["cases"]}


def test_an_adapter_that_turns_to_garbage_later_is_a_harness_error_of_that_case(tmp_path: Path) -> None:
    adapter = changed_skeleton(tmp_path, ('return {"name": f"{number', 'return {"name": number, "x": f"{number'))
    cases = (f"{NAMES}/wal_entries", f"{NAMES}/table_manifests")
    run = run_suite(tmp_path, *cases, "--memwal-adapter", adapter, "--memwal-revision", "B")
    assert run.status == 1
    assert verdicts_of(run) == {"wal_entries": "HARNESS_ERROR", "table_manifests": "PASS"}
    assert "the schema refuses the result of eval.name at $" in run.text
    assert "1 harness errors" in run.text


def test_an_adapter_that_dies_in_a_case_is_a_crash_and_the_next_case_still_runs(tmp_path: Path) -> None:
    dies = '    assert params["kind"] != "wal", "boom"\n    number = int('
    adapter = changed_skeleton(tmp_path, ("    number = int(", dies))
    run = run_suite(tmp_path, NAMES, "--memwal-adapter", adapter, "--memwal-revision", "B")
    assert run.status == 1
    assert verdicts_of(run) == {
        "wal_entries": "CRASH",
        "wal_suffix": "CRASH",
        "region_manifests": "PASS",
        "table_manifests": "PASS",
    }
    assert "AssertionError: boom" in run.text
    assert "skeleton does not conform to revision B" in run.text


def test_a_case_that_fails_once_and_then_passes_is_inconclusive(tmp_path: Path) -> None:
    flaky = (
        '    number = int(params["number"]) + (SETTINGS.pop("revision") == "B" and 1)\n    SETTINGS["revision"] = "R"'
    )
    adapter = changed_skeleton(tmp_path, ('    number = int(params["number"])', flaky))
    run = run_suite(tmp_path, f"{NAMES}/region_manifests", "--memwal-adapter", adapter, "--memwal-revision", "B")
    assert run.status == 1
    assert verdicts_of(run) == {"region_manifests": "INCONCLUSIVE"}
    assert "FAIL at first, PASS when run again" in run.text


def test_when_the_smoke_stage_fails_nothing_else_of_the_revision_is_judged(tmp_path: Path) -> None:
    roles = ('"roles": [],', '"roles": ["writer", "reader"],')
    creates = ('"capabilities": ["eval.name"]', '"capabilities": ["eval.name", "table.create"]')
    adapter = changed_skeleton(tmp_path, roles, creates)
    cases = (NAMES, "conformance/scenarios/smoke.json")
    run = run_suite(tmp_path, *cases, "--memwal-adapter", adapter, "--memwal-revision", "B")
    assert run.status == 1
    assert [case["verdict"] for case in run.summary["cases"]] == ["CRASH"]
    assert "not run: the smoke stage of revision B failed" in run.text
    assert "1 failed, 4 skipped" in run.text


# Verdicts and tallies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (Finding(clauses=("WAL-001",), broken=None), Verdict.PASS),
        (Finding(clauses=("WAL-001",), broken="x"), Verdict.FAIL),
        (Finding(clauses=("WAL-016",), broken="x"), Verdict.WARN),
        (Finding(clauses=("WAL-002",), broken="x"), Verdict.OBSERVED),
        (Finding(clauses=("WAL-016", "WAL-001"), broken="x"), Verdict.FAIL),
        (Finding(clauses=("WAL-001",), broken="x", ambiguity="AMB-24"), Verdict.OBSERVED),
        (Finding(clauses=(), broken="x", witness=True), Verdict.INCONCLUSIVE),
        (Finding(clauses=(), broken="x"), Verdict.REFUSED),
        (Finding(clauses=(), broken=None, witness=True), Verdict.PASS),
    ],
)
def test_a_finding_weighs_as_much_as_its_heaviest_clause(finding: Finding, verdict: Verdict) -> None:
    assert level_of(finding, LEVELS) is verdict


def test_the_most_severe_verdict_of_a_case_counts() -> None:
    assert merged([Verdict.PASS, Verdict.WARN, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert merged([Verdict.FAIL, Verdict.INCONCLUSIVE]) is Verdict.FAIL
    assert merged([Verdict.INCONCLUSIVE, Verdict.REFUSED, Verdict.FAIL]) is Verdict.FAIL
    assert merged([]) is Verdict.PASS


def result(verdict: Verdict, *findings: Finding, clauses: tuple[str, ...] = ()) -> CaseResult:
    return CaseResult(
        case="c",
        revision="B",
        area="scenario",
        title="T.",
        clauses=clauses,
        verdict=verdict,
        findings=findings,
        text="why",
        roles=() if verdict is Verdict.UNSUPPORTED else ("writer",),
    )


HELD, BROKEN = Finding(clauses=("WAL-001",), broken=None), Finding(clauses=("WAL-001",), broken="x")
REFUSED = Finding(clauses=(), broken="x")


def test_a_failing_case_that_passes_when_run_again_is_inconclusive() -> None:
    first, second = result(Verdict.FAIL, BROKEN), result(Verdict.PASS, HELD)
    assert agreed(first, result(Verdict.FAIL, BROKEN)) is first
    settled = agreed(first, second)
    assert settled.verdict is Verdict.INCONCLUSIVE
    assert settled.text.startswith("FAIL at first, PASS when run again")
    assert settled.findings == ()


@pytest.mark.parametrize(
    ("results", "conforms", "words"),
    [
        (
            [result(Verdict.PASS, HELD)],
            True,
            "x conforms to revision B, roles writer: 1 of 1 MUST, 0 warnings, 0 incon",
        ),
        ([result(Verdict.PASS, HELD), result(Verdict.FAIL, BROKEN)], False, "does not conform .* 0 of 1 MUST.*WAL-001"),
        ([result(Verdict.CRASH, clauses=("FENCE-001",))], False, "does not conform .* 0 of 1 MUST.* 1 crashed"),
        ([result(Verdict.PASS, HELD), result(Verdict.CRASH, clauses=("WAL-001",))], False, "1 of 1 MUST.* 1 crashed$"),
        ([result(Verdict.REFUSED, REFUSED, clauses=("WAL-001",))], False, "does not .* 0 of 1 MUST.* 1 refused$"),
        ([result(Verdict.PASS, HELD), result(Verdict.REFUSED, REFUSED)], False, "does not .* 1 of 1 MUST.* 1 refused$"),
        ([result(Verdict.PASS, HELD), result(Verdict.UNSUPPORTED, clauses=("FENCE-001",))], True, "1 of 1 MUST"),
        (
            [result(Verdict.PASS, HELD), result(Verdict.INCONCLUSIVE)],
            None,
            "not shown to .* 1 incon.*: what incon",
        ),
        (
            [result(Verdict.HARNESS_ERROR, clauses=("WAL-001",))],
            None,
            "not shown .* 0 of 1 .* 1 harness errors.*: the adapter broke the protocol, or the suite failed",
        ),
        ([result(Verdict.UNSUPPORTED)], None, "0 of 0 MUST.*: no role was tested, no MUST was looked at$"),
        ([result(Verdict.WARN, HELD, Finding(clauses=("WAL-016",), broken="x"))], True, "1 of 1 MUST, 1 warnings"),
    ],
)
def test_the_sentence_says_no_more_than_was_shown(results: list[CaseResult], conforms: Any, words: str) -> None:
    tallied = report.tally("B", results, LEVELS, total=len(results))
    assert tallied.conforms is conforms
    assert re.search(words, report.sentence(HELLO, tallied)), report.sentence(HELLO, tallied)


@pytest.mark.parametrize(
    ("revision", "capability", "told"),
    [("B", "eval.name", True), ("B", "eval.bloom", False), ("R", "eval.name", False)],
)
def test_filters_that_nobody_can_ask_about_are_told(revision: str, capability: str, told: bool) -> None:
    """Under revision R the judge reads them itself."""
    tallied = report.tally(revision, [replace(result(Verdict.PASS, HELD), revision=revision)], LEVELS, total=1)
    said = report.sentence(replace(HELLO, capabilities=frozenset({capability})), tallied)
    assert ("; not looked into: what its bloom filters say, for want of eval.bloom" in said) is told


@pytest.mark.parametrize("roles", [(), ("writer",)])
def test_a_run_in_which_no_role_was_tested_shows_no_conformance(roles: tuple[str, ...]) -> None:
    vector, scenario = replace(result(Verdict.PASS, HELD), area="name", roles=()), result(Verdict.UNSUPPORTED)
    tallied = report.tally("B", [vector, scenario], LEVELS, total=2)
    assert (tallied.conforms, len(tallied.held), len(tallied.must)) == (None, 1, 1)
    said = report.sentence(replace(HELLO, roles=roles), tallied)
    assert said.startswith("x was not shown to conform to revision B, ")
    assert said.endswith("; neither shown nor refuted: no role was tested")
    assert ("; claimed and not tested: writer; " in said) is bool(roles)
    assert report.tally("0", [vector], LEVELS, total=1).conforms is True  # revision 0 has no roles
    assert report.tally("B", [replace(vector, verdict=Verdict.FAIL)], LEVELS, total=1).conforms is False


def test_a_role_that_is_claimed_and_was_not_tested_is_not_among_those_that_conform() -> None:
    hello = replace(HELLO, roles=("writer", "reader"), partial=("merge.run", "gc.run"))
    written = replace(result(Verdict.PASS, HELD), roles=("writer", "merger"))
    tallied = report.tally("B", [written, result(Verdict.UNSUPPORTED, clauses=("FENCE-001",))], LEVELS, total=2)
    assert report.sentence(hello, tallied) == (
        "x conforms to revision B, roles writer, merger in part: 1 of 1 MUST, 0 warnings, 0 inconclusive, "
        "1 unsupported; claimed and not tested: reader, collector in part"
    )
    tallied = report.tally("B", [replace(written, roles=())], LEVELS, total=1)
    assert report.sentence(hello, tallied).startswith("x was not shown to conform to revision B, no role tested, ")
    tallied = report.tally("0", [written], LEVELS, total=1)
    assert report.sentence(hello, tallied).startswith("x conforms to revision 0, which has no roles: 1 of 1 MUST")
    assert "not tested" not in report.sentence(hello, tallied)


def test_a_result_travels_as_text() -> None:
    whole = result(Verdict.FAIL, BROKEN, Finding(clauses=(), broken="y", witness=True), clauses=("WAL-001",))
    assert report.from_text(report.to_text(whole)) == whole


def test_a_clause_that_a_revision_does_not_have_cannot_fail_it() -> None:
    assert levels_of("A")["WAL-004"] == "MUST"
    assert levels_of("B")["WAL-004"] == "MAY"
    assert levels_of("R")["WAL-004"] == "MUST"
    assert levels_of("B")["TXN-019"] == "MUST"
