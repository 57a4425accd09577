from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from kit.revisions import B_FIRST
from memwal.errors import InvalidArgument
from memwal.stores.memory import MemoryStore
from memwal_sim.exploring.exploration import Bounds, Exploration
from memwal_sim.exploring.explorer import explore
from memwal_sim.process import Ended
from memwal_sim.scenarios import ground
from memwal_sim.scenarios.scenario import find, known, setting
from memwal_sim.simulation import Simulation


@functools.lru_cache(maxsize=8)
def run(name: str, revision: str = "B", *, check: bool = False, **bounds: int) -> Exploration:
    return explore(find(name).build(setting(revision)), Bounds(**bounds), check=check)  # type: ignore[arg-type]


@pytest.mark.parametrize("revision", B_FIRST)
def test_no_write_of_one_writer_is_lost_by_a_crash_and_one_fault(revision: str) -> None:
    found = run("one_writer", revision, faults=1)
    assert found.complete, found.violation
    assert found.ends["done"] > 10
    assert "Throttled" not in found.ends


@pytest.mark.parametrize("revision", B_FIRST)
def test_no_acknowledged_write_of_two_writers_is_lost_in_any_interleaving(revision: str) -> None:
    found = run("two_writers", revision)
    assert found.complete, found.violation
    assert found.ends.keys() == {"done", "Fenced"}
    assert found.states > 20_000


@pytest.mark.long
def test_no_acknowledged_write_of_two_writers_is_lost_with_a_fault_and_a_preemption() -> None:
    found = run("two_writers_two_keys", faults=1, preemptions=1, reduce=True, merge=True)
    assert found.complete, found.violation
    assert found.ends.keys() >= {"done", "Fenced"}
    assert "Throttled" not in found.ends


@pytest.mark.parametrize("revision", B_FIRST)
def test_the_engine_is_a_function_of_its_replies(revision: str) -> None:
    assert run("one_writer", revision, check=True, faults=1).complete
    assert run("two_writers", revision, check=True, preemptions=1).complete


@pytest.mark.long
def test_one_preemption_reaches_every_end_of_two_writers() -> None:
    none, one, every = run("two_writers", preemptions=0), run("two_writers", preemptions=1), run("two_writers")
    assert none.ends == {"done": 4}
    assert len(none.terminal_stores) == 2
    assert none.terminal_stores < one.terminal_stores == every.terminal_stores
    assert one.states < every.states / 10


def test_processes_run_one_after_another_leave_both_writes() -> None:
    simulation = Simulation(find("two_writers_two_keys").build(setting()))
    for name in ("writer-1", "writer-2"):
        while simulation.waiting(name) is not None:
            simulation.step(name)
        assert simulation.running[name].pause == Ended(None)
    assert simulation.violation() is None
    manifests = [path for path in simulation.contents.objects if "/manifest/" in path and path.endswith(".binpb")]
    assert len(manifests) == 4  # claim and flush of each


def test_a_simulated_store_serves_the_blocking_api() -> None:
    import memwal

    store = MemoryStore()
    created = memwal.create("t", ground.SCHEMA, primary_key=[ground.KEY], store=store)
    with created.writer() as writer:
        writer.put(ground.rows_table({"a": "1", "b": "2"}))
    assert ground.rows_of(memwal.open("t", store=store).scan()) == {"a": "1", "b": "2"}


def test_every_scenario_builds_under_every_setting() -> None:
    for scenario in known().values():
        for revision in "ABR":
            for profile in ("strict", "literal"):
                assert scenario.build(setting(revision, profile)).processes
        assert scenario.name == find(scenario.name).name


def test_a_setting_is_named_by_revision_profile_and_readings() -> None:
    assert not setting("B", "strict", {"claim_barrier": False}).interpretation.claim_barrier
    assert replace(setting("B", "literal").interpretation, claim_barrier=True) != setting().interpretation
    with pytest.raises(InvalidArgument, match="there is no revision 'C'; choose one of A, B, R"):
        setting("C")
    with pytest.raises(InvalidArgument, match="there is no profile 'lax'; choose one of strict, literal"):
        setting("B", "lax")
    with pytest.raises(InvalidArgument, match="there is no reading 'nothing'; "):
        setting("B", "strict", {"nothing": False})


def test_an_unknown_scenario_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="there is no scenario 'three'; "):
        find("three")
