"""The suite is calibrated: what the texts permit passes, and what they forbid fails for the clause, whoever does it."""

import subprocess
from pathlib import Path

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.proving import broken_survey, deviating
from memwal_conformance.proving.broken import planted
from memwal_conformance.proving.deviations import NODE, SUBJECTS, broken_clauses, deviations, judged, wrong
from memwal_conformance.verdicts import Finding, Verdict
from memwal_sim import bugs

KNOWN = deviations()
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on this machine")


def asked(subject: str) -> list[object]:
    """A parameter for each case of each deviation that a subject has."""
    return [
        pytest.param(name, case, id=f"{name}-{Path(case.partition('::')[0]).stem}")
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
