from __future__ import annotations

from functools import partial

import pytest
from kit.toys import IO, count_notes, counters, create, lockers, nothing_lost, processes, watched_counters, write_many
from memwal.effects import Note
from memwal.errors import EngineBug
from memwal.violations import Violation
from memwal_sim.exploring.exploration import Bounds, Exploration, ExplorationProgress
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import Fate
from memwal_sim.store import Contents
from memwal_sim.world import World


def sizes(run: Exploration) -> tuple[int, int, int, int]:
    return run.states, run.transitions, run.terminal_states, len(run.terminal_stores)


def digests(*objects: dict[str, bytes]) -> frozenset[str]:
    return frozenset(Contents(each).digest for each in objects)


def test_one_process_has_one_state_per_request_and_one_at_the_start() -> None:
    assert sizes(explore(counters(1))) == (3, 2, 1, 1)


def test_two_lost_updates_have_thirteen_states_and_end_in_one_or_two() -> None:
    # by progress of both: 1 at the start, 2 with one read, 1 with both, 2 + 2 + 2 with one of them ended, 3 at the end
    run = explore(counters(2))
    assert sizes(run) == (13, 14, 3, 2)
    assert run.terminal_stores == digests({"n": b"1"}, {"n": b"2"})
    assert run.depth == 4
    assert run.complete


def test_a_lock_by_conditional_create_has_one_holder_in_each_of_nine_states() -> None:
    # (waiting, waiting), and for either holder: holds, other refused, done, done and other refused
    run = explore(lockers(2))
    assert sizes(run) == (9, 10, 2, 2)
    assert run.terminal_stores == digests({"lock": b"p0", "data": b"p0"}, {"lock": b"p1", "data": b"p1"})


def test_independent_processes_span_a_grid() -> None:
    world = World(contents=Contents(), processes=processes(*(partial(write_many, name, 4) for name in "abc")))
    assert sizes(explore(world)) == (5**3, 3 * 4 * 5 * 5, 1, 1)


def test_each_fate_of_a_create_is_explored_and_the_late_one_lands() -> None:
    # start; created; unknown and absent; unknown and present; unknown, absent and under way; throttled, or in conflict
    world = World(contents=Contents(), processes=processes(create))
    run = explore(world, Bounds(faults=1))
    assert sizes(run) == (6, 7, 5, 2)
    assert run.terminal_stores == digests({}, {"x": b"1"})


def test_without_a_budget_nothing_fails() -> None:
    assert sizes(explore(World(contents=Contents(), processes=processes(create)))) == (2, 1, 1, 1)


def test_only_the_allowed_kinds_of_fault_happen() -> None:
    world = World(contents=Contents(), processes=processes(create))
    run = explore(world, Bounds(faults=1, kinds=frozenset({Fate.LOST})))
    assert sizes(run) == (3, 2, 2, 2)


def test_the_budget_bounds_the_faults_of_a_history() -> None:
    async def twice() -> tuple[str, str]:
        return await create(), await create()

    world = World(contents=Contents(), processes=processes(twice))
    kinds = frozenset({Fate.LOST})
    # normal-taken; lost-created, normal-lost; lost-lost: one history more with two faults
    assert [explore(world, Bounds(faults=faults, kinds=kinds)).terminal_states for faults in (0, 1, 2)] == [1, 3, 4]


def test_a_late_request_lands_after_what_came_later() -> None:
    async def put_twice() -> None:
        await IO.put("x", b"old")

    async def put_after() -> None:
        await IO.put("x", b"new")

    async def both() -> None:
        try:
            await put_twice()
        except Exception:  # noqa: BLE001
            await put_after()

    world = World(contents=Contents(), processes=processes(both))
    kinds = frozenset({Fate.LATE})
    assert explore(world, Bounds(faults=1, kinds=kinds)).terminal_stores == digests({"x": b"old"}, {"x": b"new"})


def test_the_shortest_history_of_a_lost_update_has_four_steps() -> None:
    run = explore(watched_counters(2))
    assert run.violation is not None
    assert run.violation.reason == "2 increments ended, and the counter is 1"
    assert [move.actor for move in run.trace] == ["p0", "p1", "p0", "p1"]
    assert not run.complete


def test_a_lost_update_needs_one_preemption() -> None:
    assert explore(watched_counters(2), Bounds(preemptions=0)).violation is None
    run = explore(watched_counters(2), Bounds(preemptions=1))
    assert run.violation is not None
    assert [move.actor for move in run.trace] == ["p0", "p1", "p1", "p0"]


def test_without_preemptions_only_the_orders_of_whole_processes_are_explored() -> None:
    run = explore(counters(3), Bounds(preemptions=0))
    assert run.terminal_stores == digests({"n": b"3"})
    assert run.terminal_states == 6


def test_oracles_judge_every_state_once_per_contents_and_ghosts() -> None:
    seen: list[tuple[str, int]] = []

    def oracle(contents: Contents, ghosts: int) -> None:
        seen.append((contents.objects["n"].decode(), ghosts))

    explore(counters(2, ghosts=0, observe=count_notes, oracles=(oracle,)))
    assert sorted(seen) == [("0", 0), ("1", 1), ("1", 2), ("2", 2)]


