"""Histories made small: what is kept, what goes, and that it is the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from kit.toys import IO, nothing_lost, processes, watched_counters, write_many
from memwal.effects import Put
from memwal.errors import InvalidArgument, OutcomeUnknown
from memwal.violations import Violation
from memwal_sim import bugs as planting
from memwal_sim import workloads
from memwal_sim.actor import Actor
from memwal_sim.bugs import planted
from memwal_sim.exploring import explorer
from memwal_sim.exploring.exploration import Bounds, Exploration, Move
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import FATES, Fate
from memwal_sim.scenarios.scenario import Scenario, find
from memwal_sim.store import Contents
from memwal_sim.strategies.hunting import hunt
from memwal_sim.traces import study
from memwal_sim.traces.minimising import minimise
from memwal_sim.traces.references import Recorded, recorded
from memwal_sim.traces.replay import replay
from memwal_sim.traces.shrinking import ShrinkProgress, Shrunk, Size, shrink, size
from memwal_sim.traces.study import Study, carry_out, kill
from memwal_sim.traces.trace import Trace, dumps
from memwal_sim.world import World


def moves_of(text: str) -> list[Move]:
    """``p0 p1 p1!late``: a move for each word."""
    words = [word.partition("!") for word in text.split()]
    return [Move(actor, Fate[fate.upper()] if fate else Fate.NORMAL) for actor, _, fate in words]


def text(moves: Sequence[Move]) -> str:
    """The opposite of `moves_of`; a request that lands is written in brackets."""
    fates = {None: "", Fate.NORMAL: ""}
    return " ".join(
        f"({move.actor})" if move.fate is None else move.actor + fates.get(move.fate, f"!{move.fate.label}")
        for move in moves
    )


def shrunk(world: World, moves: Sequence[Move]) -> Shrunk:
    return shrink(world, moves, clause="TOY", oracle="nothing lost")


def test_processes_that_do_not_matter_are_left_out() -> None:
    # p0 and p1 lose an update, p2 to p4 read and stop
    found = shrunk(watched_counters(5), moves_of("p3 p0 p2 p1 p4 p0 p1"))
    assert text(found.moves) in ("p0 p1 p1 p0", "p1 p0 p0 p1")
    assert found.violation == Violation("TOY", "nothing lost", "2 increments ended, and the counter is 1")


def test_turns_after_the_violation_are_left_out() -> None:
    found = shrunk(watched_counters(3), moves_of("p0 p1 p0 p1 p2 p2"))
    assert [size(found.before).steps, size(found.moves).steps] == [6, 4]


async def carefree() -> None:
    """Put an object, and be content whatever becomes of it."""
    with suppress(OutcomeUnknown):
        await IO.put("n", b"0")
    await IO.note("counted")


def test_faults_that_do_not_matter_become_normal_outcomes() -> None:
    world = replace(watched_counters(1), processes=processes(carefree))
    found = shrunk(world, moves_of("p0!late"))
    assert text(found.moves) == "p0"
    assert (size(found.before).faults, size(found.moves).faults) == (1, 0)


def test_changes_from_one_process_to_another_are_few() -> None:
    found = shrunk(watched_counters(2), moves_of("p0 p1 p0 p1"))
    assert text(found.moves) in ("p0 p1 p1 p0", "p1 p0 p0 p1")
    assert size(found.before) == Size(steps=4, faults=0, late=0, changes=3)
    assert size(found.moves) == Size(steps=4, faults=0, late=0, changes=2)


def first_over_second(contents: Contents, ghosts: object) -> Violation | None:
    seen = isinstance(ghosts, tuple) and ghosts == ("second", "counted")
    back = seen and contents.objects.get("x") == b"first"
    return Violation("TOY", "nothing lost", "the first came last") if back else None


async def twice(name: str) -> None:
    try:
        await IO.put(name, b"first")
    except OutcomeUnknown:
        await IO.note("second")
        await IO.put(name, b"second")
        await IO.note("counted")


def test_a_late_request_is_kept_where_nothing_milder_does() -> None:
    world = World(
        contents=Contents(),
        processes=processes(partial(twice, "x"), partial(write_many, "z", 3)),
        ghosts=(),
        observe=lambda ghosts, _actor, note: (*ghosts, note.event),
        oracles=(first_over_second,),
    )
    moves = [*moves_of("p1 p0!late p1!throttled p0"), Move("p0", None, Put("x", b"first"))]
    found = shrunk(world, moves)
    assert text(found.moves) == "p0!late p0 (p0)"
    assert size(found.moves) == Size(steps=3, faults=1, late=1, changes=0)


def test_a_late_request_that_may_as_well_be_applied_at_once_is() -> None:
    def both(contents: Contents, ghosts: object) -> Violation | None:
        ended = ghosts == ("second", "counted")
        return Violation("TOY", "nothing lost", "both ended") if ended and len(contents.objects) == 1 else None

    world = World(
        contents=Contents(),
        processes=processes(partial(twice, "x")),
        ghosts=(),
        observe=lambda ghosts, _actor, note: (*ghosts, note.event),
        oracles=(both,),
    )
    assert text(shrunk(world, moves_of("p0!late p0")).moves) == "p0!lost p0"


def test_the_clause_and_the_oracle_stay_the_same() -> None:
    def earlier(contents: Contents, ghosts: int) -> Violation | None:
        return Violation("TOY-2", "others", "something was counted") if ghosts else None

    world = watched_counters(2)
    found = shrunk(replace(world, oracles=(earlier, *world.oracles)), moves_of("p0 p1 p0 p1"))
    assert found.violation.clause == "TOY"
    assert len(found.moves) == 4


def test_a_history_without_the_violation_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"does not violate TOY \(nothing lost\)"):
        shrunk(watched_counters(2), moves_of("p0 p0 p1 p1"))
    with pytest.raises(InvalidArgument, match="does not violate TOY-2"):
        shrink(watched_counters(2), moves_of("p0 p1 p0 p1"), clause="TOY-2", oracle="nothing lost")


def test_a_world_that_is_broken_from_the_start_needs_no_step() -> None:
    world = World(
        contents=Contents({"n": b"-1"}),
        processes=processes(partial(write_many, "x", 1)),
        ghosts=0,
        oracles=(nothing_lost,),
    )
    (move,) = moves_of("p0")
    small = shrink(world, [move], clause="TOY", oracle="nothing lost")
    assert small.moves == ()
    assert small.violation.reason == "0 increments ended, and the counter is -1"


def test_shrinking_stops_at_its_limit_and_says_so() -> None:
    moves = moves_of("p3 p0 p2 p1 p4 p0 p1")
    found = shrink(watched_counters(5), moves, clause="TOY", oracle="nothing lost", tries_max=2)
    assert (found.tries, found.limit) == (2, "2 histories")
    assert 4 < len(found.moves) <= 7
    assert shrunk(watched_counters(5), moves).limit is None


def test_progress_is_reported_on_the_way() -> None:
    reports: list[ShrinkProgress] = []
    moves = moves_of(" ".join(f"p{number}" for number in [*range(16), *range(15, -1, -1)]))
    world = watched_counters(16)
    shrink(world, moves, clause="TOY", oracle="nothing lost", progress=reports.append)
    assert [report.tries for report in reports] == [64 * (number + 1) for number in range(len(reports))]


def hunted(where: Study, folder: Path) -> Path:
    """A file with a find of a random hunt, as it was found."""
    trace = hunt(where, "uniform", runs_max=5000, shrinking=False).trace
    assert trace is not None
    file = folder / "found.jsonl"
    file.write_text(dumps(trace), "utf-8")
    return file


def study_of(name: str) -> Study:
    (bug,) = planting.choose([name])
    scenario = find(bug.scenario)
    bounds = Bounds(faults=bug.faults, kinds=bug.kinds or scenario.kinds)
    return Study(scenario=scenario, revision=bug.revision, bugs=(bug,), bounds=bounds, only=bug.oracle)


def test_a_find_in_the_engine_becomes_as_short_as_the_shortest_each_time() -> None:
    skipping = study_of("skip_newer_epoch")
    found = hunt(skipping, "uniform", runs_max=5000, shrinking=False)
    assert found.violation is not None
    with planted(skipping.bugs):
        one, other = (
            shrink(skipping.world(), found.moves, clause=found.violation.clause, oracle=found.violation.oracle)
            for _ in range(2)
        )
    assert one.moves == other.moves
    assert len(found.moves) > len(one.moves) == 17
    assert len(kill(skipping.bugs[0]).run.trace) == 17


def test_a_process_is_left_earlier_where_the_next_has_less_to_do_then() -> None:
    # writer-1 would continue for 10 steps, and the builder for 13 in all; an exploration finds 28 steps
    building = study_of("builder_undoes_a_claim")
    found = hunt(building, "uniform", runs_max=5000)
    runs = [len(list(run)) for _, run in groupby(found.moves, lambda move: move.actor)]
    assert runs == [7, 8, 11, 2]


def test_a_trace_is_made_small_and_stays_a_trace_of_the_same_violation(tmp_path: Path) -> None:
    found = recorded(hunted(study_of("unresolved_put"), tmp_path))
    small = minimise(found)
    again = minimise(Recorded("small", small.trace, found.study))
    assert small.trace.header.violation == found.trace.header.violation
    assert (small.before, small.shrunk, small.shortest) == (size_of(found.trace), small.after, False)
    assert again.trace == small.trace
    assert len(small.trace.steps) == small.after.steps == 9


def size_of(trace: Trace) -> Size:
    return size([Move(step.actor, FATES.get(step.outcome)) for step in trace.steps])


def test_parts_of_a_cast_that_do_nothing_are_left_out(tmp_path: Path) -> None:
    script = {"script": [{"put": {"a": "1"}}]}
    actors = tuple(Actor(name=name, role="writer", arguments=script) for name in ("writer-1", "writer-2", "writer-3"))
    scenario = workloads.scenario_of(workloads.find("region_life"), actors)
    finding = carry_out(Study(scenario=scenario, bugs=planting.choose(["canary"])))
    assert finding.trace is not None
    (only,) = {step.actor for step in finding.trace.steps}
    file = tmp_path / "actors.jsonl"
    file.write_text(dumps(Trace(replace(finding.trace.header, actors=actors), finding.trace.steps)), "utf-8")
    small = minimise(recorded(file))
    assert [actor.name for actor in small.trace.header.actors] == [only]
    file.write_text(dumps(small.trace), "utf-8")
    assert replay(file).reproduced


def test_an_exploration_proves_the_shortest_history_with_the_fewest_faults(tmp_path: Path) -> None:
    small = minimise(recorded(hunted(study_of("unresolved_put"), tmp_path)), exhaustive=Bounds())
    assert (small.shortest, small.limits, small.after.steps, small.after.faults) == (True, (), 9, 1)
    assert small.trace.header.faults == 1


def test_an_exploration_that_meets_its_limit_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_REPORT_EVERY", 1)
    found = recorded(hunted(study_of("unresolved_put"), tmp_path))
    small = minimise(found, exhaustive=Bounds(states_max=1))
    assert (small.shortest, small.limits) == (False, ("1 state",))
    assert small.trace == minimise(found).trace


def test_a_trace_that_does_not_end_in_its_violation_is_not_made_small(tmp_path: Path) -> None:
    found = recorded(hunted(study_of("unresolved_put"), tmp_path))
    cut = Trace(found.trace.header, found.trace.steps[:-1])
    with pytest.raises(InvalidArgument, match="does not end in its violation of WAL-001"):
        minimise(Recorded("cut.jsonl", cut, found.study))
    clean = Trace(replace(found.trace.header, violation=None), found.trace.steps)
    with pytest.raises(InvalidArgument, match="records no violation"):
        minimise(Recorded("clean.jsonl", clean, found.study))


def test_a_history_of_a_reduced_exploration_is_made_small_if_no_shortest_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explored(world: World, bounds: Bounds, **more: Any) -> Exploration:
        whole = explore(world, bounds, **more)
        if bounds.reduce:
            return replace(whole, trace=tuple(moves_of("p2 p3 p0 p2 p3 p1 p0 p1")))
        return replace(whole, violation=None, trace=(), limit="1 state")

    monkeypatch.setattr(study, "explore", explored)
    scenario = Scenario(name="toy", title="", build=lambda _setting: watched_counters(4))
    found = carry_out(Study(scenario=scenario, bounds=Bounds(reduce=True)))
    assert found.trace is not None
    assert text(found.run.trace) in ("p0 p1 p1 p0", "p1 p0 p0 p1", "p2 p3 p3 p2", "p3 p2 p2 p3")
    assert [step.actor for step in found.trace.steps] == [move.actor for move in found.run.trace]
