"""What shows a finding is made small: faults and preemptions first, then the life."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from memwal_conformance.exploring import judging, lives, orders, plans
from memwal_conformance.exploring.findings import ForeignFinding, Notebook
from memwal_conformance.exploring.judging import Symptom
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.exploring.plans import ALONE, Plan
from memwal_conformance.exploring.shrinking import ShownRun, simpler, smallest
from memwal_conformance.gate import Do, LogEntry, RequestFate

LIFE = ForeignLife(name="two", about="", steps=lives.steps_of("a put, b put, a put", "two"))
HEAD = Symptom(oracle="rows", words="a row is missing", detail="row 7 is missing", clauses=(), order=0)


def entry(order: int, operation: str, name: str) -> LogEntry:
    class_ = name.partition("/")[0]
    return LogEntry(order, "a", class_, name, name, (), operation, RequestFate.NORMAL, 200, 0, "", 0, "", "", order)


def faults() -> list[Plan]:
    log = (entry(1, "GET", "hint"), entry(2, "CREATE", "wal/@1"), entry(3, "CREATE", "wal/@2"))
    lived: Any = SimpleNamespace(log=log, life=SimpleNamespace(actors=("a", "b")), during=lambda _: "put")
    return plans.faults(lived)


def fault(words: str) -> Plan:
    return next(each for each in faults() if each.words == words)


FOR_EVER = "each wal CREATE of a is carried out and answered 500"
LATE = "a's CREATE of wal/@2 is carried out late, after everything else, and never answered before"
READ = "a's GET of hint is not carried out, and the connection reset"


def small(
    plan: Plan, shows: Callable[[ForeignLife, Plan], bool], life: ForeignLife = LIFE, *, over: bool = False
) -> ShownRun:
    def run(life: ForeignLife, plan: Plan) -> ShownRun:
        lived: Any = SimpleNamespace(life=life)
        return ShownRun(plan, lived, [HEAD] if shows(life, plan) else [])

    return smallest(run, run(life, plan), lambda: over)


@pytest.mark.parametrize(
    ("words", "deeds", "told"),
    [
        (FOR_EVER, {Do.APPLY_THEN_FAIL}, "a's CREATE of wal/@1 is carried out and answered 500"),
        (FOR_EVER, {Do.APPLY_THEN_FAIL, Do.LOSE}, "a's CREATE of wal/@1 is not carried out, and the connection reset"),
        (LATE, {Do.HOLD_BEFORE}, LATE),
        (LATE, {Do.HOLD_BEFORE, Do.FAIL}, "a's CREATE of wal/@2 is not carried out and answered 500"),
        (READ, {Do.LOSE, Do.APPLY_THEN_FAIL}, READ),
    ],
)
def test_a_fault_is_told_by_the_simplest_that_shows_it(words: str, deeds: set[Do], told: str) -> None:
    found = small(fault(words), lambda _, plan: bool(plan.rules) and plan.rules[0].do in deeds)
    assert (found.plan.words, len(found.plan.rules)) == (told, 1)
    assert found.plan.hit == f"{found.plan.rules[0].at.class_} {found.plan.rules[0].at.operation}"


def test_a_fault_that_has_to_last_lasts_no_longer_than_it_has_to() -> None:
    found = small(fault(FOR_EVER), lambda _, plan: len(plan.rules) > 1 or plan.words == FOR_EVER)
    assert found.plan.words == "from number 1 on, each of 3 wal CREATE of a is not carried out and answered 500"


def test_a_plan_with_a_fault_and_two_preemptions_keeps_those_that_it_needs() -> None:
    both = orders.plan_of({3: "b", 5: "a"}, fault(FOR_EVER))
    assert small(both, lambda _, plan: True).plan is ALONE
    assert (
        small(both, lambda _, plan: bool(plan.rules)).plan.words
        == "a's CREATE of wal/@1 is not carried out and answered 500"
    )
    order = small(both, lambda _, plan: bool(plan.switches) and 5 in (plan.switches or {})).plan
    assert (order.words, order.rules, order.switches) == ("a runs at decision 6", (), {5: "a"})
    needed = small(both, lambda _, plan: bool(plan.rules) and 3 in (plan.switches or {})).plan
    assert (len(needed.rules), needed.rules[0].do, needed.switches) == (1, Do.FAIL, {3: "b"})
    assert needed.hit == "wal CREATE, order"
    assert small(both, lambda _, plan: plan == both).plan == both


def test_what_was_seen_again_is_told_as_it_was_seen_where_no_time_is_left_to_make_it_small() -> None:
    found = small(fault(LATE), lambda *_: True, over=True)
    assert (found.plan.words, found.lived.life, found.cut, found.symptoms) == (LATE, LIFE, True, [HEAD])


def test_what_does_less_has_fewer_or_simpler_faults_and_no_plan_does_less_than_none() -> None:
    assert list(simpler(ALONE)) == list(simpler(dataclasses.replace(ALONE, crash=3))) == []
    assert [each.words for each in simpler(orders.at_random(1, 0, 9))] == ["no fault", "one operation after another"]
    for plan in faults():
        less = list(simpler(plan))
        assert less[0] is ALONE
        assert plan.words not in [each.words for each in less]
        reads = {each.rules[0].do for each in less[1:]} if plan.hit.startswith("hint") else set()
        assert Do.APPLY_THEN_FAIL not in reads


def test_a_smaller_life_must_show_the_symptom_twice_in_a_row() -> None:
    runs: list[ForeignLife] = []

    def lucky(life: ForeignLife, _: Plan) -> bool:
        runs.append(life)
        return len(life.steps) == len(LIFE.steps) or runs.count(life) == 1

    assert small(ALONE, lucky).lived.life == LIFE
    assert (
        str(small(ALONE, lambda life, _: any(step.actor == "b" for step in life.steps)).lived.life.steps[0]) == "b put"
    )


def added(notebook: Notebook, plan: Plan, symptom: Symptom = HEAD) -> ForeignFinding:
    lived: Any = SimpleNamespace(life=LIFE, states=[None], log=(), told=(), region_ids=())
    return notebook.add([symptom], plan, lived, cut=False)


UNDER_OTHERS = dataclasses.replace(HEAD, other_limits=True)


def test_a_finding_without_any_fault_absorbs_the_same_under_faults() -> None:
    notebook = Notebook("x", "1", "B")
    under_fault = added(notebook, fault(LATE))
    assert notebook.known([HEAD], fault(FOR_EVER)) is under_fault  # the same kind of object is hit
    assert notebook.known([HEAD], fault(READ)) is None
    assert notebook.known([HEAD], ALONE) is None  # which says more
    alone = added(notebook, ALONE)
    assert notebook.findings == [alone]
    assert (alone.number, alone.seen, alone.also) == (2, 2, [f"two: {LATE}"])
    assert notebook.known([HEAD], fault(READ)) is notebook.known([HEAD], ALONE) is alone


def test_what_is_seen_under_the_limits_of_the_writer_is_not_absorbed_by_what_others_see() -> None:
    notebook = Notebook("x", "1", "B")
    others = added(notebook, ALONE, UNDER_OTHERS)
    assert notebook.known([UNDER_OTHERS], fault(LATE)) is others
    assert notebook.known([HEAD], fault(LATE)) is None
    own = added(notebook, ALONE)
    assert notebook.findings == [own]


def test_a_worse_symptom_beside_a_known_one_is_a_finding_of_its_own() -> None:
    notebook = Notebook("x", "1", "B")
    lag = dataclasses.replace(HEAD, oracle="machine", words="the pointer lags")
    added(notebook, ALONE, lag)
    assert notebook.known([lag, HEAD], fault(LATE)) is None


@pytest.mark.parametrize(
    ("wrong", "stored", "appended", "read"),
    [
        ("the row {'id': 1} is missing", ("WAL-001",), ("WAL-001",), ("WAL-001",)),
        ("key (1,) is there twice", ("WAL-001",), (), ("READ-002",)),
        ("the row is {'id': 1} instead of {'id': 1}", ("WAL-001",), ("WAL-001",), ("READ-002",)),
    ],
)
def test_rows_that_are_wrong_break_the_clause_about_what_looked_at_them(
    wrong: str, stored: tuple[str, ...], appended: tuple[str, ...], read: tuple[str, ...]
) -> None:
    assert (judging._by_stored(wrong), judging._by_appended(wrong), judging._by_read(wrong)) == (stored, appended, read)
