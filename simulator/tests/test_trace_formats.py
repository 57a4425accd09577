"""Traces that were recorded in a format that is or was written stay readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memwal_sim import places
from memwal_sim.cast import Part
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import FORMAT, FORMAT_EXPECTING, FORMATS, Expected, dumps, load

FIXTURES = Path(__file__).parent / "fixtures" / "traces"


def test_there_is_a_trace_of_each_format_that_is_read() -> None:
    assert {FORMAT, FORMAT_EXPECTING} <= set(FORMATS)
    assert [load(FIXTURES / f"format_{each}.jsonl").header.format for each in FORMATS] == list(FORMATS)


def test_a_trace_of_format_1_is_replayed_to_its_violation() -> None:
    played = replay(FIXTURES / "format_1.jsonl", twice=True)
    assert played.reproduced
    assert played.unstable_at is None
    assert played.violation is not None
    assert played.violation.clause == "WAL-001"


def test_a_trace_of_format_2_is_replayed_to_what_it_says_has_to_be_so() -> None:
    played = replay(FIXTURES / "format_2.jsonl", twice=True)
    assert played.reproduced
    assert (played.unstable_at, played.unexpected, played.violation) == (None, None, None)
    assert played.header.expected[-1] == Expected(
        after=45,
        says="The durable row was recovered and flushed",
        state={"generations": {"1": {"k1": "v1"}}, "reads": {"writer-2/1": {"k1": "v1"}}},
    )


@pytest.mark.parametrize("name", ["format_1", "format_1_every_field", "format_2"])
def test_what_is_written_is_what_was_read(name: str) -> None:
    file = FIXTURES / f"{name}.jsonl"
    assert dumps(load(file)) == file.read_text("utf-8")


def test_every_field_of_format_1_is_read() -> None:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))["$defs"]
    trace = load(FIXTURES / "format_1_every_field.jsonl")
    lines = [json.loads(line) for line in (FIXTURES / "format_1_every_field.jsonl").read_text("utf-8").splitlines()]
    assert lines[0].keys() == schema["header"]["properties"].keys() - {"expected"}
    assert lines[1].keys() == schema["step"]["properties"].keys()
    told = {"script": [{"put": {"a": "ä → 1"}}, {"flush": None}]}
    assert trace.header.cast == (Part(name="writer-1", role="writer", arguments=told),)
    assert (trace.header.kinds, trace.header.preemptions) == (("late", "stale"), 2)
    assert trace.steps[0].notes == ("write_invoked write=writer-1/1",)
    assert [step.outcome for step in trace.steps] == ["late", "stale", "landed"]
