from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal_sim.exploring.independence import Accesses
from memwal_sim.store import Contents, perform

NAMES = ("a", "f/a", "f/b", "f/g/a", "f/g/b", "h/a")
FOLDERS = ("", "f", "f/g", "h")

names, folders = st.sampled_from(NAMES), st.sampled_from(FOLDERS)
data = st.sampled_from((b"1", b"2"))
requests = st.one_of(
    st.builds(Get, names),
    st.builds(Head, names),
    st.builds(List, folders),
    st.builds(ListFolders, folders),
    st.builds(PutIfAbsent, names, data),
    st.builds(Put, names, data),
    st.builds(Delete, names),
    st.builds(Copy, names, names),
    st.builds(RenameIfAbsent, names, names),
)
stores = st.dictionaries(names, data).map(Contents)


def commute(contents: Contents, first: StoreRequest[Any], others: list[StoreRequest[Any]]) -> bool:
    """Whether ``first`` now or after ``others`` makes a difference to anybody."""
    now, reply = perform(contents, first)
    replies = []
    for other in others:
        now, answer = perform(now, other)
        replies.append(answer)
    later, late = contents, []
    for other in others:
        later, answer = perform(later, other)
        late.append(answer)
    later, reply_later = perform(later, first)
    return (now, reply, replies) == (later, reply_later, late)


@given(stores, requests, st.lists(requests, max_size=3))
def test_requests_that_are_said_to_commute_do_so(
    contents: Contents, first: StoreRequest[Any], others: list[StoreRequest[Any]]
) -> None:
    accesses = Accesses()
    touched = 0
    for other in others:
        touched |= accesses.touched(other)
    if not accesses.noticed(first, contents) & touched:
        assert commute(contents, first, others)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (Get("a"), PutIfAbsent("a", b"2")),
        (PutIfAbsent("a", b"2"), Get("a")),
        (PutIfAbsent("f/b", b"1"), PutIfAbsent("f/c", b"1")),
        (PutIfAbsent("f/b", b"1"), ListFolders("")),
        (Put("a", b"2"), List("")),
        (Delete("f/b"), Get("f/b")),
    ],
)
def test_what_makes_no_difference_in_a_state_is_said_to_commute_there(
    first: StoreRequest[Any], other: StoreRequest[Any]
) -> None:
    contents = Contents({"a": b"1", "f/a": b"1"})
    accesses = Accesses()
    touched = accesses.touched(other)
    assert not accesses.noticed(first, contents) & touched
    assert commute(contents, first, [other])


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (Get("b"), PutIfAbsent("b", b"2")),
        (Get("a"), Put("a", b"2")),
        (PutIfAbsent("b", b"2"), List("")),
        (PutIfAbsent("h/b", b"1"), ListFolders("")),
        (List("f"), PutIfAbsent("f/b", b"1")),
        (Delete("a"), Head("a")),
    ],
)
def test_what_makes_a_difference_is_not(first: StoreRequest[Any], other: StoreRequest[Any]) -> None:
    contents = Contents({"a": b"1", "f/a": b"1"})
    accesses = Accesses()
    touched = accesses.touched(other)
    assert accesses.noticed(first, contents) & touched
