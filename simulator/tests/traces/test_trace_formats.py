"""Traces that were recorded in a format that is or was written stay readable."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from memwal_sim import places
from memwal_sim.actor import Actor
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import FORMAT, FORMATS, Expected, dumps, load, parse

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"


def test_there_is_a_trace_of_each_format_that_is_read() -> None:
    files = [FIXTURES / f"format_{each}.jsonl" for each in FORMATS]
    assert [json.loads(file.read_text("utf-8").splitlines()[0])["format"] for file in files] == list(FORMATS)
    assert {load(file).header.format for file in files} == {FORMAT}


def test_a_trace_of_format_1_is_replayed_to_its_violation() -> None:
    replayed = replay(FIXTURES / "format_1.jsonl", twice=True)
    assert replayed.reproduced
    assert replayed.unstable_at is None
    assert replayed.violation is not None
    assert replayed.violation.clause == "WAL-001"


def test_a_trace_of_format_2_is_replayed_to_what_it_says_has_to_be_so() -> None:
    replayed = replay(FIXTURES / "format_2.jsonl", twice=True)
    assert replayed.reproduced
    assert (replayed.unstable_at, replayed.unexpected, replayed.violation) == (None, None, None)
    assert replayed.header.expected[-1] == Expected(
        after=45,
        says="The durable row was recovered and flushed",
        state={"generations": {"1": {"k1": "v1"}}, "reads": {"writer-2/1": {"k1": "v1"}}},
    )


def test_what_is_written_is_what_was_read() -> None:
    for file in (FIXTURES / "format_3.jsonl", FIXTURES / "format_3_every_field.jsonl"):
        assert dumps(load(file)) == file.read_text("utf-8")


@pytest.mark.parametrize("name", ["format_1", "format_1_every_field", "format_2"])
def test_a_trace_of_an_older_format_is_written_in_the_newest(name: str) -> None:
    old = (FIXTURES / f"{name}.jsonl").read_text("utf-8")
    renamed = {'"format": 1': '"format": 3', '"format": 2': '"format": 3', ' "cast": [': ' "actors": ['}
    wanted = functools.reduce(lambda text, each: text.replace(each, renamed[each]), renamed, old)
    assert dumps(load(FIXTURES / f"{name}.jsonl")) == wanted


def test_the_turn_of_a_coroutine_in_an_older_trace_is_a_switch() -> None:
    now = load(places.faults() / "recorded" / "wal" / "turn_not_kept.jsonl")
    old = dumps(now).replace('"format": 3', '"format": 1').replace('"outcome": "switch"', '"outcome": "turn"')
    assert old.count('"turn"') == sum(step.outcome == "switch" for step in now.steps) > 0
    assert parse(old, "old.jsonl") == now


def test_every_field_of_the_format_is_read() -> None:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))["$defs"]
    trace = load(FIXTURES / "format_3_every_field.jsonl")
    lines = [json.loads(line) for line in (FIXTURES / "format_3_every_field.jsonl").read_text("utf-8").splitlines()]
    assert lines[0].keys() == schema["header"]["properties"].keys() - {"expected"}
    assert lines[1].keys() == schema["step"]["properties"].keys()
    told = {"script": [{"put": {"a": "ä → 1"}}, {"flush": None}]}
    assert trace.header.actors == (Actor(name="writer-1", role="writer", arguments=told),)
    assert (trace.header.kinds, trace.header.preemptions) == (("late", "stale"), 2)
    assert trace.steps[0].notes == ("write_invoked write=writer-1/1",)
    assert [step.outcome for step in trace.steps] == ["late", "stale", "landed"]
