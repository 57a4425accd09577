"""The suite is calibrated: what the texts permit passes, and what they forbid fails for the clause, whoever does it."""

import subprocess
from pathlib import Path

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.proving import broken_survey, deviating
from memwal_conformance.proving.broken import planted
from memwal_conformance.proving.deviations import NODE, SUBJECTS, Deviation, broken_clauses, deviations, judged, wrong
from memwal_conformance.verdicts import Verdict
from memwal_sim import bugs

KNOWN = deviations()
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on this machine")


def marks(deviation: Deviation) -> list[pytest.MarkDecorator]:
    return [] if deviation.open is None else [pytest.mark.xfail(reason=deviation.open)]


def asked(subject: str) -> list[object]:
    """A parameter for each case of each deviation that a subject has."""
    return [
        pytest.param(name, case, id=f"{name}-{Path(case.partition('::')[0]).stem}", marks=marks(deviation))
        for name, deviation in KNOWN.items()
        for case in deviation.cases
        if subject in deviation.of
    ]


@pytest.mark.parametrize(("name", "case"), asked("reference"))
def test_the_suite_judges_a_deviation_of_the_reference_as_the_texts_do(name: str, case: str, tmp_path: Path) -> None:
    """In this process, as the defects of adapters are asked."""
    with bugs.replacing(planted(name).replaced):
        found = broken_survey.judge(case, tmp_path, name)
    assert wrong(KNOWN[name], case, found.verdict, found.clauses) is None


@pytest.mark.long
@needs_node
@pytest.mark.parametrize(("name", "case"), asked("node"))
def test_the_suite_judges_a_deviation_of_the_second_subject_as_the_texts_do(
    name: str, case: str, tmp_path: Path
) -> None:
    verdict, findings = judged(case, (*SUBJECTS["node"], name), tmp_path, {})
    assert wrong(KNOWN[name], case, verdict, broken_clauses(findings)) is None


@needs_node
@pytest.mark.parametrize("name", ["adds_metadata", "drops_puts", "names_a_spec_nobody_has"])
def test_the_second_subject_is_judged_by_what_it_writes(name: str, tmp_path: Path) -> None:
    deviation = KNOWN[name]
    verdict, findings = judged(deviation.cases[0], (*SUBJECTS["node"], name), tmp_path, {})
    assert wrong(deviation, deviation.cases[0], verdict, broken_clauses(findings)) is None


@needs_node
def test_the_second_subject_has_the_deviations_that_the_table_says_it_has() -> None:
    done = subprocess.run([*SUBJECTS["node"], "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    told = done.stderr.strip().removeprefix("there is no deviation none; there are ").split(", ")
    assert {name for name, deviation in KNOWN.items() if "node" in deviation.of} == set(told)


def test_the_reference_has_the_deviations_that_the_table_says_it_has() -> None:
    assert {name for name, deviation in KNOWN.items() if "reference" in deviation.of} == set(deviating.PLANTS)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('verdict = "FAIL"', "what fails names the clause that it breaks"),
        ('breaks = "WAL-001"\nverdict = "PASS"', "what is permitted names none"),
        ('verdict = "CRASH"', "there is no such subject or verdict"),
        ("other = 1", "other"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(line: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "deviations.toml"
    file.write_text(f'[[deviation]]\nname = "a"\nsays = "S."\nof = ["node"]\ncases = ["c"]\n{line}\n', "utf-8")
    with pytest.raises(InvalidArgument, match=reason):
        deviations(file)


def test_a_verdict_is_wrong_where_it_is_another_or_names_another_clause() -> None:
    forbidden, permitted = KNOWN["drops_puts"], KNOWN["adds_metadata"]
    assert wrong(forbidden, "case", Verdict.FAIL, {"WAL-001", "READ-001"}) is None
    assert "came to FAIL for READ-001, and not for WAL-001" in str(wrong(forbidden, "case", Verdict.FAIL, {"READ-001"}))
    assert "came to PASS, not FAIL" in str(wrong(forbidden, "case", Verdict.PASS, set()))
    assert "came to OBSERVED, not PASS" in str(wrong(permitted, "case", Verdict.OBSERVED, set()))
