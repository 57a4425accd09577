"""A run behind the gate is a history of the abstract machine, or ends at a line of the log."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from memwal.ids import RegionId
from memwal_conformance.adapters.process import AdapterError, AdapterProcess
from memwal_conformance.places import SUITE
from memwal_conformance.protocol import Json
from memwal_conformance.proving import broken_survey
from memwal_conformance.proving.broken import engine_with
from memwal_conformance.registry.levels import levels_of
from memwal_conformance.running import machine, scenarios
from memwal_conformance.running.cases import CaseRunner
from memwal_conformance.verdicts import CaseResult, Finding, Verdict
from memwal_model.following import Stopped
from memwal_model.machine import ACTIONS
from memwal_sim import blame, bugs
from memwal_sim.following import ChangeTold, StoreChange
from memwal_sim.store import Contents

GATE = SUITE / "scenarios" / "gate"


def said(result: CaseResult) -> list[Finding]:
    """What the machine objects to."""
    return [each for each in result.findings if each.broken and each.broken.startswith(machine.CHECK)]


def test_the_reference_makes_steps_of_the_machine(cases: CaseRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    history = machine.history
    monkeypatch.setattr(machine, "history", lambda *given: told.append(history(*given)) or told[-1])
    result = cases.run(scenarios.load(GATE / "zombie_append.json"))
    assert result.verdict is Verdict.PASS, result.text
    assert said(result) == []
    steps = {name for each in told[0] for name, _ in each.steps}
    assert {"claim", "carry_out", "recover", "acknowledge", "replay"} <= steps


@pytest.mark.parametrize(
    ("bug", "name", "clause", "words"),
    [
        (
            "unresolved_put",
            "wal_put_lost",
            "FENCE-017",
            "position 3 was put under epoch 1: the nearest step is carry_out w1 3, "
            "but w1 cannot have got past position 2, where no entry stands",
        ),
        ("claim_keeps_epoch", "crash_in_a_claim", "FENCE-005", "nearest step is claim"),
        ("buffered_put", "zombie_append", "WAL-001", "was acknowledged to one: the nearest step is acknowledge w1"),
    ],
)
def test_a_planted_bug_ends_the_run_at_its_request(
    bug: str, name: str, clause: str, words: str, cases: CaseRunner
) -> None:
    (planted,) = bugs.choose([bug])
    with engine_with(planted):
        found = said(cases.run(scenarios.load(GATE / f"{name}.json")))
    assert [each.clauses for each in found] == [(clause,)]
    assert words in str(found[0].broken)
    assert "of the log, " in str(found[0].broken)


def test_a_run_that_needs_another_reading_is_an_observation(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["no_barrier"])
    with engine_with(planted):
        found = said(cases.run(scenarios.load(GATE / "zombie_append.json")))
    assert {each.ambiguity for each in found} == {"AMB-24"}
    assert "another reading than `claim_barrier`" in str(found[0].broken)


@pytest.mark.parametrize(
    ("defect", "name", "words"),
    [
        (
            "drops_puts",
            "wal_put_lost",
            "2, b was acknowledged to one: the nearest step is acknowledge w1, but no entry has",
        ),
        ("acknowledges_early", "crash_between_wal_put_and_answer", "1, a was acknowledged to one: the nearest step is"),
    ],
)
def test_an_acknowledgement_of_what_is_in_no_entry_ends_the_run(
    defect: str, name: str, words: str, cases: CaseRunner
) -> None:
    deviating = replace(cases, start=lambda _: broken_survey.actor("B", defect))
    (found,) = said(deviating.run(scenarios.load(GATE / f"{name}.json")))
    assert (found.clauses, found.ambiguity) == (("WAL-001",), None)
    assert words in str(found.broken)


def test_an_acknowledgement_at_a_successors_barrier_ends_the_run(
    cases: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swallows(_: str) -> AdapterProcess:
        process = broken_survey.actor("B")
        call = process.call

        def swallowed(message: str, params: Json) -> Json:
            try:
                return call(message, params)
            except AdapterError:
                if message != "writer.put":
                    raise
                return {}

        monkeypatch.setattr(process, "call", swallowed)
        return process

    (found,) = said(replace(cases, start=swallows).run(scenarios.load(GATE / "zombie_append.json")))
    assert found.clauses == ("WAL-001",)
    assert "2, late was acknowledged to one: the nearest step is acknowledge w1, but no entry has" in str(found.broken)


@pytest.mark.parametrize(
    ("lost", "actor", "changed", "clause"),
    [
        (True, "w", "version: 3 -> 4", "MANIFEST-020"),
        (False, "w", "version: 3 -> 4", "FENCE-005"),
        (True, "other", "version: 3 -> 4", "FENCE-005"),
        (True, "w", "version: 3 -> 4; hint: 1 -> 2", "FENCE-005"),
    ],
)
def test_a_manifest_that_is_written_again_after_a_lost_answer_is_no_claim(
    lost: bool, actor: str, changed: str, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pylance 14.0.2 does: line 17 is carried out and answered 500, 18 is answered 412, and 24 writes it again."""
    region = RegionId("0a0b0c0d-0000-4000-8000-000000000001")
    first = ChangeTold(region, StoreChange(Contents(), actor, lost, 17), ())
    stopped = Stopped(changed, ("claim", ("w3",)), "epoch: 3 -> 2 is left", left="epoch")
    again = ChangeTold(region, StoreChange(Contents(), "w", False, 24), (), stopped)
    monkeypatch.setattr(machine, "history", lambda *_: [first, again])
    (found,) = machine.looked(SimpleNamespace(log=()), "R", "t")
    assert found.clauses == (clause,)
    assert ("the same content once more" in str(found.broken)) is (clause == "MANIFEST-020")


def test_each_clause_that_it_names_is_one_of_every_revision() -> None:
    assert set(blame.CLAUSES) <= set(ACTIONS)
    for revision in "ABR":
        assert {*blame.CLAUSES.values(), *blame.LEFT.values(), blame.LAGS[revision], blame.ANY_CHANGE} <= set(
            levels_of(revision)
        )


@pytest.mark.parametrize(
    ("stopped", "clause"),
    [
        (Stopped("", ("flush", ("w1", 2, 1)), "p ≤ q does not hold"), "MANIFEST-038"),
        (Stopped("", ("flush", ("w1", 1, 2)), "q < at(w) does not hold"), "MANIFEST-009"),
        (Stopped("", ("list_generation", ("w1",)), "current: 2 -> 3 is left", left="current"), "GEN-003"),
        (Stopped("", ("list_generation", ("w1",)), "epoch = mine(w) does not hold"), "FENCE-009"),
        (Stopped("", None, ""), "MANIFEST-020"),
    ],
)
def test_the_clause_is_that_of_what_cannot_be_and_not_of_the_nearest_step_alone(stopped: Stopped, clause: str) -> None:
    assert blame.blamed(stopped, "B") == clause


def test_a_region_whose_newest_manifest_cannot_be_read_is_left_to_others(cases: CaseRunner) -> None:
    (planted,) = bugs.choose(["torn_entry"])
    with engine_with(planted):
        result = cases.run(scenarios.load(GATE / "crash_between_wal_put_and_answer.json"))
    assert result.verdict is Verdict.FAIL, result.text
    assert said(result) == []
