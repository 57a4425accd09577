"""Several coroutines of one process: which one runs next is the explorer's choice, at each request and only there."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kit.revisions import B_FIRST
from kit.toys import IO, increment
from memwal.coroutines import Turn, until
from memwal.effects import Get, Join, Spawn, Until, run
from memwal.errors import EngineBug, InvalidArgument
from memwal.ids import Milliseconds
from memwal.stores.memory import Returned
from memwal_sim.bugs import choose
from memwal_sim.evidence import kills
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import FAULTS, Fate
from memwal_sim.process import Ended, Failure, Process, Running, run_alone
from memwal_sim.scenarios.scenario import find, setting
from memwal_sim.simulation import Simulation
from memwal_sim.store import GO_ON, SWITCHED, Contents
from memwal_sim.traces.recording import record
from memwal_sim.world import World

EXACT, REDUCED, MERGED = Bounds(), Bounds(reduce=True), Bounds(reduce=True, merge=True)


def both(one: Callable[[], Any], other: Callable[[], Any]) -> Callable[[], Any]:
    """A protocol that runs two others, each in a coroutine of its own."""

    async def start() -> None:
        tasks = [await Spawn(one), await Spawn(other)]
        for task in tasks:
            await Join(task)

    return start


def world(start: Callable[[], Any], **objects: bytes) -> World:
    return World(contents=Contents(objects), processes=(Process("p", start),))


def ends(start: Callable[[], Any], bounds: Bounds = EXACT, **objects: bytes) -> set[tuple[tuple[str, bytes], ...]]:
    """All contents in which the process may end."""
    found = explore(world(start, **objects), bounds)
    assert found.complete
    named = {Contents(dict(each)).digest: each for each in CANDIDATES}
    return {named[digest] for digest in found.terminal_stores}


CANDIDATES = [
    (("n", b"1"),),
    (("n", b"2"),),
    (("n", b"3"),),
    (("a", b""), ("b", b""), ("n", b"0")),
]


@pytest.mark.parametrize("bounds", [EXACT, REDUCED, MERGED], ids=["exact", "reduced", "merged"])
def test_two_coroutines_of_one_process_lose_an_update_as_two_processes_do(bounds: Bounds) -> None:
    assert ends(both(increment, increment), bounds, n=b"0") == {(("n", b"1"),), (("n", b"2"),)}


@pytest.mark.parametrize("bounds", [EXACT, REDUCED, MERGED], ids=["exact", "reduced", "merged"])
def test_whoever_has_the_turn_is_alone_with_it(bounds: Bounds) -> None:
    def start() -> Any:
        turn = Turn()

        async def exclusive() -> None:
            async with turn:
                await increment()

        return both(exclusive, exclusive)()

    assert ends(start, bounds, n=b"0") == {(("n", b"2"),)}


@dataclass
class Shared:
    """What two coroutines share."""

    seen: list[str] = field(default_factory=list)
    done: bool = False


def test_what_stands_between_two_requests_is_one_step() -> None:
    def start() -> Any:
        shared = Shared()

        async def walk(name: str) -> None:
            for _ in range(2):
                shared.seen += [name, name]
                await IO.put(name, b"")

        async def check() -> None:
            await both(lambda: walk("a"), lambda: walk("b"))()
            assert all(one == other for one, other in zip(shared.seen[::2], shared.seen[1::2], strict=True))

        return check()

    assert ends(start, n=b"0") == {(("a", b""), ("b", b""), ("n", b"0"))}


def test_who_waits_for_memory_goes_on_once_it_holds_and_not_before() -> None:
    def start() -> Any:
        shared = Shared()

        async def waits() -> None:
            await until(lambda: shared.done)
            await increment()

        async def works() -> None:
            await IO.put("n", b"2")
            shared.done = True

        return both(waits, works)()

    assert ends(start, n=b"0") == {(("n", b"3"),)}


def test_a_time_limit_may_be_over_at_any_moment() -> None:
    def start() -> Any:
        async def waits() -> None:
            await until(lambda: False, Milliseconds(1000))
            await increment()

        return both(waits, increment)()

    assert ends(start, n=b"0") == {(("n", b"1"),), (("n", b"2"),)}


def test_coroutines_that_wait_for_each_other_are_found() -> None:
    async def never() -> None:
        await until(lambda: False)

    violation = explore(world(both(never, increment), n=b"0")).violation
    assert violation is not None
    assert "Deadlock: its coroutines wait for each other" in violation.reason


def test_who_joins_gets_the_result_or_the_failure() -> None:
    async def fails() -> None:
        raise InvalidArgument("no")

    async def result() -> int:
        return 7

    async def start() -> tuple[int, str]:
        good, bad = await Spawn(result), await Spawn(fails)
        try:
            await Join(bad)
        except InvalidArgument as failure:
            return await Join(good), str(failure)
        return 0, ""

    assert run_alone(Process("p", start), Contents()).end == Ended((7, "no"))


def test_a_failure_that_nobody_joins_is_that_of_the_process() -> None:
    async def fails() -> None:
        raise InvalidArgument("no")

    async def start() -> None:
        await Spawn(fails)

    assert run_alone(Process("p", start), Contents()).end.failure == Failure("InvalidArgument", "no", expected=True)


def test_the_turn_goes_round_once_and_begins_anew_after_each_step() -> None:
    running = Running(Process("p", both(increment, increment)))
    assert (running.pause, running.switches) == (GO_ON, True)
    running.resume(SWITCHED)
    assert (running.pause, running.switches) == (GO_ON, False)
    running.resume(Returned(None))
    assert (running.pause, running.switches) == (GO_ON, True)
    running.resume(SWITCHED)
    assert (running.pause, running.switches, running.site()) == (Get("n"), False, "kit.toys.increment")
    running.close()


def test_a_request_of_a_process_with_one_coroutine_is_nobody_elses_turn() -> None:
    with pytest.raises(InvalidArgument, match="a Get cannot be switch"):
        Simulation(world(increment, n=b"0")).step("p", Fate.SWITCH)


def test_histories_of_several_coroutines_are_recorded_step_by_step() -> None:
    begun = world(both(increment, increment), n=b"0")
    histories = [record(begun, moves)[0] for moves in explore(begun, Bounds(classes_max=20)).classes]
    assert {step.outcome for steps in histories for step in steps} == {"normal", "switch"}
    one, two = (Contents({"n": value}).digest[:16] for value in (b"1", b"2"))
    assert {steps[-1].store for steps in histories} == {one, two}


def test_a_process_that_is_dropped_after_a_failure_leaves_no_coroutine_that_never_began(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def failing() -> None:
        raise InvalidArgument("on purpose")

    async def never() -> None:
        raise AssertionError

    async def start() -> None:
        await Spawn(failing)
        await Spawn(never)
        await IO.get("n")

    running = Running(Process("a", start))
    while running.pause is not GO_ON:
        running.resume(SWITCHED)
    running.resume(Returned(None))
    circle: list[object] = [running]  # Python takes the members of a circle down in any order, the oldest first
    circle.append(circle)
    del running, circle
    gc.collect()
    assert [str(warned.message) for warned in recwarn] == []


def test_alone_in_its_process_a_coroutine_that_waits_for_another_one_is_a_bug() -> None:
    async def waits() -> bool:
        return await Until(lambda: False)

    with pytest.raises(EngineBug, match="there are none"):
        run(waits(), lambda _request: None)


@pytest.mark.parametrize("revision", B_FIRST)
@pytest.mark.parametrize("name", ["two_putters", "timed_putters"])
def test_merged_histories_of_one_writers_coroutines_reach_the_same_stores(name: str, revision: str) -> None:
    scenario = find(name)
    exact = explore(scenario.build(setting(revision)), EXACT)
    merged = explore(scenario.build(setting(revision)), MERGED)
    assert exact.terminal_stores == merged.terminal_stores
    assert exact.states > merged.states


@pytest.mark.parametrize("revision", B_FIRST)
@pytest.mark.parametrize("name", ["two_putters", "timed_putters"])
def test_nothing_goes_wrong_when_a_request_of_a_shared_writer_meets_any_fault(name: str, revision: str) -> None:
    scenario = find(name)
    found = explore(scenario.build(setting(revision)), Bounds(faults=1, reduce=True, merge=True))
    assert found.complete
    assert {fate for fates in found.sites.values() for fate in fates} == {Fate.NORMAL, *FAULTS}


@pytest.mark.long
@pytest.mark.parametrize(
    "bug", ["stored_by_another", "turn_not_kept", "sealed_under_a_put", "released_before_the_commit", "lost_wake_up"]
)
def test_what_goes_wrong_between_the_coroutines_of_a_writer_is_found(bug: str) -> None:
    (planted,) = choose([bug])
    assert planted.oracle in kills.of_bug(planted).oracles
