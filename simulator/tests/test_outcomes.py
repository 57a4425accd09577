from __future__ import annotations

import pytest
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent
from memwal.errors import AlreadyExists, NotFound, OutcomeUnknown, Throttled
from memwal.stores.memory import Raised, Returned
from memwal_sim.outcomes import FAULTS, Fate, Met, fates, meet
from memwal_sim.store import Contents, Traits

EMPTY = Contents()
FULL = Contents({"x": b"1"})
UNKNOWN = Raised(OutcomeUnknown, "x")


@pytest.mark.parametrize("request_", [Put("x"), Delete("x"), Copy("x")])
def test_a_request_that_changes_the_store_may_have_an_unknown_outcome(request_: Put) -> None:
    assert fates(request_, FAULTS) == (Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED)


@pytest.mark.parametrize("request_", [PutIfAbsent("x"), RenameIfAbsent("x")])
def test_a_conditional_create_may_meet_another_one_under_way(request_: PutIfAbsent) -> None:
    expected = (Fate.NORMAL, Fate.LOST, Fate.APPLIED, Fate.LATE, Fate.THROTTLED, Fate.CONFLICT)
    assert fates(request_, FAULTS) == expected


@pytest.mark.parametrize("request_", [Get("x"), Head("x"), List("x"), ListFolders("x")])
def test_a_read_may_be_stale_only_where_that_is_asked_for(request_: Get) -> None:
    assert fates(request_, frozenset(Fate)) == (Fate.NORMAL, Fate.THROTTLED, Fate.STALE)


LAGGING = Contents({"d/x": b"1"}, Traits(lags=True))


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (Get("d/x"), Returned(b"1")),
        (List("d"), Returned(("d/x",))),
        (Get("d/y"), Raised(NotFound, "d/y")),
    ],
)
def test_a_stale_read_is_answered_from_before_the_last_change(request_: Get, reply: Returned) -> None:
    changed = LAGGING.having("d/x", b"2")
    assert meet(changed, Get("d/x"), Fate.NORMAL).reply == Returned(b"2")
    assert meet(changed, request_, Fate.STALE) == Met(changed, reply)


def test_a_list_may_miss_what_was_created_last_and_show_what_was_deleted_last() -> None:
    assert meet(LAGGING.having("d/y", b""), List("d"), Fate.STALE).reply == Returned(("d/x",))
    assert meet(LAGGING.without("d/x"), List("d"), Fate.STALE).reply == Returned(("d/x",))


def test_a_store_that_does_not_lag_answers_by_what_it_holds() -> None:
    assert meet(FULL.having("x", b"2"), Get("x"), Fate.STALE).reply == Returned(b"2")


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
        (Fate.CONFLICT, Met(EMPTY, Raised(Throttled, "x"))),
    ],
)
def test_what_each_fate_makes_of_a_create(fate: Fate, met: Met) -> None:
    assert meet(EMPTY, PutIfAbsent("x", b"1"), fate) == met


def test_a_create_of_a_taken_name_is_refused_or_unknown() -> None:
    request = PutIfAbsent("x", b"2")
    assert meet(FULL, request, Fate.NORMAL) == Met(FULL, Raised(AlreadyExists, "x"))
    assert meet(FULL, request, Fate.APPLIED) == Met(FULL, UNKNOWN)
