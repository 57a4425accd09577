"""Uniform runs, PCT and swarm: what a seed decides, and how often what is found."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import permutations

import pytest
from kit.toys import IO, processes, watched_counters, write_many
from memwal.effects import Note
from memwal.violations import Violation
from memwal_sim.exploring.tables import FATE_BITS
from memwal_sim.exploring.unfolding import FATE_MASK, Unfolding
from memwal_sim.outcomes import Fate
from memwal_sim.store import Contents
from memwal_sim.strategies.draws import Draws
from memwal_sim.strategies.hunting import RANDOM
from memwal_sim.strategies.mishaps import Absence, PlannedFaults, plan_absences, without_absent
from memwal_sim.strategies.pct import by_priority, guarantee, pct
from memwal_sim.strategies.strategy import Strategy, Terms
from memwal_sim.strategies.swarm import means, swarm, weighted
from memwal_sim.strategies.uniform import any_of, uniform, usual_length
from memwal_sim.strategies.walking import NEVER, walk
from memwal_sim.world import World

STRATEGIES = pytest.mark.parametrize("strategy", RANDOM.values(), ids=RANDOM)


def grid(count: int, requests: int) -> World:
    """``count`` processes with ``requests`` puts each, of their own objects."""
    names = "abcdefgh"[:count]
    return World(contents=Contents(), processes=processes(*(partial(write_many, name, requests) for name in names)))


FOUR = frozenset({Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED})


def terms(world: World, faults: int = 0, depth: int = 3) -> Terms:
    return Terms(unfolding=Unfolding(world, FOUR), faults=faults, steps=usual_length(world), depth=depth)


def lanes_of(keys: bytes) -> list[int]:
    return [key >> FATE_BITS for key in keys]


def fates_of(keys: bytes) -> list[int]:
    return [key & FATE_MASK for key in keys if key & FATE_MASK]


def test_a_seed_decides_the_numbers_drawn() -> None:
    # shake_128 of "7/0", read as little-endian numbers of 32 bits
    draws = Draws(7)
    assert [draws.take() for _ in range(3)] == [2154383497, 385174411, 77069788]
    assert [Draws(seed).below(10) for seed in (7, 8)] == [5, 5]


def test_numbers_go_on_beyond_the_first_block_without_repeating_it() -> None:
    draws = Draws(1)
    numbers = [draws.take() for _ in range(1000)]
    assert len(set(numbers)) == 1000


def test_each_order_of_a_shuffle_is_equally_likely() -> None:
    counts = Counter("".join(Draws(seed).shuffled("abc")) for seed in range(6000))
    assert len(counts) == 6
    assert all(890 <= count <= 1110 for count in counts.values())  # 1000, and 4 standard deviations


@STRATEGIES
def test_the_same_seed_is_the_same_run_and_others_differ(strategy: Strategy) -> None:
    warm = strategy(terms(grid(3, 4), faults=2))
    first = [warm(seed).keys for seed in range(60)]
    cold = strategy(terms(grid(3, 4), faults=2))
    assert [cold(seed).keys for seed in reversed(range(60))] == first[::-1]
    assert len(set(first)) > 25


@STRATEGIES
def test_no_strategy_reports_a_violation_where_there_is_none(strategy: Strategy) -> None:
    run = strategy(terms(watched_counters(1), faults=0))
    assert {run(seed).violation for seed in range(200)} == {None}


@STRATEGIES
def test_each_strategy_finds_a_lost_update(strategy: Strategy) -> None:
    run = strategy(terms(watched_counters(2)))
    assert any(run(seed).violation for seed in range(50))


@STRATEGIES
def test_no_run_has_more_faults_than_its_budget_and_some_have_all(strategy: Strategy) -> None:
    run = strategy(terms(grid(2, 5), faults=2))
    counts = Counter(len(fates_of(run(seed).keys)) for seed in range(300))
    assert max(counts) == 2
    assert counts[2] > 30


def test_the_usual_length_is_that_of_a_run_to_the_end_even_where_it_violates_something() -> None:
    assert usual_length(grid(3, 4)) == 12
    assert usual_length(watched_counters(3)) == 6
    assert usual_length(grid(0, 0)) == 1


def test_uniform_choices_make_each_order_of_single_steps_equally_likely() -> None:
    unfolding = Unfolding(grid(3, 1))
    counts = Counter(tuple(lanes_of(walk(unfolding, any_of(Draws(seed))).keys)) for seed in range(6000))
    assert counts.keys() == set(permutations(range(3)))
    assert all(890 <= count <= 1110 for count in counts.values())


def test_a_crashed_process_never_moves_again_and_the_others_finish() -> None:
    unfolding = Unfolding(grid(2, 3))
    pick = without_absent(any_of(Draws(0)), [Absence(0, 2, NEVER)])
    lanes = lanes_of(walk(unfolding, pick).keys)
    assert 0 not in lanes[2:]
    assert lanes.count(1) == 3


def test_a_run_in_which_everybody_has_crashed_is_over() -> None:
    pick = without_absent(any_of(Draws(0)), [Absence(0, 2, NEVER), Absence(1, 2, NEVER)])
    assert len(walk(Unfolding(grid(2, 3)), pick).keys) == 2


def test_a_stalled_process_comes_back_at_its_step_or_when_nobody_else_can_move() -> None:
    pick = without_absent(any_of(Draws(0)), [Absence(0, 0, 3)])
    lanes = lanes_of(walk(Unfolding(grid(2, 6)), pick).keys)
    assert lanes[:3] == [1, 1, 1]
    assert lanes.count(0) == 6
    assert 0 in lanes[3:6]
    pick = without_absent(any_of(Draws(0)), [Absence(0, 0, 100)])
    assert lanes_of(walk(Unfolding(grid(2, 2)), pick).keys) == [1, 1, 0, 0]


def test_one_process_in_eight_crashes_and_one_in_four_stalls() -> None:
    planned = [each for seed in range(4000) for each in plan_absences(Draws(seed), 1, 10, stalls=True, crashes=True)]
    crashes = [each for each in planned if each.end == NEVER]
    stalls = [each for each in planned if each.end != NEVER]
    assert 420 <= len(crashes) <= 580
    assert 890 <= len(stalls) <= 1110
    assert {each.first for each in planned} == set(range(10))
    assert all(1 <= each.end - each.first <= 10 for each in stalls)
    assert plan_absences(Draws(0), 500, 10, stalls=False, crashes=False) == ()


def test_a_planned_fault_waits_for_a_request_that_can_fail() -> None:
    faults = PlannedFaults(Draws(3), 1, 1, frozenset({int(Fate.LOST)}))
    assert faults.due == 0
    assert faults.fate(0, (int(Fate.THROTTLED),)) == 0
    assert faults.due == 0
    assert faults.fate(1, (int(Fate.LOST), int(Fate.APPLIED))) == Fate.LOST
    assert faults.due == NEVER


def test_the_highest_priority_moves_and_falls_at_a_change_point() -> None:
    assert lanes_of(walk(Unfolding(grid(3, 2)), by_priority([5, 6, 4], {})).keys) == [1, 1, 0, 0, 2, 2]
    assert lanes_of(walk(Unfolding(grid(3, 2)), by_priority([5, 6, 4], {1: 0})).keys) == [1, 0, 0, 2, 2, 1]
    twice = by_priority([5, 6, 4], {1: 1, 2: 0})
    assert lanes_of(walk(Unfolding(grid(3, 2)), twice).keys) == [1, 0, 2, 2, 1, 0]


def test_the_guarantee_is_that_of_the_paper() -> None:
    promised = guarantee(terms(watched_counters(2), depth=2))
    assert (promised.processes, promised.steps, promised.depth) == (2, 4, 2)
    assert promised.probability == 1 / 8
    assert guarantee(terms(grid(3, 4), depth=1)).probability == 1 / 3
    # one fault: one lane more for a late request, and one of 4 kinds at one of 12 steps
    assert guarantee(terms(grid(3, 4), faults=1, depth=2)).probability == 1 / (4 * 12) / (12 * 4)


def frequency(world: World, depth: int, runs: int) -> float:
    run = pct(terms(world, depth=depth))
    return sum(run(seed).violation is not None for seed in range(runs)) / runs


def test_pct_of_depth_one_never_finds_a_lost_update_and_of_depth_two_at_least_as_often_as_promised() -> None:
    assert frequency(watched_counters(2), depth=1, runs=500) == 0
    assert frequency(watched_counters(2), depth=2, runs=2000) >= 1 / (2 * 4)
    assert frequency(watched_counters(3), depth=2, runs=2000) >= 1 / (3 * 6)


def seesaw() -> World:
    """A writer counts to 4; a reader reads twice. It is wrong to read 1, then 3: that takes three preemptions."""

    async def write() -> None:
        for number in range(1, 5):
            await IO.put("n", str(number).encode())

    async def read() -> None:
        await IO.note("read", value=await IO.get("n"))
        await IO.note("read", value=await IO.get("n"))

    def observe(ghosts: tuple[object, ...], _actor: str, note: Note) -> tuple[object, ...]:
        return (*ghosts, dict(note.fields)["value"])

    def oracle(_contents: Contents, ghosts: tuple[object, ...]) -> Violation | None:
        return Violation("TOY", "seesaw", "1 and 3") if ghosts == (b"1", b"3") else None

    return World(
        contents=Contents({"n": b"0"}), processes=processes(write, read), ghosts=(), observe=observe, oracles=(oracle,)
    )


def test_pct_finds_a_bug_of_depth_four_at_depth_four_as_often_as_promised_and_not_below() -> None:
    assert frequency(seesaw(), depth=3, runs=3000) == 0
    runs = 20_000
    promised = guarantee(terms(seesaw(), depth=4)).probability
    assert promised == 1 / (2 * 6**3)
    # the bound is exact here: 46.3 runs are expected, with a standard deviation of 6.8
    assert abs(frequency(seesaw(), depth=4, runs=runs) * runs - promised * runs) < 3 * 6.8


def test_a_swarm_leaves_each_of_its_means_out_of_about_every_second_run() -> None:
    drawn = [means(Draws(seed), 3, FOUR) for seed in range(2000)]
    for kind in FOUR:
        assert 900 <= sum(int(kind) in each.kinds for each in drawn) <= 1100
    assert 900 <= sum(each.stalls for each in drawn) <= 1100
    assert 900 <= sum(each.crashes for each in drawn) <= 1100
    assert {weight for each in drawn for weight in each.weights} == {1, 4, 16}


def test_a_run_of_a_swarm_meets_the_kinds_of_fault_that_it_drew() -> None:
    run = swarm(terms(grid(2, 5), faults=2))
    met = Counter[int]()
    for seed in range(300):
        own = means(Draws(seed), 4, FOUR)
        kinds = set(fates_of(run(seed).keys))
        assert kinds <= own.kinds
        met.update(kinds)
    assert met.keys() == set(FOUR)


def test_the_eager_lane_of_a_swarm_moves_in_proportion_to_its_weight() -> None:
    pick = weighted(Draws(5), (1, 16, 4))
    counts = Counter(pick((0, 1)) for _ in range(17_000))
    assert 880 <= counts[0] <= 1120
    counts = Counter(pick((0, 1, 2)) for _ in range(21_000))
    assert 880 <= counts[0] <= 1120
    assert 3780 <= counts[2] <= 4220
    assert {pick((2,)) for _ in range(5)} == {2}


def test_uniform_runs_stall_and_crash_processes() -> None:
    run = uniform(terms(grid(2, 4)))
    lengths = Counter(len(run(seed).keys) for seed in range(400))
    assert lengths[8] > 200
    assert sum(count for length, count in lengths.items() if length < 8) > 50
