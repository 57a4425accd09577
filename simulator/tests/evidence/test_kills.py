"""Which oracles notice a planted bug, and what a reading does alone."""

from __future__ import annotations

from dataclasses import replace

from memwal_sim.bugs import Bug, choose, load
from memwal_sim.evidence import kills
from memwal_sim.evidence.turned import TurnedReading, alone
from memwal_sim.exploring.exploration import Move
from memwal_sim.outcomes import Fate
from memwal_sim.world import REFINEMENT


def of_one(name: str, *turned: str) -> Bug:
    return replace(load()["no_barrier"], name=name, readings=dict.fromkeys(turned, False))


def test_a_bug_is_killed_and_all_oracles_that_notice_it_are_named() -> None:
    (bug,) = choose(["goes_on_after_failure"])
    found = kills.of_bug(bug)
    assert (found.scenario, found.revision) == ("one_writer_observed", "B")
    assert found.oracles == {
        "acknowledged writes survive": "21 steps, 0 switches, 214 states",
        "no process breaks": "21 steps",
    }


def test_a_bug_that_breaks_another_clause_than_it_says_is_not_killed_by_its_oracle() -> None:
    (bug,) = choose(["torn_entry"])
    assert kills.of_bug(bug).oracles.keys() == {bug.oracle, REFINEMENT}
    # What no step of the machine makes breaks no clause by itself: there the clause does not count.
    assert kills.of_bug(replace(bug, violated="READ-001")).oracles.keys() == {REFINEMENT}


def test_every_reading_is_explored_in_the_scenarios_of_the_bugs_that_turn_it_under_every_revision() -> None:
    known = {"one": of_one("one", "claim_barrier"), "two": of_one("two", "stop_on_taken_position", "claim_barrier")}
    found = alone(known)
    assert [(each.reading, each.bug, each.revision) for each in found] == [
        (reading, bug, revision)
        for reading, bug in (("stop_on_taken_position", "two"), ("claim_barrier", "one"))
        for revision in ("A", "B", "R")
    ]


def test_a_reading_alone_is_told_by_the_oracles_that_object_within_the_bounds() -> None:
    stop = TurnedReading(reading="stop_on_taken_position", bug="no_barrier", revision="B")
    found = kills.of_reading(stop, states_max=1_500)
    assert (found.scenario, found.revision) == ("two_writers_two_keys", "B")
    assert found.oracles == {"wal_epochs_never_decrease": "23 steps", REFINEMENT: "23 steps"}
    assert found.explored.startswith("the first 1,5")
    barrier = kills.of_reading(replace(stop, reading="claim_barrier"), states_max=1_500)
    assert barrier.oracles == {"no process breaks": "20 steps", REFINEMENT: "8 steps"}


def test_a_reading_that_does_no_harm_alone_is_told_with_what_was_seen() -> None:
    found = kills.of_reading(TurnedReading(reading="claim_barrier", bug="start_behind_pointer", revision="B"))
    assert (found.scenario, found.oracles, found.explored) == ("one_writer", {REFINEMENT: "8 steps"}, "all 18 states")
    found = kills.of_reading(TurnedReading(reading="list_wal_tail", bug="start_behind_pointer", revision="B"))
    assert (found.scenario, found.oracles, found.explored) == ("one_writer", {}, "all 18 states")


def test_a_process_is_left_when_it_goes_on_later() -> None:
    moves = [Move(actor, Fate.NORMAL) for actor in "aabbacc"]
    assert kills.switches(moves) == 1
    assert kills.switches(moves[:4]) == 0
