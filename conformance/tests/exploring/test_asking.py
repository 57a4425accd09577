"""What answers a reader is held to: those of a scan of the same sources, exact or approximate."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from memwal_conformance import cells
from memwal_conformance.exploring import asking, lives, tables
from memwal_conformance.exploring.lives import ForeignLife
from memwal_conformance.protocol import Hello

LIFE = ForeignLife(name="a", about="", steps=lives.steps_of("w put, w ask", "a"), indexed=True)
HELLO = Hello(implementation="x", version="1", revisions=("B",), roles=("reader",), capabilities=frozenset())
SEARCHES_FLUSHED = dataclasses.replace(HELLO, without=("reader.search writers", "reader.search text"))
OWN = {"writers": ["1"]}
FLUSHED = [{"id": key, "v": "base", "vec": tables.place(key, "base")} for key in range(4)]
BUFFERED = [{"id": 0, "v": "w1", "vec": tables.place(0, "w1")}]
SEARCHES = ["a filtered vector search", "a vector search"]
FEWER = [f"{search} finds fewer rows than it is asked for" for search in SEARCHES]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("vec", pa.list_(pa.float32(), 2))])


def nearest(rows: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: each["vec"][0])[:k]


def wrong(hello: Hello, search: Callable[[list[dict[str, Any]], int], Any] = nearest, *, exact: bool) -> list[str]:
    """What is said of a reader that answers all but searches as it should."""

    def call(message: str, params: dict[str, Any]) -> dict[str, Any]:
        here = [*BUFFERED, *FLUSHED[1:]] if "writers" in params else FLUSHED
        for each in params.get("filter", ()):
            value = cells.value(each["value"])
            here = [r for r in here if (r[each["column"]] == value if each["op"] == "=" else r["id"] >= value)]
        if message == "reader.search":
            here = search(here, params["k"]) if "vector" in params else [r for r in here if r["v"] == params["text"]]
        if message == "reader.get":
            keys = cells.to_table(params["keys"])["id"].to_pylist()
            here = [r for r in here if r["id"] in keys]
        found = pa.Table.from_pylist(here[: params.get("limit", len(here))], SCHEMA)
        return {"rows": cells.to_rows(found.select(params.get("columns", SCHEMA.names)))}

    told = asking.asked(call, hello, LIFE, [0, 1, 2, 3], Counter(["base"] * 4 + ["w1"]), OWN, "B" if exact else "R")
    observed = [each for each in told if each.note]
    assert all((each.note, each.clauses) == ("AMB-107", ("PLAN-021",)) for each in observed)
    assert all(each.clauses == ("READ-001", "READ-002") for each in told if each not in observed)
    return sorted({each.words.removesuffix(" does not find what a scan finds") for each in told})


@pytest.mark.parametrize("exact", [False, True])
def test_searches_that_take_no_writer_are_held_against_a_scan_without_one(exact: bool) -> None:
    assert wrong(SEARCHES_FLUSHED, exact=exact) == []
    assert wrong(HELLO, exact=exact) == []
    assert wrong(SEARCHES_FLUSHED, lambda rows, k: [], exact=exact) == sorted([*SEARCHES, *FEWER])  # they are asked


def test_an_approximate_search_may_miss_the_nearest_and_neither_shows_old_rows_nor_lacks_any_of_all() -> None:
    def farthest(rows: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
        return nearest(rows, len(rows))[-k:]

    assert wrong(HELLO, farthest, exact=False) == []
    assert wrong(HELLO, farthest, exact=True) == SEARCHES
    assert wrong(HELLO, lambda rows, k: nearest([FLUSHED[0], *rows[1:]], k), exact=False) == SEARCHES
    assert wrong(HELLO, lambda rows, k: nearest(rows, k)[:2], exact=False) == [*SEARCHES, FEWER[1]]


@pytest.mark.parametrize("exact", [False, True])
def test_fewer_rows_than_asked_for_are_open_where_older_ones_may_have_taken_their_place(exact: bool) -> None:
    every = 4 * 2 + 1  # more than the versions of all keys
    assert wrong(HELLO, lambda rows, k: nearest(rows, k)[: None if k == every else 1], exact=exact) == FEWER
    assert wrong(HELLO, lambda rows, k: nearest(rows, k)[: 3 if k == every else None], exact=exact) == [
        "a vector search"
    ]


def test_under_revision_a_rows_of_the_rarer_word_come_first_in_a_text_search() -> None:
    told = Counter({"base": 4, "w1": 1, "w2": 3})
    seen = [{"id": key, "v": value} for key, value in enumerate(["base", "w1", "base", "w2", "base"])]
    (question,) = asking._by_rarity(seen, told)
    assert question.asked == {"column": "v", "text": "base w1", "k": 4}
    assert question.right([seen[1], seen[0], seen[2], seen[4]])
    assert not question.right([seen[0], seen[1], seen[2], seen[4]])
    assert not question.right([seen[1], seen[0], seen[2]])
    assert list(asking._by_rarity(seen[3:], told)) == []
    assert list(asking._by_rarity([], told)) == []
