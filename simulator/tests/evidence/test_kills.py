from __future__ import annotations

from memwal_sim.bugs import load
from memwal_sim.evidence.kills import Kill, alone, render, row, switches
from memwal_sim.exploring.exploration import Move
from memwal_sim.outcomes import Fate

BUGS = load()


def kill(bug: str, *oracles: str, killed: bool = True) -> Kill:
    return Kill(bug=bug, killed=killed, states=1_000, steps=8, preemptions=0, seconds=0.1, oracles=oracles)


def test_a_bug_is_killed_and_all_oracles_that_notice_it_are_named() -> None:
    found = row("torn_entry")
    assert (found.killed, found.steps, found.preemptions) == (True, 9, 0)
    assert found.oracles == ("acknowledged writes survive",)


def test_what_only_one_oracle_notices_is_told() -> None:
    kills = [kill("a", "x"), kill("b", "x", "y"), kill("c", "y", "z")]
    assert alone(kills) == {"x": ["a"], "y": [], "z": []}


def test_the_matrix_names_the_oracle_of_the_bug_and_the_others() -> None:
    own, other = "acknowledged writes survive", "the store can be inspected"
    text = render([kill("torn_entry", own, other)], BUGS)
    assert f"| torn_entry | AMB-16 | one_writer | 0 | 1,000 | 8 | 0 | {own} | {other} |\n" in text


def test_a_bug_that_is_not_killed_says_so() -> None:
    assert "| 8 | 0 | **not** acknowledged writes survive |  |\n" in render([kill("torn_entry", killed=False)], BUGS)


def test_a_process_is_left_when_it_goes_on_later() -> None:
    moves = [Move(actor, Fate.NORMAL) for actor in "aabbacc"]
    assert switches(moves) == 1
    assert switches(moves[:4]) == 0
