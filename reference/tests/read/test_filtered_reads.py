"""A filter is applied where rows are read: the answer is the filter of the newest rows all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memwal.effects import Get
from memwal.read import filters
from memwal.stores.memory import MemoryStore
from memwal.table import late, read, stored_file

from ..kit.ground import Ground


class Row(NamedTuple):
    id: int
    k: str
    n: int | None
    t: str | None
    d: date | None
    f: float | None
    v: list[int] | None


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("t", pa.string()),
        ("d", pa.date32()),
        ("f", pa.float64()),
        ("v", pa.list_(pa.int16())),
    ]
)
_DAY = date(2024, 1, 1)


def made(key: int, step: int) -> Row:
    """A row whose columns change from step to step, each in its own rhythm, NULL among them."""
    n, t, d, f = (step * 7 + key) % 4, (step + key) % 5, (step * 3 + key) % 6, (step + 2 * key) % 4
    return Row(
        key,
        f"k{key % 3}",
        n or None,
        None if not t else f"{'ab'[t % 2]}{step}",
        None if not d else _DAY + timedelta(days=d),
        None if not f else f / 2,
        None if (step + key) % 3 == 0 else [step, key],
    )


def rows(values: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in values], schema=SCHEMA)


@dataclass(frozen=True, eq=False)
class Asked:
    condition: Any
    matches: Callable[[Row], bool]


ASKED = [
    Asked("n = 1", lambda r: r.n == 1),
    Asked(pc.field("n") == 1, lambda r: r.n == 1),
    Asked("n IS NULL", lambda r: r.n is None),
    Asked(pc.field("n").is_null() | (pc.field("f") < 1.25), lambda r: r.n is None or (r.f is not None and r.f < 1.25)),
    Asked("n > 1 AND id < 9", lambda r: r.n is not None and r.n > 1 and r.id < 9),
    Asked("id % 2 = 0", lambda r: r.id % 2 == 0),
    Asked(pc.field("id").isin([1, 2, 5]), lambda r: r.id in (1, 2, 5)),
    Asked("id BETWEEN 3 AND 8 AND k = 'k1'", lambda r: 3 <= r.id <= 8 and r.k == "k1"),
    Asked("k = 'k2'", lambda r: r.k == "k2"),
    Asked("t LIKE 'a%' OR n = 2", lambda r: (r.t or "").startswith("a") or r.n == 2),
    Asked("d >= DATE '2024-01-04' AND t = 'b2'", lambda r: r.d is not None and r.d >= date(2024, 1, 4) and r.t == "b2"),
    Asked(pc.field(2) == 2, lambda r: r.n == 2),
    Asked("1 = 1", lambda _: True),
    Asked("'n' = 't'", lambda _: False),
    Asked("array_length(v) = 2 AND N = 3", lambda r: r.v is not None and r.n == 3),
]


class History:
    """A table with two regions, and what a dictionary says of it."""

    def __init__(
        self, revision: str, profile: str, key: tuple[str, ...], base: Sequence[tuple[int, int]], folder: str = ""
    ) -> None:
        """``folder``: where the table is made; empty for a store in memory."""
        self.store, self.step = None if folder else MemoryStore(), 0
        self.newest: dict[int, list[Row]] = {}
        """By key its newest row; of one that only the base has, all rows there, in order."""
        spec = memwal.bucket("b", "id", 2)
        schema = pa.schema([field.with_nullable(field.name not in key) for field in SCHEMA])
        self.table = memwal.create(
            f"{folder}t", schema, primary_key=list(key), revision=revision, spec=spec, store=self.store, profile=profile
        )
        for number, step in base:
            self.table.base.append(rows([made(number, step), made(number + 1, step)]))
            for each in (number, number + 1):
                self.newest.setdefault(each, []).append(made(each, step))

    def act(self, name: str, keys: Sequence[int]) -> None:
        self.step += 1
        if name == "merge":
            self.table.merge()
            return
        for bucket, own in self._by_bucket(keys).items():
            with self.table.writer(values={"b": bucket}, background=False) as writer:
                if name == "delete" and self.table.revision.tombstones:
                    writer.delete(rows([made(key, 0) for key in own]).select(list(self.table.primary_key)))
                    self.newest = {key: row for key, row in self.newest.items() if key not in own}
                else:
                    writer.put(rows([made(key, self.step + 50) for key in own]))
                    writer.put(rows([made(key, self.step) for key in own]))
                    self.newest |= {key: [made(key, self.step)] for key in own}
                if name == "flush":
                    writer.flush()

    def found(self, matches: Callable[[Row], bool]) -> pa.Table:
        """AMB-105, duplicate keys inside the base: of a key's rows there that match, the one appended last counts."""
        matching = ([row for row in each if matches(row)] for each in self.newest.values())
        return rows([each[-1] for each in matching if each])

    def _by_bucket(self, keys: Sequence[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        values = self.table.region_values(rows([made(key, 0) for key in keys])).column("b").to_pylist()
        for key, bucket in zip(keys, values, strict=True):
            found.setdefault(bucket, []).append(key)
        return found


KEYS = st.lists(st.integers(0, 11), min_size=1, max_size=8, unique=True)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "flush", "flush", "delete", "merge"]), KEYS), min_size=1, max_size=6)


