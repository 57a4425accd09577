from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pyarrow as pa
import pytest
from memwal.effects import Get, Now
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore
from memwal_sim.fingerprint import Unknown, fingerprint
from memwal_sim.scenarios.scenario import find, setting

Started = Coroutine[Any, Any, Any]


def advanced(coroutine: Started, *replies: Any) -> Started:
    coroutine.send(None)
    for reply in replies:
        coroutine.send(reply)
    return coroutine


async def summing(first: int) -> int:
    total = first
    while True:
        more = await Get("x")
        total += len(more)
        del more


async def holding(value: object) -> object:
    await Get("x")
    return value


async def sharing(one: list[int], other: list[int]) -> list[int]:
    await Get("x")
    one.append(1)
    return other


async def looping(values: list[int]) -> None:
    for _ in values:
        await Get("x")


async def handling(text: str) -> str:
    try:
        raise ValueError(text)
    except ValueError as error:
        await Get("x")
        return str(error)


def test_histories_that_lead_to_the_same_values_are_the_same() -> None:
    one, other = advanced(summing(0), b"123", b""), advanced(summing(1), b"", b"12")
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(advanced(summing(2), b"12", b""))


def test_what_belongs_to_the_process_counts_too() -> None:
    assert fingerprint(advanced(summing(0)), 1) != fingerprint(advanced(summing(0)), 2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (b"a", bytearray(b"a")),
        ([1], (1,)),
        ({"a": 1}, {"a": 2}),
        (pa.table({"x": [1]}), pa.table({"x": [2]})),
        (pa.schema([pa.field("x", pa.int8(), metadata={"a": "1"})]), pa.schema([pa.field("x", pa.int8())])),
        (Get("x"), Get("y")),
        (len, max),
    ],
)
def test_different_values_are_told_apart(one: object, other: object) -> None:
    assert fingerprint(advanced(holding(one))) == fingerprint(advanced(holding(one)))
    assert fingerprint(advanced(holding(one))) != fingerprint(advanced(holding(other)))


def test_equal_values_are_equal_whatever_objects_they_are() -> None:
    one, other = pa.table({"x": [1, 2]}).slice(1), pa.table({"x": [2]})
    assert fingerprint(advanced(holding(one))) == fingerprint(advanced(holding(other)))


def test_one_list_under_two_names_is_not_two_equal_lists() -> None:
    shared: list[int] = []
    assert fingerprint(advanced(sharing(shared, shared))) != fingerprint(advanced(sharing([], [])))


def test_the_place_in_a_loop_counts() -> None:
    values = [7, 7, 7]
    assert fingerprint(advanced(looping(values))) != fingerprint(advanced(looping(values), b""))


def test_an_exception_that_is_being_handled_counts() -> None:
    assert fingerprint(advanced(handling("a"))) != fingerprint(advanced(handling("b")))


def test_what_is_closed_over_counts() -> None:
    def adding(number: int) -> object:
        return lambda: number

    assert fingerprint(advanced(holding(adding(1)))) == fingerprint(advanced(holding(adding(1))))
    assert fingerprint(advanced(holding(adding(1)))) != fingerprint(advanced(holding(adding(2))))


def test_an_object_of_a_foreign_kind_has_no_fingerprint() -> None:
    with pytest.raises(Unknown, match=r"_thread\.lock"):
        fingerprint(advanced(holding(__import__("threading").Lock())))


def test_a_value_that_is_not_read_again_makes_no_difference() -> None:
    async def asking(label: str) -> None:
        await Get(label)
        await Now()

    assert fingerprint(advanced(asking("a"), b"")) == fingerprint(advanced(asking("b"), b""))


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "faults"),
    [
        ("one_writer", 0),
        ("two_writers_no_flush", 0),
        ("two_commits_external", 0),
        ("one_writer", 1),
        ("two_commits_put", 1),
        ("two_commits_external", 1),
    ],
)
def test_merging_and_reducing_reach_the_same_stores_at_the_end(scenario: str, faults: int) -> None:
    def ends(*, reduce: bool, merge: bool) -> tuple[frozenset[str], set[str], int]:
        run = explore(find(scenario).build(setting()), Bounds(faults=faults, reduce=reduce, merge=merge))
        assert run.complete
        return run.terminal_stores, set(run.ends), run.stores

    exact = ends(reduce=False, merge=False)
    for reduce, merge in ((False, True), (True, False), (True, True)):
        stores, kinds, count = ends(reduce=reduce, merge=merge)
        assert (stores, kinds) == exact[:2]
        assert count <= exact[2]
        assert reduce or count == exact[2]


def test_the_engine_s_processes_are_of_known_kinds() -> None:
    run = explore(find("two_mergers").build(setting()), Bounds(merge=True, reduce=True))
    assert run.unmerged == {}
