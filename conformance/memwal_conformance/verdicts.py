"""Verdicts: what one expectation says about its clauses, and what the expectations of a case add up to.

A broken MUST fails; a broken SHOULD warns; a broken MAY, or an answer that the text leaves open, is recorded as a
choice of the implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a case came to, mildest first."""

    PASS = "PASS"  # noqa: S105 - no password
    OBSERVED = "OBSERVED"
    WARN = "WARN"
    UNSUPPORTED = "UNSUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAIL = "FAIL"
    CRASH = "CRASH"
    HARNESS_ERROR = "HARNESS_ERROR"


MEANING = {
    Verdict.PASS: "every expectation held, and what had to happen did happen",
    Verdict.OBSERVED: "the text leaves the answer open; the choice is recorded",
    Verdict.WARN: "a SHOULD clause is broken",
    Verdict.UNSUPPORTED: "the implementation does not claim what the case needs",
    Verdict.INCONCLUSIVE: "the case did not show what it is about",
    Verdict.FAIL: "a MUST clause is broken",
    Verdict.CRASH: "the adapter ended without being asked to",
    Verdict.HARNESS_ERROR: "the adapter broke the protocol or a time limit, or the suite itself is at fault",
}
"""One sentence each, for the reports."""

FAILING = frozenset({Verdict.INCONCLUSIVE, Verdict.FAIL, Verdict.CRASH, Verdict.HARNESS_ERROR})
"""Verdicts that fail the test run. UNSUPPORTED is a skip; the others pass."""

BY_LEVEL = {"MUST": Verdict.FAIL, "SHOULD": Verdict.WARN, "MAY": Verdict.OBSERVED}
"""What breaking a clause of a level means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One expectation that was looked at."""

    clauses: tuple[str, ...]
    broken: str | None
    """What was seen instead of what was expected; None if the expectation held."""
    ambiguity: str | None = None
    """The note under which the text leaves the answer open."""
    witness: bool = False
    """Not an expectation, but something that must have happened for the case to show anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """Everything about one case that a report needs."""

    case: str
    """Path below ``conformance/`` with what was done, such as ``scenarios/smoke.json::smoke``."""
    revision: str
    area: str
    """Kind of vector, or ``scenario``."""
    title: str
    clauses: tuple[str, ...]
    """Everything that the case is about."""
    verdict: Verdict
    findings: tuple[Finding, ...]
    text: str
    """Why the verdict is not PASS; empty otherwise."""
    unmapped: tuple[str, ...] = ()
    """Native texts of errors of the kind ``internal``."""


def level_of(finding: Finding, levels: Mapping[str, str]) -> Verdict:
    """What one finding comes to. Raises KeyError for a clause that the registry does not have."""
    if finding.broken is None:
        return Verdict.PASS
    if finding.witness:
        return Verdict.INCONCLUSIVE
    if finding.ambiguity is not None:
        return Verdict.OBSERVED
    return max((BY_LEVEL[levels[clause]] for clause in finding.clauses), key=list(Verdict).index)


def merged(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe of several verdicts; PASS for none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PASS)


def agreed(first: CaseResult, second: CaseResult) -> CaseResult:
    """The result of a case that failed and was run again: the first one if both agree, else INCONCLUSIVE."""
    if first.verdict == second.verdict:
        return first
    text = f"{first.verdict} at first, {second.verdict} when run again\n{first.text or second.text}"
    return CaseResult(
        case=first.case,
        revision=first.revision,
        area=first.area,
        title=first.title,
        clauses=first.clauses,
        verdict=Verdict.INCONCLUSIVE,
        findings=(),
        text=text,
        unmapped=first.unmapped + second.unmapped,
    )