@pytest.mark.clause("PLAN-015", "READ-006", "AMB-99", "AMB-105")
@settings(max_examples=40)
@given(
    revision=st.sampled_from("ABR"),
    key=st.sampled_from([("id",), ("id", "k"), ("k", "id")]),
    base=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 9)), max_size=3),
    steps=STEPS,
    columns=st.sampled_from([None, ["v"], ["t", "id"], ["n"]]),
    conditions=st.lists(st.sampled_from(ASKED), min_size=3, max_size=3, unique_by=id),
    apart=st.booleans(),
    paged=st.booleans(),
    on_disk=st.booleans(),
)
def test_a_filtered_read_is_the_filter_of_the_fold_of_all_histories(
    revision: str,
    key: tuple[str, ...],
    base: list[tuple[int, int]],
    steps: list[tuple[str, list[int]]],
    columns: list[str] | None,
    conditions: list[Asked],
    apart: bool,
    paged: bool,
    on_disk: bool,
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as small:
        history = History(revision, "strict", key, base, f"{folder}/" if on_disk else "")
        for step in steps:
            history.act(*step)
        small.setattr(read, "FIRST_ROWS", 2)
        small.setattr(read, "BATCH_ROWS", 3)
        small.setattr(late, "APART_ROWS", 0 if apart else 1 << 20)
        small.setattr(stored_file, "WHOLE_BYTES", 0 if paged else 1 << 20)
        small.setattr(late, "SPARSE", 1 if paged else 16)
        for asked in conditions:
            found = history.table.scan(columns, asked.condition)
            wanted = history.found(asked.matches).select(columns or SCHEMA.names).to_pylist()
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted)), str(asked.condition)


def test_a_condition_says_which_columns_it_looks_at_and_one_too_many_where_that_is_not_plain() -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("B", pa.int64()), ("a b", pa.int64())])
    cases: list[tuple[Any, tuple[str, ...]]] = [
        ("a = 7", ("a",)),
        ("id + a > 3", ("id", "a")),
        ('"B" = 1', ("B",)),
        ('"a b" = 1', ("a b",)),
        ('"a b" > 0.5', ("a", "B", "a b")),
        ("'a' = 'id'", ("id", "a")),
        ("7 = 7", ("id",)),
        ("id = (SELECT 1)", ("id", "a", "B", "a b")),
        (pc.field("a") == 7, ("a",)),
        (pc.field(1) == 7, ("id", "a", "B", "a b")),
        (pc.field("a b") == 7, ("a", "B", "a b")),
    ]
    for condition, expected in cases:
        assert filters.parse(condition, schema).columns == expected, str(condition)


def test_rows_that_are_superseded_or_deleted_are_never_asked_whether_they_match(tmp_path: Path) -> None:
    made = memwal.create(
        tmp_path / "t",
        pa.table({"id": [1, 2, 3], "t": ["no number", "2", "no number"]}),
        primary_key=["id"],
        revision="R",
    )
    with made.writer(background=False) as writer:
        writer.put(pa.table({"id": [1], "t": ["none either"]}))
        writer.flush()
        writer.put(pa.table({"id": [1], "t": ["1"]}))
        writer.delete(pa.table({"id": [3]}))
        writer.flush()
    assert sorted(made.scan(filter="CAST(t AS INT) > 0").column("id").to_pylist()) == [1, 2]


COUNT = 80_000
"""Rows of a base of four fragments, whose files are not fetched as a whole."""


def wide(numbers: range, step: int) -> pa.Table:
    text = np.random.default_rng(step).bytes(48 * len(numbers)).hex()
    texts = [text[96 * at : 96 * at + 96] for at in range(len(numbers))]
    return pa.table({"id": pa.array(numbers, pa.int64()), "a": pa.array(numbers, pa.int64()), "text": texts})


@pytest.mark.clause("PLAN-015", "PLAN-033")
def test_pages_of_other_columns_are_fetched_for_rows_that_match_only() -> None:
    store, quarter = Ground(), COUNT // 4
    made = memwal.create("t", wide(range(quarter), 0), primary_key=["id"], store=store)
    for start in range(quarter, COUNT, quarter):
        made.base.append(wide(range(start, start + quarter), start))
    with made.writer(background=False) as writer:
        writer.put(wide(range(100), 1))
        writer.flush()

    def fetched(**asked: Any) -> tuple[int, int]:
        """Rows that are found, and bytes that are read of the base's data."""
        before = len(store.asked)
        found = made.scan(**asked).num_rows
        gets = [each for each in store.asked[before:] if isinstance(each, Get) and each.path.startswith("t/data/")]
        return found, sum(len(store.perform(each)) for each in gets)

    everything, most = fetched()
    one, few = fetched(filter="a = 30000")
    none, fewest = fetched(filter="a = -1")
    assert (everything, one, none) == (COUNT, 1, 0)
    texts = 48 * quarter
    assert most > 4 * texts, "48 random bytes in each row"
    assert fewest < texts, "keys and what the filter looks at"
    assert fewest + texts < few < fewest + 2 * texts, "and the texts of the only fragment with such a row"
    keys, little = fetched(filter="a = 30000", columns=["id"])
    assert (keys, little) == (1, pytest.approx(fewest, abs=8 * quarter))
