"""The files of scalar indexes that pylance wrote: what they give for a comparison, beside a look at every row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from memwal.codec.xxhash64 import xxhash64
from memwal.effects import Io
from memwal.maintained.scalar import Between
from memwal.read import scalar_index
from memwal.read.conditions import Compare, HasLabels, HasText, Leaf
from memwal.read.wanted import TooMany
from memwal.revisions import STRICT
from memwal.table.coverage import segments
from memwal.table.reuse import Addresses
from memwal.table.state import TableState, latest

from ..kit.ground import Ground

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int32(), [None, -5, 0, 3, 3, 7, 9]),
    "numbers": (pa.float64(), [None, -1.5, -0.0, 0.0, 2.5, NAN, 7.0]),
    "halves": (pa.float32(), [None, 0.1, 0.5, -0.5, NAN, 3.0]),
    "texts": (pa.string(), [None, "", "a", "ab", "b", "ä", "\uffff", "\U0001f600"]),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"\xff", b"a"]),
    "truths": (pa.bool_(), [None, True, False]),
    "days": (pa.date32(), [None, date(1969, 1, 1), date(2020, 2, 29), date(2021, 1, 1)]),
    "times": (pa.timestamp("ms"), [None, datetime(1969, 1, 1), datetime(2020, 2, 29, 1, 2, 3), datetime(2021, 1, 1)]),
    "zoned": (pa.timestamp("us", "UTC"), [None, datetime(1969, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)]),
    "decimals": (pa.decimal128(10, 2), [None, Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")]),
}
ROWS, PER_FRAGMENT = 3_000, 1_100
KINDS = ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"]
NO_BLOOM = {"truths", "decimals"}
"""Types that pylance builds no bloom filter of."""


def placed(row: int) -> int:
    return ((row // PER_FRAGMENT) << 32) + row % PER_FRAGMENT


class Indexed:
    """A table of one column ``c`` in three fragments with an index that pylance built."""

    def __init__(self, folder: Path, column: pa.Array, kind: str) -> None:
        dataset = lance.write_dataset(pa.table({"c": column}), str(folder), max_rows_per_file=PER_FRAGMENT)
        dataset.create_scalar_index("c", kind, name="i")
        self.ground, self.io = Ground.of(folder), Io(interpretation=STRICT)
        self.state: TableState = self.ground.run(latest(self.io))
        self.values = column.to_pylist()

    def ask(self, leaf: Leaf, most: int | None = None) -> Addresses | None:
        (entry,) = segments(self.state, "i")
        return self.ground.run(scalar_index.rows(self.io, self.state, entry, leaf, most))

    def matching(self, keep: Callable[[Any], bool]) -> set[int]:
        return {placed(row) for row, value in enumerate(self.values) if value is not None and keep(value)}


def indexed(folder: Path, name: str, kind: str) -> Indexed:
    arrow, choice = VALUES[name]
    picked = [choice[number] for number in np.random.default_rng(7).integers(0, len(choice), ROWS)]
    # Values are close together in halves of the table, so that zones and pages differ.
    picked = [value for value in picked if value in choice[:3]] + [value for value in picked if value not in choice[:3]]
    return Indexed(folder, pa.array(picked, arrow), kind)


def ranges(choice: list[Any]) -> list[Between]:
    ends = [value for value in choice if value is not None and value == value]
    return [
        Between(lower=low, upper=high, with_lower=inside, with_upper=not inside)
        for low in [None, *ends[:3]]
        for high in [None, *ends[-2:]]
        for inside in (True, False)
        if low is not None or high is not None
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in VALUES if kind != "BLOOMFILTER" or name not in NO_BLOOM],
)
@pytest.mark.clause("PLAN-033")
def test_an_index_gives_every_row_that_has_a_wanted_value(tmp_path: Path, kind: str, name: str) -> None:
    made = indexed(tmp_path, name, kind)
    arrow, choice = VALUES[name]
    for value, stored in zip(choice, pa.array(choice, arrow).to_pylist(), strict=True):
        if value is None or value != value:
            continue
        found, wanted = made.ask(Compare("c", frozenset([value]))), made.matching(lambda held, v=stored: held == v)
        assert found is not None
        assert wanted <= set(found.tolist())
        assert kind not in {"BTREE", "BITMAP"} or wanted == set(found.tolist())
    for between in ranges(VALUES[name][1]) if kind != "BLOOMFILTER" else []:
        found, wanted = made.ask(Compare("c", between)), made.matching(between.holds)
        assert found is not None
        unclear = made.matching(lambda held: held != held or held == 0)
        assert wanted <= set(found.tolist())
        assert kind not in {"BTREE", "BITMAP"} or set(found.tolist()) - wanted <= unclear
    nulls = {placed(row) for row, value in enumerate(made.values) if value is None}
    found = made.ask(Compare("c", frozenset([None])))
    assert found is not None
    assert nulls <= set(found.tolist())
    assert kind not in {"BTREE", "BITMAP"} or nulls == set(found.tolist())


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_more_rows_than_somebody_wants_are_not_given(tmp_path: Path, kind: str) -> None:
    made = Indexed(tmp_path, pa.array([number // 2 for number in range(20_000)]), kind)
    leaf = Compare("c", Between(lower=5_000))
    found = made.ask(leaf)
    assert found is not None
    assert len(found) >= 10_000
    assert made.ask(leaf, len(found)) is not None
    with pytest.raises(TooMany):
        made.ask(leaf, 9_999)


def test_labels_are_looked_up_in_lists(tmp_path: Path) -> None:
    lists = [None if row % 7 == 0 else [] if row % 7 == 1 else [f"a{row % 3}", f"b{row % 5}"] for row in range(ROWS)]
    made = Indexed(tmp_path, pa.array(lists, pa.list_(pa.string())), "LABEL_LIST")
    for labels, every in (
        ({"a1"}, True),
        ({"a1", "b2"}, True),
        ({"a1", "b2"}, False),
        ({"a1", "x"}, True),
        ({"x"}, False),
    ):
        found = made.ask(HasLabels("c", frozenset(labels), every))
        joined = labels.issubset if every else labels.intersection
        assert found is not None
        assert set(found.tolist()) == made.matching(lambda held, j=joined: bool(j(held)))


def test_texts_are_looked_up_by_runs_of_three_letters(tmp_path: Path) -> None:
    texts = ["abcd", "ABC x-yz12", "äbcé", "été abc", "naïve", "a b c", "日本語abc", None, "", "xabcd-1", "bcdabc"]
    made = Indexed(tmp_path, pa.array(texts * 3), "NGRAM")
    for text in ("abc", "abcd", "bcd", "x-yz12", "日本語abc", "vwx", "abc x"):
        found = made.ask(HasText("c", text))
        assert found is not None
        assert made.matching(lambda held, t=text: t in held) <= set(found.tolist())
        assert len(found) < len(texts) * 3
    assert made.ask(HasText("c", "a b")) is None


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        # Of the reference implementation.
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_of_bytes_is_xxh64(data: bytes, hashed: int) -> None:
    assert xxhash64(data) == hashed
