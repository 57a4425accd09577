"""Traces that were recorded in a format that is or was written stay readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from memwal_sim import places
from memwal_sim.cast import Part
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import FORMAT, FORMATS, dumps, load

FIXTURES = Path(__file__).parent / "fixtures" / "traces"


def test_there_is_a_trace_of_each_format_that_is_read() -> None:
    assert FORMAT in FORMATS
    assert [load(FIXTURES / f"format_{each}.jsonl").header.format for each in FORMATS] == list(FORMATS)


@pytest.mark.parametrize("number", FORMATS)
def test_a_trace_of_each_format_is_replayed_to_its_violation(number: int) -> None:
    played = replay(FIXTURES / f"format_{number}.jsonl", twice=True)
    assert played.reproduced
    assert played.unstable_at is None
    assert played.violation is not None
    assert played.violation.clause == "WAL-001"


@pytest.mark.parametrize("name", ["format_1", "format_1_every_field"])
def test_what_is_written_in_format_1_is_what_was_read(name: str) -> None:
    file = FIXTURES / f"{name}.jsonl"
    assert dumps(load(file)) == file.read_text("utf-8")


def test_every_field_of_format_1_is_read() -> None:
    schema = json.loads((places.faults() / "schema" / "trace.schema.json").read_text("utf-8"))["$defs"]
    trace = load(FIXTURES / "format_1_every_field.jsonl")
    lines = [json.loads(line) for line in (FIXTURES / "format_1_every_field.jsonl").read_text("utf-8").splitlines()]
    assert lines[0].keys() == schema["header"]["properties"].keys()
    assert lines[1].keys() == schema["step"]["properties"].keys()
    told = {"script": [{"put": {"a": "ä → 1"}}, {"flush": None}]}
    assert trace.header.cast == (Part(name="writer-1", role="writer", arguments=told),)
    assert (trace.header.kinds, trace.header.preemptions) == (("late", "stale"), 2)
    assert trace.steps[0].notes == ("write_invoked write=writer-1/1",)
    assert [step.outcome for step in trace.steps] == ["late", "stale", "landed"]
