from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta
from kit.toys import IO, increment, processes, watched_counters
from memwal.effects import Put
from memwal.errors import ArtifactError, OutcomeUnknown
from memwal.violations import Violation
from memwal_sim import places
from memwal_sim.exploring.exploration import Bounds, Move
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import Fate
from memwal_sim.store import Contents
from memwal_sim.traces.recording import engine_digest, record
from memwal_sim.traces.replay import Divergence, replay_in
from memwal_sim.traces.trace import Found, Header, Step, Trace, dumps, parse
from memwal_sim.world import World

HEADER = Header(
    scenario="toy",
    revision="B",
    profile="strict",
    readings={},
    bugs=(),
    faults=0,
    preemptions=None,
    engine="0123456789abcdef",
    title="A lost update",
    description="",
    violation=Found(clause="TOY", oracle="nothing lost", reason="2 increments ended, and the counter is 1"),
)


def lost_update() -> Trace:
    steps, _ = record(watched_counters(2), explore(watched_counters(2)).trace)
    return Trace(HEADER, steps)


def test_a_history_is_recorded_step_by_step() -> None:
    steps, violation = record(watched_counters(2), explore(watched_counters(2)).trace)
    assert [(s.index, s.actor, s.operation, s.path, s.outcome, s.answer) for s in steps] == [
        (1, "p0", "get", "n", "normal", "1 bytes"),
        (2, "p1", "get", "n", "normal", "1 bytes"),
        (3, "p0", "put", "n", "normal", "done"),
        (4, "p1", "put", "n", "normal", "done"),
    ]
    assert [step.notes for step in steps] == [(), (), ("counted",), ("counted",)]
    assert steps[0].site == "kit.toys.increment"
    assert steps[1].store == Contents({"n": b"0"}).digest[:16]
    assert steps[2].store == steps[3].store == Contents({"n": b"1"}).digest[:16]
    assert violation is not None
    assert violation.clause == "TOY"


def test_a_trace_is_read_as_it_was_written() -> None:
    trace = lost_update()
    assert parse(dumps(trace), "lost.jsonl") == trace


async def looks_first() -> None:
    await IO.head("n")
    await increment()


def test_a_written_trace_fits_the_schema() -> None:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))
    meta.validate(schema)
    for line in dumps(lost_update()).splitlines():
        Draft202012Validator(schema).validate(json.loads(line))


def changed(line: int, **fields: Any) -> str:
    """The text of a good trace whose ``line`` has other ``fields``; a value of ... removes the field."""
    lines = dumps(lost_update()).splitlines()
    found = {**json.loads(lines[line - 1]), **fields}
    lines[line - 1] = json.dumps({key: value for key, value in found.items() if value is not ...})
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.jsonl, line 1: not JSON: Expecting value at column 1"),
        ("[]", 'x.jsonl, line 1: no header: [] is not of type "object"'),
        (changed(1, format=4), "x.jsonl, line 1: format 4 of traces; this program reads 1, 2, 3"),
        (changed(1, scenario=...), 'x.jsonl, line 1: no header: "scenario" is a required property'),
        (changed(1, faults=-1), "x.jsonl, line 1: no header: faults: -1 is less than the minimum of 0"),
        (
            changed(1, seed=7),
            "x.jsonl, line 1: no header: Additional properties are not allowed ('seed' was unexpected)",
        ),
        (changed(3, operation="post"), 'x.jsonl, line 3: no step: operation: "post" is not one of "get", "head"'),
        (changed(3, outcome="fine"), 'x.jsonl, line 3: no step: outcome: "fine" is not one of "normal", "lost"'),
        (changed(4, reply="12"), 'x.jsonl, line 4: no step: reply: "12" does not match'),
        (changed(4, store=...), 'x.jsonl, line 4: no step: "store" is a required property'),
        (changed(5, index=3), "x.jsonl, line 5: step 3 where step 4 belongs"),
        (dumps(lost_update()) + "{", "x.jsonl, line 6: not JSON"),
        (dumps(lost_update()) + "\n", "x.jsonl, line 6: not JSON"),
    ],
)
def test_a_broken_trace_is_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        parse(text, "x.jsonl")
    assert message in str(caught.value)
    assert caught.value.clause == "TRACE"


def test_a_replay_of_the_same_engine_reproduces_the_violation_without_divergence() -> None:
    trace = lost_update()
    replayed = replay_in(watched_counters(2), trace)
    assert replayed.reproduced
    assert replayed.divergence is None
    assert replayed.violation_at == 4
    assert replayed.steps == trace.steps
    assert replayed.engine_changed


def test_an_engine_with_the_recorded_sources_has_not_changed() -> None:
    trace = Trace(replace(HEADER, engine=engine_digest()), lost_update().steps)
    assert not replay_in(watched_counters(2), trace).engine_changed


def test_a_replay_stops_where_it_is_asked_to() -> None:
    replayed = replay_in(watched_counters(2), lost_update(), until=3)
    assert len(replayed.steps) == 3
    assert replayed.stopped_early
    assert replayed.violation is None
    assert not replayed.reproduced


