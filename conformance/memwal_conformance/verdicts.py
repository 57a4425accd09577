"""Verdicts: what one expectation says about its clauses, and what the expectations of a case add up to.

A broken MUST fails; a broken SHOULD warns; a broken MAY, or an answer that the text leaves open, is recorded as a
choice of the implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What a case came to, mildest first."""

    PASS = "PASS"  # noqa: S105 - no password
    OBSERVED = "OBSERVED"
    WARN = "WARN"
    UNSUPPORTED = "UNSUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    REFUSED = "REFUSED"
    FAIL = "FAIL"
    HANG = "HANG"
    CRASH = "CRASH"
    HARNESS_ERROR = "HARNESS_ERROR"


MEANING = {
    Verdict.PASS: "every expectation held, and what had to happen did happen",
    Verdict.OBSERVED: "the text leaves the answer open; the choice is recorded",
    Verdict.WARN: "a SHOULD clause is broken",
    Verdict.UNSUPPORTED: "the implementation does not claim what the case needs",
    Verdict.INCONCLUSIVE: "the case did not show what it is about",
    Verdict.REFUSED: "a message ended in an error that was not due there, and no clause is broken by that alone",
    Verdict.FAIL: "a MUST clause is broken",
    Verdict.HANG: "a message was never answered; behind the gate the text says how many requests were sent meanwhile",
    Verdict.CRASH: "the adapter ended without being asked to",
    Verdict.HARNESS_ERROR: "the adapter broke the protocol, or the suite itself is at fault",
}
"""One sentence each, for the reports."""

EXPLORATION = "exploration"
"""Area of a case that explores, and the beginning of the name of the folder where its findings are."""

FAILING = frozenset(
    {Verdict.INCONCLUSIVE, Verdict.REFUSED, Verdict.FAIL, Verdict.HANG, Verdict.CRASH, Verdict.HARNESS_ERROR}
)
"""Verdicts that fail the test run. UNSUPPORTED is a skip; the others pass."""

BY_LEVEL = {"MUST": Verdict.FAIL, "SHOULD": Verdict.WARN, "MAY": Verdict.OBSERVED}
"""What breaking a clause of a level means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One expectation that was looked at."""

    clauses: tuple[str, ...]
    """What it is about; none for a refusal that says nothing of any."""
    broken: str | None
    """What was seen instead of what was expected; None if the expectation held."""
    ambiguity: str | None = None
    """The note under which the text leaves the answer open."""
    witness: bool = False
    """Not an expectation, but something that must have happened for the case to show anything."""
    chosen: str | None = None
    """Where the expectation held: what the implementation's own revision chose against the texts, and which note is
    about that."""


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
    steps: tuple[dict[str, Any], ...] = ()
    """What was done, in order: messages as `memwal_conformance.adapters.process.Exchange` has them, ``{"kill": actor,
    "died": bool}``, ``{"check": name, "broken": text or null, "clauses": […]}``, ``{"rule": label, "what": "arm",
    "reached" or "release"}``; ``{"again": verdict}`` stands between the two runs of a case that was run a second time.
    """
    roles: tuple[str, ...] = ()
    """Roles that were tested: whose messages the scenario sent. None for a vector, whatever it asks."""
    requests: tuple[dict[str, Any], ...] = ()
    """The log of the gate, if the case used it, as `memwal_conformance.gate.log.LogEntry.to_json` has it. A step may
    say in ``requests`` how many of them had been logged when it was over."""
    command: str = ""
    """What runs this case alone."""
    scenario: dict[str, Any] | None = None
    """The scenario that was run, if it is not that of the file: one crash of many, or one order of a race."""


def level_of(finding: Finding, levels: Mapping[str, str]) -> Verdict:
    """What one finding comes to. Raises KeyError for a clause that the registry does not have."""
    if finding.broken is None:
        return Verdict.PASS if finding.chosen is None else Verdict.OBSERVED
    if finding.witness:
        return Verdict.INCONCLUSIVE
    if finding.ambiguity is not None:
        return Verdict.OBSERVED
    if not finding.clauses:
        return Verdict.REFUSED
    return max((BY_LEVEL[levels[clause]] for clause in finding.clauses), key=list(Verdict).index)


def merged(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe of several verdicts; PASS for none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PASS)


def agreed(first: CaseResult, second: CaseResult) -> CaseResult:
    """The result of a case that failed and was run again: the first one if both agree, else INCONCLUSIVE."""
    if first.verdict == second.verdict:
        return first
    return replace(
        first,
        verdict=Verdict.INCONCLUSIVE,
        findings=(),
        text=f"{first.verdict} at first, {second.verdict} when run again\n{first.text or second.text}",
        unmapped=first.unmapped + second.unmapped,
        steps=(*first.steps, {"again": first.verdict.value}, *second.steps),
    )
