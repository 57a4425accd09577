from __future__ import annotations

import pytest
from kit.toys import IO, processes, watched_counters
from memwal.effects import Note, Put
from memwal.errors import InvalidArgument, OutcomeUnknown
from memwal_sim.outcomes import Fate
from memwal_sim.simulation import Simulation
from memwal_sim.store import Contents
from memwal_sim.world import World


async def insist() -> None:
    """Put one object until the outcome is known, each time with other bytes."""
    await IO.note("it_invoked")
    for attempt in range(3):
        try:
            await IO.put("x", str(attempt).encode())
            break
        except OutcomeUnknown:
            continue
    await IO.note("it_ended")


def insisting() -> Simulation:
    def observe(ghosts: tuple[str, ...], _actor: str, note: Note) -> tuple[str, ...]:
        return (*ghosts, note.event)

    return Simulation(World(contents=Contents(), processes=processes(insist), ghosts=(), observe=observe))


def ghosts(simulation: Simulation) -> object:
    return simulation.ghosts


def test_each_move_changes_contents_and_ghosts_as_in_an_exploration() -> None:
    simulation = insisting()
    assert (simulation.waiting("p0"), ghosts(simulation)) == (Put("x", b"0"), ())
    simulation.step("p0", Fate.LATE)
    assert ghosts(simulation) == ("it_invoked",)
    assert dict(simulation.contents.objects) == {}
    simulation.step("p0")
    assert ghosts(simulation) == ("it_invoked", "it_ended")
    assert simulation.waiting("p0") is None
    simulation.land("p0", Put("x", b"0"))
    assert dict(simulation.contents.objects) == {"x": b"0"}


def test_a_late_request_lands_once() -> None:
    simulation = insisting()
    simulation.step("p0", Fate.LATE)
    simulation.land("p0", Put("x", b"0"))
    with pytest.raises(InvalidArgument, match="no Put of x by p0 is under way"):
        simulation.land("p0", Put("x", b"0"))


def test_a_process_that_has_ended_makes_no_move() -> None:
    simulation = insisting()
    simulation.step("p0")
    with pytest.raises(InvalidArgument, match="p0 has ended"):
        simulation.step("p0")


def test_a_stage_has_the_verdict_of_its_last_state() -> None:
    simulation = Simulation(watched_counters(2))
    for name in ("p0", "p1", "p0"):
        simulation.step(name)
        assert simulation.violation() is None
    simulation.step("p1")
    found = simulation.violation()
    assert found is not None
    assert found.oracle == "nothing lost"
    assert simulation.violation("another") is None