def test_an_oracle_judges_the_first_state_too() -> None:
    world = World(contents=Contents({"n": b"-1"}), processes=(), ghosts=0, oracles=(nothing_lost,))
    run = explore(world)
    assert run.violation is not None
    assert run.trace == ()


def test_an_invocation_counts_from_the_first_request_and_not_before() -> None:
    async def act() -> None:
        await IO.head("a")
        await IO.note("it_invoked")
        await IO.head("a")

    seen = []

    def observe(ghosts: int, _actor: str, _note: object) -> int:
        return ghosts + 1

    def oracle(_contents: Contents, ghosts: int) -> None:
        seen.append(ghosts)

    explore(
        World(contents=Contents({"a": b""}), processes=processes(act), ghosts=0, observe=observe, oracles=(oracle,))
    )
    assert seen == [0, 1]


def test_an_operation_that_ends_without_a_request_has_begun_too() -> None:
    async def act() -> None:
        await IO.head("a")
        await IO.note("it_invoked")
        await IO.note("it_ended")
        await IO.note("other_invoked")
        await IO.head("a")

    def observe(ghosts: tuple[str, ...], _actor: str, note: Note) -> tuple[str, ...]:
        return (*ghosts, note.event)

    seen: list[tuple[str, ...]] = []

    def oracle(_contents: Contents, ghosts: tuple[str, ...]) -> None:
        seen.append(ghosts)

    contents = Contents({"a": b""})
    explore(World(contents=contents, processes=processes(act), ghosts=(), observe=observe, oracles=(oracle,)))
    assert seen == [(), ("it_invoked", "it_ended"), ("it_invoked", "it_ended", "other_invoked")]


def test_a_process_that_breaks_is_a_violation_with_its_history() -> None:
    async def breaks() -> None:
        if await IO.get("n") != b"0":
            raise EngineBug("not nought")
        await IO.put("n", b"1")

    run = explore(World(contents=Contents({"n": b"0"}), processes=processes(breaks, breaks)))
    assert run.violation is not None
    assert run.violation.clause == "ENGINE"
    assert "EngineBug: not nought" in run.violation.reason
    assert [move.actor for move in run.trace] == ["p0", "p0", "p1"]


def test_an_expected_failure_is_an_end_like_any_other() -> None:
    async def fails() -> None:
        await IO.get("missing")

    assert sizes(explore(World(contents=Contents(), processes=processes(fails)))) == (2, 1, 1, 1)


def test_a_run_that_hits_a_limit_says_so_and_is_not_complete() -> None:
    world = World(contents=Contents(), processes=processes(*(partial(write_many, name, 20) for name in "abc")))
    run = explore(world, Bounds(states_max=5000))
    assert run.limit == "5,000 states"
    assert not run.complete
    assert 5000 <= run.states < 21**3
    assert explore(world, Bounds(memory_mib_max=1)).limit == "1 MiB of memory"
    assert explore(world, Bounds(seconds_max=0.0)).limit == "0 seconds"


def test_progress_is_reported_every_few_thousand_states() -> None:
    world = World(contents=Contents(), processes=processes(*(partial(write_many, name, 20) for name in "abc")))
    reports: list[ExplorationProgress] = []
    run = explore(world, progress=reports.append)
    assert run.states == 21**3 == 9261
    assert [report.states // 4096 for report in reports] == [1, 2]


def test_state_that_is_hidden_from_the_history_is_found_by_the_check() -> None:
    calls = []

    async def hidden() -> None:
        calls.append(1)
        await IO.head("a")
        await IO.put(f"x{len(calls)}", b"")

    world = World(contents=Contents({"a": b""}), processes=processes(hidden))
    with pytest.raises(EngineBug, match="p0 is not a function of its replies"):
        explore(world, check=True)


def test_the_check_changes_nothing_else() -> None:
    assert sizes(explore(counters(2), Bounds(faults=1), check=True)) == sizes(explore(counters(2), Bounds(faults=1)))


def test_notes_before_the_first_request_count_from_the_start() -> None:
    async def act() -> None:
        await IO.note("counted")
        await IO.head("a")

    seen: list[int] = []

    def oracle(_contents: Contents, ghosts: int) -> None:
        seen.append(ghosts)

    processes_ = processes(act, act)
    explore(World(contents=Contents(), processes=processes_, ghosts=0, observe=count_notes, oracles=(oracle,)))
    assert seen == [2]


def test_with_one_oracle_only_what_the_others_find_is_passed_over() -> None:
    def never_two(contents: Contents, _ghosts: object) -> Violation | None:
        return Violation("TOY", "never two", "it is 2") if contents.objects["n"] == b"2" else None

    world = counters(2, ghosts=0, observe=count_notes, oracles=(never_two, nothing_lost))
    found = [explore(world, only=name).violation for name in ("never two", "nothing lost", "neither")]
    assert [None if each is None else each.oracle for each in found] == ["never two", "nothing lost", None]
