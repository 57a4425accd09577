"""Histories that are told: worked examples, faults of the texts' prose, and crashes, and what a trace may state."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memwal.errors import ArtifactError, InvalidArgument
from memwal_sim import bugs, places, workloads
from memwal_sim.evidence import crashes, examples, texts
from memwal_sim.evidence.crashes import WORKFLOWS, Workflow
from memwal_sim.evidence.schedules import Advance, Example, trace_of
from memwal_sim.scenarios.scenario import ScenarioSetting
from memwal_sim.simulation import Simulation
from memwal_sim.traces import facts
from memwal_sim.traces.promoting import AREAS, DESCRIPTION_MIN, TITLE_MAX
from memwal_sim.traces.replay import replay
from memwal_sim.traces.trace import dumps, load, parse
from memwal_sim.workloads import collecting, merging

EXAMPLES = {example.path: example for example in texts.worked_examples()}
SHORT = EXAMPLES["wal/buffered_write_is_lost"]
STEPS = len(trace_of(SHORT).steps)


def test_what_is_recorded_is_what_the_examples_give() -> None:
    assert examples.different(places.faults()) == []


@pytest.mark.parametrize(
    "path",
    [
        "fencing/appendix_1_a", "fencing/appendix_1_b", "fencing/appendix_1_with_barriers",
        "merge/appendix_2_racing_a", "merge/appendix_2_racing_b", "merge/appendix_2_crash_a",
        "merge/appendix_2_crash_b", "index/appendix_4_catch_up_a", "read/query_plan_setup_a",
        "region/bucket_of_user_123_a", "region/bucket_of_user_123_b", "region/same_key_in_two_regions",
        "flush/crash_between_generation_and_manifest", "read/stale_snapshot_merged_generation",
        "read/stale_snapshot_collected_generation", "read/stale_snapshot_misses_a_flush",
    ],
)  # fmt: skip
def test_each_example_and_fault_of_the_texts_has_its_history(path: str) -> None:
    header = load(places.faults() / "recorded" / f"{path}.jsonl").header
    assert header.revision == (path[-1].upper() if path[-2:] in ("_a", "_b") else "B")
    assert header.expected


@pytest.mark.parametrize("revision", ["a", "b"])
def test_appendix_1_has_the_numbers_of_the_text(revision: str) -> None:
    trace = load(places.faults() / "recorded" / "fencing" / f"appendix_1_{revision}.jsonl")
    states = [expected.state for expected in trace.header.expected]
    assert [state["region"]["epoch"] for state in states if "region" in state] == [5, 5, 6, 6, 7, 7, 7, 7]
    assert {"11": 5, "12": 5, "13": 6, "14": 6, "15": 6, "16": 7, "17": 7} in [state.get("wal") for state in states]
    assert "AMB-08" in trace.header.description


@pytest.mark.parametrize(
    ("bug", "path"),
    [
        ("no_barrier", "fencing/appendix_1_with_barriers"),
        ("fenced_writer_flushes", "fencing/appendix_1_b"),
        ("merged_twice", "merge/appendix_2_racing_b"),
        ("base_not_shadowed", "read/query_plan_setup_a"),
        ("builder_restores_progress", "index/builder_meets_a_merge"),
        ("time_travel_forgotten", "collect/time_travel_holds_a_generation"),
    ],
)
def test_a_planted_bug_breaks_the_example_that_is_about_it(bug: str, path: str) -> None:
    (planted,) = bugs.choose([bug])
    chosen: dict[str, Any] = bugs.readings([planted])
    told = replace(EXAMPLES[path], readings={**EXAMPLES[path].readings, **chosen})
    with bugs.planted([planted]), pytest.raises((InvalidArgument, ArtifactError)):
        trace_of(told)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_each_request_of_a_workflow_has_its_crash(workflow: Workflow) -> None:
    simulation, seen = crashes.begun(workflow), 1
    while simulation.waiting(workflow.worker.name) is not None:
        before = simulation.contents
        simulation.step(workflow.worker.name)
        seen += simulation.contents != before
    folder = places.faults() / "recorded" / workflow.area / "crashes" / workflow.name
    numbers = sorted(int(path.stem.partition("_")[0]) for path in folder.glob("*.jsonl"))
    assert numbers == list(range(seen))


@pytest.mark.parametrize("revision", [pytest.param("A", marks=pytest.mark.long), "R"])
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_others_go_on_after_a_crash_anywhere_in_every_revision(workflow: Workflow, revision: str) -> None:
    ends = [trace_of(crashes.example(workflow, place, revision)) for place in crashes.places(workflow, revision)]
    assert len(ends) > 1
    assert all(trace.header.violation is None for trace in ends)


JUDGES = {
    "worked_examples": collecting.oracles,
    "one_row_in_the_wal": collecting.oracles,
    "two_generations": collecting.oracles,
    "merged_generation": collecting.oracles,
    "merged_beyond_the_index": merging.oracles,
}
"""What must hold of a region at any time, by the state in which a workflow begins."""


@pytest.mark.parametrize("workflow", [w for w in WORKFLOWS if w.workload in JUDGES], ids=lambda w: w.name)
def test_all_oracles_of_a_region_hold_wherever_a_workflow_crashes(workflow: Workflow) -> None:
    simulation, judges = crashes.begun(workflow), JUDGES[workflow.workload](ScenarioSetting())
    while simulation.waiting(workflow.worker.name) is not None:
        assert [oracle(simulation.contents, simulation.ghosts) for oracle in judges] == [None] * len(judges)
        simulation.step(workflow.worker.name)


def test_the_most_dangerous_crash_of_each_workflow_is_marked() -> None:
    titles = {example.path: example.title for example in crashes.examples()}
    marked = [path.split("/")[-2] for path, title in titles.items() if title.startswith("The most dangerous crash")]
    assert sorted(marked) == sorted(workflow.name for workflow in WORKFLOWS)


@pytest.mark.parametrize(
    ("bug", "name"),
    [("progress_first", "merge"), ("listed_before_written", "flush"), ("files_before_the_list", "collect")],
)
def test_a_planted_bug_breaks_a_crash_of_its_workflow(bug: str, name: str) -> None:
    workflow = next(each for each in WORKFLOWS if each.name == name)
    with bugs.planted(bugs.choose([bug])):
        failed = [place.number for place in crashes.places(workflow) if _fails(crashes.example(workflow, place))]
    assert failed


def _fails(example: Example) -> bool:
    try:
        trace_of(example)
    except (InvalidArgument, ArtifactError):
        return True
    return False


def stored(tmp_path: Path, **changes: Any) -> Path:
    """The file of a short history whose header has ``changes``."""
    head, _, steps = dumps(trace_of(SHORT)).partition("\n")
    (tmp_path / "trace.jsonl").write_text(json.dumps({**json.loads(head), **changes}) + f"\n{steps}", "utf-8")
    return tmp_path / "trace.jsonl"


def expecting(after: int, state: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"after": after, "says": "so it is", "state": state}]


def test_a_fact_that_is_not_so_is_named_with_what_it_is(tmp_path: Path) -> None:
    replayed = replay(stored(tmp_path, expected=expecting(STEPS, {"merged": 0, "rows": {"k1": "v1", "k2": "v2"}})))
    assert not replayed.reproduced
    assert str(replayed.unexpected) == (
        f"after step {STEPS}, rows has to be {{'k1': 'v1', 'k2': 'v2'}}, and is {{'k1': 'v1'}}"
    )


def test_of_a_fact_with_fields_some_may_be_stated(tmp_path: Path) -> None:
    assert replay(stored(tmp_path, expected=expecting(0, {"region": None}))).unexpected is None
    assert (
        replay(stored(tmp_path, expected=expecting(STEPS, {"region": {"epoch": 2, "version": 3}}))).unexpected is None
    )
    assert replay(stored(tmp_path, expected=expecting(STEPS, {"region": {"epoch": 3}}))).unexpected is not None
    assert replay(stored(tmp_path, expected=expecting(STEPS, {"region": {"no_field": 3}}))).unexpected is not None


@pytest.mark.parametrize("name", ["regions", "region of x", "ended of 1", ""])
def test_a_fact_that_there_is_not_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArtifactError, match=r"line 1.*no fact"):
        replay(stored(tmp_path, expected=expecting(STEPS, {name: 1})))


@pytest.mark.parametrize("afters", [[STEPS + 1], [9, 3], [0, STEPS, STEPS - 1]])
def test_what_is_expected_after_no_step_or_in_no_order_is_refused(tmp_path: Path, afters: list[int]) -> None:
    expected = [each for after in afters for each in expecting(after, {})]
    with pytest.raises(ArtifactError, match=r"line 1.*in no order or not there"):
        load(stored(tmp_path, expected=expected))


def test_format_1_expects_nothing_and_format_2_something() -> None:
    head, _, steps = dumps(trace_of(SHORT)).partition("\n")
    header = json.loads(head)
    with pytest.raises(ArtifactError, match="no header"):
        parse(json.dumps({**header, "format": 1}) + f"\n{steps}", "trace")
    del header["expected"]
    with pytest.raises(ArtifactError, match="no header"):
        parse(json.dumps({**header, "format": 2}) + f"\n{steps}", "trace")


def test_an_example_whose_fact_is_not_so_is_not_recorded() -> None:
    *most, last = SHORT.steps
    with pytest.raises(InvalidArgument, match="merged is 0, and has to be 1"):
        trace_of(replace(SHORT, steps=[*most, replace(last, state={"merged": 1})]))


def test_a_step_that_never_comes_to_where_it_ends_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="writer-1 ended without put hints"):
        trace_of(replace(SHORT, steps=[Advance(actor="writer-1", before="put hints")]))


def test_an_example_that_breaks_something_unawares_is_refused() -> None:
    told = EXAMPLES["region/same_key_in_two_regions"]
    with pytest.raises(InvalidArgument, match="reads are explained"):
        trace_of(replace(told, oracle=None))


def test_traces_of_examples_that_are_no_more_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "every_example", lambda: iter([SHORT, EXAMPLES["wal/next_entry_waits"]]))
    assert examples.write(tmp_path) == 2
    assert examples.different(tmp_path) == []
    monkeypatch.setattr(examples, "every_example", lambda: iter([SHORT]))
    assert examples.different(tmp_path) == ["recorded/wal/next_entry_waits.jsonl"]
    examples.write(tmp_path)
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["buffered_write_is_lost.jsonl"]


def test_facts_of_an_empty_region_are_empty() -> None:
    simulation = Simulation(workloads.find("worked_examples").world(ScenarioSetting()))
    assert facts.look(simulation, "region") is None
    assert facts.look(simulation, "wal") == {}
    assert facts.look(simulation, "rows") == {}
    assert facts.look(simulation, "acknowledged") == []


def test_titles_and_descriptions_are_as_long_as_those_of_promoted_faults() -> None:
    told = list(examples.every_example())
    assert [each.path for each in told if len(each.title) > TITLE_MAX or not each.title.isprintable()] == []
    assert [each.path for each in told if len(each.description) < DESCRIPTION_MIN] == []
    assert {each.path.partition("/")[0] for each in told} <= set(AREAS)
    assert len({each.path for each in told}) == len(told)
