"""The engine's changes of a store are steps of the abstract machine, and planted bugs make others."""

from dataclasses import replace

import pytest
from memwal import paths
from memwal.effects import PutIfAbsent
from memwal_sim import bugs as planting
from memwal_sim import process as processes
from memwal_sim.exploring.exploration import Bounds, Move
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import FAULTS, Fate
from memwal_sim.scenarios import clients, scripts
from memwal_sim.scenarios import scenario as scenarios
from memwal_sim.scenarios.scenario import setting
from memwal_sim.simulation import Simulation
from memwal_sim.traces.replay import replay
from memwal_sim.traces.shrinking import shrink
from memwal_sim.traces.study import Study, carry_out, killing
from memwal_sim.traces.trace import dumps
from memwal_sim.world import REFINEMENT


@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.parametrize(
    "name", ["two_writers", "merger_and_collector", "stalled_writer", "two_indexers", "restored_table"]
)
def test_the_engine_makes_steps_of_the_machine(name, revision):
    bounds = Bounds(merge=True, faults=1, kinds=FAULTS, states_max=250)
    run = explore(Study(scenario=scenarios.find(name), revision=revision, bounds=bounds, refine=True).world(), bounds)
    assert run.violation is None, run.violation


@pytest.mark.parametrize(
    ("bug", "nearest"),
    [
        ("claim_keeps_epoch", "the nearest step is claim w2, but it does not make that: epoch: 2 -> 1 is left"),
        ("skip_newer_epoch", "but w1 cannot have got past position 0, where an entry of epoch 2 stands"),
        ("claim_by_equal_bytes", "writer-2 acts under epoch 1: the nearest step is carry_out w1 0, but writer-1 has"),
        ("wal_above_the_pointer", "the nearest step is delete_entry 2, but p < start does not hold"),
        (
            "buffered_put",
            "the row k1, v1 was acknowledged to writer-1: the nearest step is acknowledge w1, but no",
        ),
        (
            "files_before_the_list",
            "files[1]: True -> False: the nearest step is delete_files 1, but not listed(g) does",
        ),
        (
            "credited_without_building",
            "catch_up b6 by_value, but it does not make that: covered[7, 'by_value']: 1 -> 0",
        ),
    ],
)
def test_a_planted_bug_makes_another(bug, nearest, tmp_path):
    (planted,) = planting.choose([bug])
    study = replace(killing(planted), only=REFINEMENT)
    found = carry_out(study)
    assert found.run.violation is not None
    assert found.run.violation.oracle == REFINEMENT
    assert nearest in found.run.violation.reason
    assert found.trace is not None
    file = tmp_path / "bug.trace.json"
    file.write_text(dumps(found.trace))
    assert replay(file).violation == found.run.violation


@pytest.mark.parametrize(
    ("bug", "clause"),
    [("claim_keeps_epoch", "FENCE-005"), ("buffered_put", "WAL-001"), ("wal_above_the_pointer", "GC-007")],
)
def test_what_no_step_does_breaks_a_clause_and_its_history_is_made_small(bug, clause):
    (planted,) = planting.choose([bug])
    study = replace(killing(planted), only=REFINEMENT)
    found = carry_out(study).run
    assert found.violation.clause == clause
    with planting.planted(study.bugs):
        longer = [*found.trace, *(Move(each.name, Fate.NORMAL) for each in study.world().processes)]
        small = shrink(study.world(), longer, clause=clause, oracle=REFINEMENT)
    assert small.violation == found.violation
    assert len(small.moves) <= len(found.trace)


def test_a_late_commit_that_takes_the_number_of_an_expired_version_is_nothing_that_the_machine_sees():
    run = Simulation(Study(scenario=scenarios.find("merger_and_collector"), refine=True).world())

    def commits():
        request = run.waiting("merger")
        return isinstance(request, PutIfAbsent) and paths.table_version(request.path) is not None

    while not commits():
        run.step("merger")
    while run.waiting("others") is not None:
        run.step("others")
    number = paths.table_version(run.waiting("merger").path)
    versions = [paths.table_version(name) for name in run.contents.below(paths.VERSIONS)]
    assert number not in versions
    assert number < max(versions)
    run.step("merger")
    assert run.violation() is None


GRACE_MS = 60_000


@pytest.mark.parametrize(
    ("grace_ms", "waited_ms", "harm"),
    [
        (0, 0, True),
        (GRACE_MS, GRACE_MS - 1_000, False),
        (GRACE_MS, GRACE_MS + 1_000, True),
    ],
)
def test_a_grace_time_keeps_the_number_that_a_late_commit_would_take(grace_ms, waited_ms, harm, monkeypatch):
    """Virtual time: all clocks go on by ``waited_ms`` while the commit is under way, before the collector runs."""
    place = clients.place(setting("R"))
    rows = [{"rows": {"k": "a", "l": "a"}}, "flush", {"rows": {"k": "b"}}, "flush"]
    collecting = {"collect": {"retain_versions": 1, "grace_ms": grace_ms}}
    world = clients.world(
        setting("R"),
        scripts.process(place, "merger", "merge"),
        scripts.process(place, "late", "merge"),
        before=[scripts.process(place, "writer-0", *rows)],
    )
    run = Simulation(world)
    while not isinstance(late := run.waiting("late"), PutIfAbsent) or paths.table_version(late.path) is None:
        run.step("late")
    while run.waiting("merger") is not None:
        run.step("merger")
    run.step("late", Fate.LATE)
    while run.waiting("late") is not None:
        run.step("late")
    monkeypatch.setattr(processes, "EPOCH_MS", processes.EPOCH_MS + waited_ms)
    run.enter(scripts.process(place, "collector", collecting))
    while run.waiting("collector") is not None:
        run.step("collector")
    assert run.violation() is None
    taken = paths.table_version(late.path) in map(paths.table_version, run.contents.below(paths.VERSIONS))
    assert taken is not harm
    run.land("late", late)
    found = run.violation()
    assert (found and (found.clause, found.oracle)) == (("FORMAT-018", "named_files_are_there") if harm else None)


def test_nobody_asks_unless_it_is_wanted():
    study = Study(scenario=scenarios.find("one_writer"))
    assert study.world().step is None
    assert REFINEMENT in replace(study, refine=True).world().names()
