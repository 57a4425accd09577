"""Designs that the texts permit pass: each was failed once, or could not be judged. What they may not lose is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

import pytest
from kit.designs import engine_of, handlers_of
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import AdapterError, ErrorKind, Json
from memwal_conformance.proving import broken_survey
from memwal_conformance.proving.broken import engine_with
from memwal_conformance.running import scenarios
from memwal_conformance.running.cases import CaseRunner
from memwal_conformance.verdicts import CaseResult, Verdict
from memwal_sim import bugs

JUDGED = {
    "flushes_at_close": {"a_put_changes_no_manifest_and_stores_a_row_once": Verdict.PASS},
    "flushes_after_recovery": {
        "every_writer_leaves_rows_behind": Verdict.PASS,
        "fenced_writer_does_not_flush": Verdict.PASS,
        "second_writer_fences_first": Verdict.PASS,
        "gate/fenced_at_the_flush_commit": Verdict.PASS,
    },
    "no_hint": {
        "gate/hint_stays_behind": Verdict.PASS,
        "gate/hint_never_written": Verdict.PASS,
        "a_commit_leaves_a_hint": Verdict.WARN,
    },
    "looks_after_each_put": {
        "gate/entry_before_the_barrier": Verdict.OBSERVED,
        "gate/zombie_append": Verdict.OBSERVED,
    },
    "no_end_mark": {"smoke": Verdict.OBSERVED},
    "says_null": {"second_writer_fences_first": Verdict.PASS},
    "says_nothing": {"nothing_is_written_where_there_is_nothing": Verdict.PASS},
}
"""Design -> cases that it meets, and their verdicts."""


def judged(cases: CaseRunner, design: str, case: str) -> CaseResult:
    """The result of a case for an adapter of the design, in this process."""

    def start(_: str) -> AdapterProcess:
        process = broken_survey.InProcess("B")
        process.made = partial(handlers_of, design)
        process.kill()
        process.call("configure", {"revision": "B", "settings": {}})
        return cast(AdapterProcess, process)

    with engine_of(design):
        return replace(cases, start=start).run(scenarios.load(SUITE / "scenarios" / f"{case}.json"))


@pytest.mark.parametrize(("design", "case"), [(design, case) for design, cases in JUDGED.items() for case in cases])
def test_a_permitted_design_is_not_failed(design: str, case: str, cases: CaseRunner) -> None:
    result = judged(cases, design, case)
    assert result.verdict is JUDGED[design][case], result.text


def test_a_strong_read_from_the_memory_of_a_fenced_writer_breaks_its_clause(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["memory_of_a_fenced_writer"])
    with engine_with(planted):
        result = cases.run(scenarios.load(SUITE / "scenarios" / "memory_of_a_fenced_writer_is_not_strong.json"))
    assert result.verdict is Verdict.FAIL, result.text
    assert {c for f in result.findings if f.broken and not f.witness for c in f.clauses} == {"READ-008"}


@pytest.mark.parametrize(
    ("kind", "verdict", "blamed"), [("corrupt", Verdict.FAIL, {"GEN-010"}), ("storage", Verdict.REFUSED, set())]
)
def test_a_filter_that_its_writer_finds_damaged_breaks_its_clause_and_an_answer_that_is_refused_does_not(
    kind: ErrorKind, verdict: Verdict, blamed: set[str], cases: CaseRunner
) -> None:
    class Refusing(broken_survey.InProcess):
        def call(self, message: str, params: Json) -> Json:
            if message == "eval.bloom":
                raise AdapterError(kind, "no")
            return super().call(message, params)

    start = lambda _: cast(AdapterProcess, Refusing("B"))  # noqa: E731
    flushed = scenarios.load(SUITE / "scenarios" / "recovered_rows_are_flushed.json")
    result = replace(cases, start=start).run(flushed)
    assert result.verdict is verdict, result.text
    assert {c for f in result.findings if f.broken for c in f.clauses} == blamed
