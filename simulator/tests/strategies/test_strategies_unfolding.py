"""The graph of states that runs share, and single runs through it."""

from __future__ import annotations

from functools import partial

import pytest
from kit.toys import IO, count_notes, counters, create, increment, processes, watched_counters, write_many
from memwal.effects import PutIfAbsent
from memwal.errors import InvalidArgument
from memwal.violations import Violation
from memwal_sim.exploring import unfolding as unfolding_module
from memwal_sim.exploring.exploration import Move
from memwal_sim.exploring.tables import FATE_BITS
from memwal_sim.exploring.unfolding import START, Lanes, Unfolding
from memwal_sim.outcomes import Fate
from memwal_sim.store import Contents
from memwal_sim.strategies.walking import STEPS_MAX, Walk, walk
from memwal_sim.traces.recording import record
from memwal_sim.world import World


def in_order(unfolding: Unfolding, *order: int) -> Walk:
    """The run in which lanes move in ``order``, and stop then."""
    left = list(order)
    return walk(unfolding, lambda _lanes: left.pop(0) if left else None)


def schedules(unfolding: Unfolding) -> list[bytes]:
    """All schedules, depth first."""
    found, stack = [], [(START, b"")]
    while stack:
        state, keys = stack.pop()
        lanes = unfolding.lanes[state]
        if not lanes:
            found.append(keys)
        stack += [(unfolding.replay(state, lane << FATE_BITS), keys + bytes([lane << FATE_BITS])) for lane in lanes]
    return found


def test_two_processes_of_two_requests_have_six_schedules_and_thirteen_states() -> None:
    unfolding = Unfolding(counters(2))
    found = schedules(unfolding)
    assert len(found) == len(set(found)) == 6
    assert len(unfolding) == 13


def test_a_run_ends_in_the_state_that_violates_something() -> None:
    unfolding = Unfolding(watched_counters(2))
    run = in_order(unfolding, 0, 1, 0, 1)
    assert run.violation is not None
    assert run.violation.reason == "2 increments ended, and the counter is 1"
    assert in_order(unfolding, 0, 0, 1, 1).violation is None
    three = Unfolding(watched_counters(3))
    assert in_order(three, 0, 1, 0, 1, 2, 2).keys == bytes([0, 8, 0, 8])


def test_moves_by_name_play_to_the_same_violation_on_a_stage() -> None:
    unfolding = Unfolding(watched_counters(2))
    run = in_order(unfolding, 1, 0, 0, 1)
    moves = unfolding.moves(run.keys)
    assert [(move.actor, move.fate) for move in moves] == [
        ("p1", Fate.NORMAL),
        ("p0", Fate.NORMAL),
        ("p0", Fate.NORMAL),
        ("p1", Fate.NORMAL),
    ]
    assert record(watched_counters(2), moves)[1] == run.violation


def test_a_request_under_way_is_a_lane_behind_the_processes_and_lands_once() -> None:
    unfolding = Unfolding(World(contents=Contents(), processes=processes(create, partial(write_many, "a", 1))))
    late = unfolding.replay(START, Fate.LATE)
    assert unfolding.lanes[late] == (1, 2)
    landed = unfolding.replay(late, 2 << FATE_BITS)
    assert unfolding.lanes[landed] == (1,)
    keys = bytes([Fate.LATE, 2 << FATE_BITS])
    assert unfolding.moves(keys) == (Move("p0", Fate.LATE), Move("p0", None, PutIfAbsent("x", b"1")))


def test_requests_meet_the_faults_that_fit_them_and_are_allowed() -> None:
    world = World(contents=Contents({"n": b"0"}), processes=processes(increment))
    unfolding = Unfolding(world, frozenset({Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED}))
    assert unfolding.faults(START, 0) == (Fate.THROTTLED,)
    after_get = unfolding.replay(START, 0)
    assert unfolding.faults(after_get, 0) == (Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED)
    picky = Unfolding(world, frozenset({Fate.LOST}))
    assert picky.faults(START, 0) == ()


def test_engine_code_and_oracles_run_once_however_often_a_history_is_played() -> None:
    started: list[str] = []
    judged: list[tuple[str, int]] = []

    async def act(name: str) -> None:
        started.append(name)
        await increment()

    def oracle(contents: Contents, ghosts: int) -> None:
        judged.append((contents.objects["n"].decode(), ghosts))

    world = World(
        contents=Contents({"n": b"0"}),
        processes=processes(partial(act, "a"), partial(act, "b")),
        ghosts=0,
        observe=count_notes,
        oracles=(oracle,),
    )
    unfolding = Unfolding(world)
    for _ in range(3):
        in_order(unfolding, 0, 0, 1, 1)
        in_order(unfolding, 0, 1, 0, 1)
    assert sorted(judged) == [("0", 0), ("1", 1), ("1", 2), ("2", 2)]
    assert started == ["a", "b", "b"]  # b once more, for the history in which it reads 0
    assert unfolding.after[START].keys() == {0}  # the one move that was made there


def test_a_process_that_breaks_is_a_violation() -> None:
    async def breaks() -> None:
        await IO.head("n")
        raise ZeroDivisionError("nought")

    world = World(contents=Contents({"n": b"0"}), processes=processes(breaks))
    run = in_order(Unfolding(world), 0)
    assert run.violation is not None
    assert "ZeroDivisionError: nought" in run.violation.reason
    assert in_order(Unfolding(world, only="another"), 0).violation is None


def test_with_one_oracle_what_the_others_find_is_passed_over() -> None:
    def never_one(contents: Contents, _ghosts: object) -> Violation | None:
        return Violation("TOY", "never one", "it is 1") if contents.objects["n"] == b"1" else None

    world = watched_counters(2)
    both = World(
        contents=world.contents,
        processes=world.processes,
        ghosts=0,
        observe=count_notes,
        oracles=(never_one, *world.oracles),
    )
    order = (0, 1, 0, 1)
    found = [in_order(Unfolding(both, only=only), *order) for only in (None, "nothing lost", "neither")]
    assert [run.violation and run.violation.oracle for run in found] == ["never one", "nothing lost", None]
    assert [len(run.keys) for run in found] == [3, 4, 4]


def test_states_are_forgotten_above_a_number_and_runs_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    unfolding = Unfolding(watched_counters(2))
    before = in_order(unfolding, 0, 1, 0, 1)
    unfolding.trim()
    assert len(unfolding) == 5
    monkeypatch.setattr(unfolding_module, "STATES_KEPT", 4)
    unfolding.trim()
    assert len(unfolding) == 1
    assert in_order(unfolding, 0, 1, 0, 1) == before


def test_a_move_fits_in_a_byte_or_the_world_is_refused() -> None:
    idle = [partial(write_many, "a", 1)] * 33
    with pytest.raises(InvalidArgument, match="more than 32 processes"):
        Unfolding(World(contents=Contents(), processes=processes(*idle)))


def test_a_run_of_processes_that_wait_for_ever_is_cut_off() -> None:
    async def for_ever() -> None:
        while True:
            await IO.head("n")

    def first(lanes: Lanes) -> int:
        return lanes[0]

    world = World(contents=Contents({"n": b""}), processes=processes(for_ever))
    unfolding = Unfolding(world)
    assert len(walk(unfolding, first).keys) == STEPS_MAX
