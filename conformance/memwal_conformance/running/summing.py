"""The result of a case that is many runs: their findings together, and the first run that went wrong in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..verdicts import CaseResult, Verdict, merged
from .scenarios import SuiteScenario


def summed(scenario: SuiteScenario, results: Sequence[CaseResult], counted: str) -> CaseResult:
    """One result of at least one run; ``counted`` says how many there were of how many."""
    verdict = merged(result.verdict for result in results)
    worst = next(result for result in results if result.verdict is verdict)
    clauses = tuple(dict.fromkeys(clause for result in results for clause in result.clauses))
    text = worst.text
    if verdict is not Verdict.PASS:
        bad = sum(result.verdict is not Verdict.PASS for result in results)
        text = f"{bad} of {len(results)} runs went wrong ({counted}); the first of them:\n{worst.text}"
    return replace(
        worst,
        title=scenario.title,
        clauses=clauses,
        verdict=verdict,
        findings=tuple(finding for result in results for finding in result.findings),
        text=text,
        unmapped=tuple(native for result in results for native in result.unmapped),
    )
