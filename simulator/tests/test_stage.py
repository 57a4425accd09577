from __future__ import annotations

import pytest
from memwal.effects import Note, Put
from memwal.errors import InvalidArgument, OutcomeUnknown
from memwal_sim.outcomes import Fate
from memwal_sim.stage import Stage
from memwal_sim.store import Contents
from memwal_sim.world import World
from toys import IO, processes, watched_counters


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


def insisting() -> Stage:
    def observe(ghosts: tuple[str, ...], _actor: str, note: Note) -> tuple[str, ...]:
        return (*ghosts, note.event)

    return Stage(World(contents=Contents(), processes=processes(insist), ghosts=(), observe=observe))


def ghosts(stage: Stage) -> object:
    return stage.ghosts


def test_each_move_changes_contents_and_ghosts_as_in_an_exploration() -> None:
    stage = insisting()
    assert (stage.waiting("p0"), ghosts(stage)) == (Put("x", b"0"), ())
    stage.play("p0", Fate.LATE)
    assert ghosts(stage) == ("it_invoked",)
    assert dict(stage.contents.objects) == {}
    stage.play("p0")
    assert ghosts(stage) == ("it_invoked", "it_ended")
    assert stage.waiting("p0") is None
    stage.land("p0", Put("x", b"0"))
    assert dict(stage.contents.objects) == {"x": b"0"}


def test_a_late_request_lands_once() -> None:
    stage = insisting()
    stage.play("p0", Fate.LATE)
    stage.land("p0", Put("x", b"0"))
    with pytest.raises(InvalidArgument, match="no Put of x by p0 is under way"):
        stage.land("p0", Put("x", b"0"))


def test_a_process_that_has_ended_makes_no_move() -> None:
    stage = insisting()
    stage.play("p0")
    with pytest.raises(InvalidArgument, match="p0 has ended"):
        stage.play("p0")


def test_a_stage_has_the_verdict_of_its_last_state() -> None:
    stage = Stage(watched_counters(2))
    for name in ("p0", "p1", "p0"):
        stage.play(name)
        assert stage.violation() is None
    stage.play("p1")
    found = stage.violation()
    assert found is not None
    assert found.oracle == "nothing lost"
    assert stage.violation("another") is None
