"""Primary keys as sets of rows, against Python's own dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from memwal.keys import KeySet, among, newest, repeated
from memwal.seen import Seen


@pytest.mark.parametrize("span", [3, 30, 10**4, 10**12, 2**62])
def test_the_last_rows_of_keys_those_with_others_and_what_is_among_them_are_told_whatever_the_keys_span(
    span: int,
) -> None:
    rng = np.random.default_rng(span)
    for size in [1, 2, 3, *rng.integers(4, 40, 40).tolist()]:
        keys = rng.choice(rng.integers(-span, span, size), size).tolist()
        rows = pa.table({"k": keys})
        last = {key: place for place, key in enumerate(keys)}
        assert newest(rows, ["k"]).tolist() == sorted(last.values())
        asked = [*rng.integers(-span, span, 9).tolist(), keys[0]]
        assert KeySet(rows).mask(pa.table({"k": asked})).tolist() == [key in last for key in asked]
        several = sorted(key for key, count in Counter(keys).items() if count > 1)
        found = repeated(rows)
        told = [] if found is None else list(zip(*(each.tolist() for each in found), strict=True))
        expected = [(place, several.index(key)) for place, key in enumerate(keys) if key in several]
        assert told == sorted(expected, key=lambda each: (each[1], each[0]))


@pytest.mark.parametrize("first", [-(2**63), 2**63 - 40, 0])
def test_keys_at_either_end_of_all_numbers_are_kept_from_source_to_source(first: int) -> None:
    below, all_of_them = Seen(), Seen()
    below.add(pa.table({"k": [first + 3, first + 9]}))
    below.add(pa.table({"k": [first + 1, first + 30]}))
    all_of_them.join(below)
    asked = [first, first + 1, first + 2, first + 9, first + 30, first + 31, 5 - first % 2]
    assert all_of_them.mask(pa.table({"k": asked})).tolist() == [False, True, False, True, True, False, False]


@pytest.mark.parametrize("of", [lambda number: number, lambda number: 10**9 * number, "key {}".format])
def test_a_set_of_keys_tells_about_how_many_bytes_it_takes(of: Callable[[int], object]) -> None:
    keys = pa.table({"k": [of(number) for number in range(10_000)]})
    small, large = KeySet(keys.slice(0, 1_000)).size_bytes, KeySet(keys).size_bytes
    texts = keys.column("k").nbytes if pa.types.is_string(keys.column("k").type) else 0
    assert 10_000 <= large - texts <= 40 * 10_000
    assert 5 <= large / small <= 20


@pytest.mark.parametrize("values", [[1, 2], ["a", "b"], [None, 1], [0.5, 1.5], [b"x", None]])
def test_one_row_is_among_the_keys_that_it_is_equal_to_as_among_many(values: list[object]) -> None:
    keys = pa.table({"k": values, "l": [7, 7]})
    for place in range(2):
        row = keys.slice(place, 1).append_column("value", pa.array([place]))
        own, other = keys.slice(place, 1), keys.slice(1 - place, 1)
        for asked, there in [(own, True), (keys, True), (other, False), (keys.slice(0, 0), False)]:
            assert among(row, asked).equals(row.slice(0, int(there))), (row, asked)
