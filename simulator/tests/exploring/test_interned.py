"""Rows that are numbered as they turn up, held against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal.errors import EngineBug
from memwal_sim.exploring import interned
from memwal_sim.exploring.interned import Array, GrowingArray, Interned, Memo, packed

SMALL = st.integers(0, 3)


def rows_of(*rows: tuple[int, ...]) -> Array:
    return np.array(rows, np.uint64).reshape(len(rows), -1)


@given(st.lists(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=30), max_size=8))
def test_rows_get_the_numbers_that_a_dictionary_gives_them(batches: list[list[tuple[int, int]]]) -> None:
    table, known = Interned(2), dict[tuple[int, int], int]()
    for batch in batches:
        assert table.find(rows_of(*batch)).tolist() == [known.get(row, -1) for row in batch]
        first = [place for place, row in enumerate(batch) if row not in known and row not in batch[:place]]
        numbers, new = table.number(rows_of(*batch))
        assert new.tolist() == first
        assert numbers.tolist() == [known.setdefault(row, len(known)) for row in batch]
    assert list(map(tuple, table.rows.tolist())) == list(known)


@pytest.mark.parametrize("words", [1, 2, 5])
def test_many_rows_keep_their_numbers_while_the_table_grows(words: int) -> None:
    table, count = Interned(words), 50_000
    rows = np.arange(count * words, dtype=np.uint64).reshape(count, words)
    for start in range(0, count, 7_000):
        table.number(rows[start : start + 7_000])
    assert len(table) == count
    assert (table.find(rows) == np.arange(count)).all()
    assert (table.find(rows + np.uint64(count * words)) == -1).all()


def test_rows_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interned, "_mixed", lambda self, rows: np.full(len(rows), 7, np.uint64))
    table = Interned(1)
    numbers, new = table.number(rows_of((5,), (6,), (5,), (8,)))
    assert (numbers.tolist(), new.tolist()) == ([0, 1, 0, 2], [0, 1, 3])
    assert table.find(rows_of((8,), (9,), (6,))).tolist() == [2, -1, 1]


def test_no_rows_are_no_trouble() -> None:
    table = Interned(2)
    nothing = np.zeros((0, 2), np.uint64)
    assert table.find(nothing).tolist() == []
    assert [each.tolist() for each in table.number(nothing)] == [[], []]


def test_a_table_that_is_full_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interned, "_ROWS_MAX", 2)
    table = Interned(1)
    table.number(rows_of((1,), (2,)))
    with pytest.raises(EngineBug, match="more than 2 rows"):
        table.number(rows_of((3,)))


def test_a_function_is_computed_once_for_each_combination() -> None:
    asked = []

    def divide(one: int, other: int, more: int) -> tuple[int, int]:
        asked.append((one, other, more))
        return divmod(one, other)

    memo = Memo(divide, 3, 2)
    assert memo(np.array([7, 9, 7]), np.array([2, 4, 2]), 5).tolist() == [[3, 1], [2, 1], [3, 1]]
    assert memo(np.array([9]), np.array([4]), 5).tolist() == [[2, 1]]
    assert asked == [(7, 2, 5), (9, 4, 5)]


def test_a_negative_number_is_packed_like_any_other() -> None:
    # the last process of a schedule that has not begun is -1
    assert packed(np.array([-1, 3]), np.array([2, -1])).view(np.int32).tolist() == [[-1, 2], [3, -1]]


def test_a_column_keeps_what_was_put_in_while_it_grows() -> None:
    column = GrowingArray(np.int64)
    for value in range(3_000):
        column.append(value)
    column.extend(np.arange(3_000, 9_000))
    assert column.values.tolist() == list(range(9_000))
