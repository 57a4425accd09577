from __future__ import annotations

import pytest
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent
from memwal.errors import AlreadyExists, OutcomeUnknown, Throttled
from memwal_sim.outcomes import FAULTS, Fate, Met, fates, meet
from memwal_sim.store import Contents, Raised, Returned

EMPTY = Contents()
FULL = Contents({"x": b"1"})
UNKNOWN = Raised(OutcomeUnknown, "x")


@pytest.mark.parametrize("request_", [PutIfAbsent("x"), Put("x"), Delete("x"), Copy("x"), RenameIfAbsent("x")])
def test_a_request_that_changes_the_store_may_meet_every_fate(request_: PutIfAbsent) -> None:
    assert fates(request_, FAULTS) == (Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED)


@pytest.mark.parametrize("request_", [Get("x"), Head("x"), List("x"), ListFolders("x")])
def test_a_request_that_reads_has_no_unknown_outcome(request_: Get) -> None:
    assert fates(request_, FAULTS) == (Fate.NORMAL, Fate.THROTTLED)


def test_only_allowed_faults_are_met_and_the_normal_reply_always() -> None:
    assert fates(Put("x"), frozenset({Fate.LOST})) == (Fate.NORMAL, Fate.LOST)
    assert fates(Put("x"), frozenset()) == (Fate.NORMAL,)


@pytest.mark.parametrize(
    ("fate", "met"),
    [
        (Fate.NORMAL, Met(FULL, Returned(None))),
        (Fate.LOST, Met(EMPTY, UNKNOWN)),
        (Fate.APPLIED, Met(FULL, UNKNOWN)),
        (Fate.LATE, Met(EMPTY, UNKNOWN, orphaned=True)),
        (Fate.THROTTLED, Met(EMPTY, Raised(Throttled, "x"))),
    ],
)
def test_what_each_fate_makes_of_a_create(fate: Fate, met: Met) -> None:
    assert meet(EMPTY, PutIfAbsent("x", b"1"), fate) == met


def test_a_create_of_a_taken_name_is_refused_or_unknown() -> None:
    request = PutIfAbsent("x", b"2")
    assert meet(FULL, request, Fate.NORMAL) == Met(FULL, Raised(AlreadyExists, "x"))
    assert meet(FULL, request, Fate.APPLIED) == Met(FULL, UNKNOWN)