def test_a_history_that_no_longer_breaks_anything_is_not_reproduced() -> None:
    trace = lost_update()
    world = replace(watched_counters(2), oracles=())
    replayed = replay_in(world, trace)
    assert (replayed.reproduced, replayed.divergence) == (False, None)


def test_another_violation_is_no_reproduction() -> None:
    header = replace(HEADER, violation=Found(clause="TOY-2", oracle="nothing lost", reason="other"))
    assert not replay_in(watched_counters(2), Trace(header, lost_update().steps)).reproduced


def test_the_first_reply_that_differs_is_the_divergence() -> None:
    trace = lost_update()
    world = replace(watched_counters(2), contents=Contents({"n": b"10"}))
    assert replay_in(world, trace).divergence == Divergence(
        1, "reply", f"1 bytes ({trace.steps[0].reply})", "2 bytes (" + replay_in(world, trace).steps[0].reply + ")"
    )


def test_contents_that_differ_after_an_equal_reply_are_a_divergence() -> None:
    trace = lost_update()
    world = replace(watched_counters(2), contents=Contents({"n": b"0", "more": b""}))
    divergence = replay_in(world, trace).divergence
    assert divergence is not None
    assert (divergence.index, divergence.what) == (1, "store")


def test_a_request_that_the_trace_does_not_have_is_let_through_and_reported() -> None:
    world = replace(watched_counters(2), processes=processes(looks_first, looks_first))
    replayed = replay_in(world, lost_update())
    assert replayed.divergence == Divergence(1, "request", "get n", "head n")
    assert replayed.reproduced
    assert [step.operation for step in replayed.steps] == ["head", "get", "head", "get", "put", "put"]


def test_a_step_that_the_engine_no_longer_makes_is_passed_over_and_reported() -> None:
    world = replace(watched_counters(2), processes=processes(looks_first, looks_first))
    trace = Trace(HEADER, record(world, explore(world).trace)[0])
    assert len(trace.steps) == 6
    replayed = replay_in(watched_counters(2), trace)
    assert replayed.divergence == Divergence(1, "request", "head n", "get n")
    assert replayed.reproduced
    assert len(replayed.steps) == 4


def test_a_step_of_a_process_that_has_ended_is_a_divergence() -> None:
    trace = lost_update()
    more = replace(trace.steps[0], index=5)
    replayed = replay_in(watched_counters(2), Trace(HEADER, (*trace.steps, more)))
    assert replayed.divergence == Divergence(5, "request", "get n", "p0 has ended")


def test_a_late_request_lands_in_a_replay_as_it_did() -> None:
    async def old_then_new() -> None:
        try:
            await IO.put("x", b"old")
        except OutcomeUnknown:
            await IO.put("x", b"new")
            await IO.note("renewed")

    def new_stays(contents: Contents, ghosts: bool) -> Violation | None:
        found = contents.objects.get("x")
        return Violation("TOY", "new stays", "old is back") if ghosts and found == b"old" else None

    world = World(
        contents=Contents(),
        processes=processes(old_then_new),
        ghosts=False,
        observe=lambda _ghosts, _actor, _note: True,
        oracles=(new_stays,),
    )
    run = explore(world, Bounds(faults=1, kinds=frozenset({Fate.LATE})))
    trace = Trace(replace(HEADER, violation=None), record(world, run.trace)[0])
    assert run.violation == Violation("TOY", "new stays", "old is back")
    assert [(s.actor, s.operation, s.path, s.outcome) for s in trace.steps] == [
        ("p0", "put", "x", "late"),
        ("p0", "put", "x", "normal"),
        ("p0", "put", "x", "landed"),
    ]
    replayed = replay_in(world, trace)
    assert replayed.divergence is None
    assert replayed.violation == run.violation


def test_an_unknown_step_fate_for_a_read_is_refused() -> None:
    trace = lost_update()
    steps = (replace(trace.steps[0], outcome="lost"), *trace.steps[1:])
    with pytest.raises(ValueError, match="step 1: a get cannot be lost"):
        replay_in(watched_counters(2), Trace(HEADER, steps))


def test_a_step_of_an_unknown_process_is_refused() -> None:
    step: Step = replace(lost_update().steps[0], actor="p9")
    with pytest.raises(ValueError, match="there is no process 'p9'; choose one of p0, p1"):
        replay_in(watched_counters(2), Trace(HEADER, (step,)))


def test_of_two_late_requests_to_one_object_the_recorded_one_lands() -> None:
    async def insist() -> None:
        for data in (b"a", b"b"):
            try:
                await IO.put("x", data)
            except OutcomeUnknown:
                continue

    def ends_with_b(contents: Contents, _ghosts: object) -> Violation | None:
        return Violation("TOY", "no b", "b is there") if contents.objects.get("x") == b"b" else None

    world = World(contents=Contents(), processes=processes(insist), oracles=(ends_with_b,))
    put = partial(Put, "x")
    late = Move("p0", Fate.LATE)
    steps, violation = record(world, [late, late, Move("p0", None, put(b"b"))])
    assert violation is not None
    replayed = replay_in(world, Trace(replace(HEADER, violation=None), steps))
    assert replayed.divergence is None
    assert replayed.violation == violation
