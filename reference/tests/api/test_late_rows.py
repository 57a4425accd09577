"""Rows that come late: a writer with a sequence column compares them with what its region has stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal import key_codes
from memwal.errors import Fenced, InvalidArgument, LateRow
from memwal.jobs import opening
from memwal.keys import KeyPlaces
from memwal.read import sequences as reading
from memwal.region.sequences import PutResult, Sequences, comparable

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("v", pa.string()),
    ]
)


def rows(*triples: tuple[int, int | None, str]) -> pa.Table:
    return pa.table({name: [t[i] for t in triples] for i, name in enumerate(SCHEMA.names)}, schema=SCHEMA)


def create(path: Path, revision: str = "B", **options: Any) -> memwal.Table:
    return memwal.create(path, SCHEMA, primary_key=["id"], revision=revision, **options)


def found(table: memwal.Table) -> list[tuple[int, int | None, str]]:
    return sorted(tuple(row.values()) for row in table.scan().to_pylist())


def in_wal(_table: memwal.Table, writer: memwal.Writer) -> None:
    writer.close()


def in_a_generation(_table: memwal.Table, writer: memwal.Writer) -> None:
    writer.flush()
    writer.close()


def in_the_base(table: memwal.Table, writer: memwal.Writer) -> None:
    in_a_generation(table, writer)
    table.merge()
    table.gc(retain_versions=1)


def nowhere_else(_table: memwal.Table, _writer: memwal.Writer) -> None:
    """The next writer fences it."""


@pytest.mark.parametrize("revision", ["A", "B", "R"])
@pytest.mark.parametrize("stored", [nowhere_else, in_wal, in_a_generation, in_the_base])
@pytest.mark.parametrize("worth_asking", [0, 1 << 18], ids=["highest first", "keys at once"])
@pytest.mark.clause("AMB-148")
def test_a_later_writer_leaves_out_rows_whose_sequence_is_not_higher_wherever_the_higher_one_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    revision: str,
    stored: Callable[[memwal.Table, memwal.Writer], None],
    worth_asking: int,
) -> None:
    monkeypatch.setattr(reading, "WORTH_ASKING_ROWS", worth_asking)
    table = create(tmp_path / "t", revision)
    first = table.writer()
    first.put(rows((1, 10, "new"), (2, 10, "new"), (4, 10, "new")))
    stored(table, first)
    with memwal.open(tmp_path / "t").writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, 9, "old"), (2, 11, "newer"), (3, 1, "first"), (4, 10, "same"))) == PutResult(2, 2)
        assert writer.put(rows((2, 11, "again"), (3, 2, "second"))) == PutResult(1, 1)
        writer.flush()
        assert writer.put(rows((2, 11, "again"), (3, 1, "late"))) == PutResult(0, 2)
    assert found(table) == [(1, 10, "new"), (2, 11, "newer"), (3, 2, "second"), (4, 10, "new")]


@pytest.mark.clause("AMB-148")
def test_a_write_of_late_rows_only_stores_no_entry(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    with table.writer(sequence_by="seq") as writer:
        writer.put(rows((1, 10, "new")))
        before = writer.position_next
        assert writer.put(rows((1, 5, "old"))) == PutResult(0, 1)
        assert (writer.position_next, writer.rows) == (before, 1)


@pytest.mark.clause("AMB-148")
def test_within_one_write_a_row_is_late_behind_a_higher_or_equal_one_of_its_key(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    mixed = rows((1, 3, "a"), (2, 7, "x"), (1, 5, "b"), (1, 4, "late"), (2, 7, "same"), (1, 5, "same"), (1, 6, "c"))
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(mixed) == PutResult(4, 3, replaced=2)
    assert found(table) == [(1, 6, "c"), (2, 7, "x")]


@pytest.mark.clause("AMB-148")
def test_late_rows_may_be_kept_or_fail_the_whole_write(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    with table.writer(sequence_by="seq", late_rows="fail") as writer:
        writer.put(rows((1, 10, "new")))
        with pytest.raises(LateRow, match=r"1 row came late; the first is \{'id': 1, 'seq': 5\}.*AMB-148"):
            writer.put(rows((2, 1, "whole"), (1, 5, "old")))
        writer.put(rows((3, 1, "goes on")))
    assert found(table) == [(1, 10, "new"), (3, 1, "goes on")]
    with table.writer(sequence_by="seq", late_rows="keep") as writer:
        assert writer.put(rows((1, 5, "old"))) == PutResult(1, 0)
    assert found(table)[0] == (1, 5, "old")


@pytest.mark.clause("AMB-148")
def test_a_delete_carries_a_sequence_until_it_is_merged(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "R")
    key = pa.schema([SCHEMA.field("id"), SCHEMA.field("seq")])
    with table.writer(sequence_by="seq") as writer:
        writer.put(rows((1, 10, "new"), (2, 10, "new")))
        assert writer.delete(pa.table({"id": [1, 2], "seq": [11, 9]}, schema=key)) == PutResult(1, 1)
        assert writer.put(rows((1, 11, "late"))) == PutResult(0, 1)
        writer.flush()
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, 10, "late"))) == PutResult(0, 1)
    assert found(table) == [(2, 10, "new")]
    table.merge()
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, 10, "nothing is known of it any more"))) == PutResult(1, 0)


@pytest.mark.clause("AMB-148")
def test_what_cannot_be_ordered_is_refused_and_nothing_is_claimed(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("f", pa.float64()))
    table = memwal.create(tmp_path / "t", schema, primary_key=["id"])
    for column, text in (("f", "'f' is double"), ("id", "is of the key"), ("sequ", "Did you mean 'seq'")):
        with pytest.raises(InvalidArgument, match=text):
            table.writer(sequence_by=column)
    with pytest.raises(InvalidArgument, match="there is no way with late rows 'skip'; choose one of drop, keep, fail"):
        table.writer(sequence_by="seq", late_rows="skip")  # type: ignore[arg-type]
    with table.writer(sequence_by="seq") as writer:
        assert writer.epoch == 1
        with pytest.raises(InvalidArgument, match=r"row 1 has NULL in the sequence column 'seq' \[AMB-148\]"):
            writer.put(rows((1, 1, "a"), (2, None, "b")).append_column(schema.field("f"), pa.nulls(2, pa.float64())))
        assert writer.rows == 0


@pytest.mark.clause("AMB-148")
def test_keys_are_read_only_when_a_row_is_not_above_all_stored_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WORTH_ASKING_ROWS", 1)
    asked: list[bool] = []
    read = opening.stored_sequences

    async def counted(*given: Any, keys: bool) -> pa.Table | pa.Scalar:
        asked.append(keys)
        return await read(*given, keys=keys)

    monkeypatch.setattr(opening, "stored_sequences", counted)
    table = create(tmp_path / "t")
    table.base.append(rows(*((i, i, "old") for i in range(40)), (40, None, "unknown")))
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, 40, "a"), (2, 42, "b"), (1, 39 + 2, "c"))) == PutResult(3, replaced=1)
        assert writer.put(rows((1, 43, "d"), (50, 44, "new"))) == PutResult(2)
        assert asked == [False]
        # 50 was written before the keys were read, 3 and 40 are stored, 2 stands at 42 by this writer's own row.
        late = rows((50, 44, "same"), (3, 3, "same"), (2, 41, "late"), (40, -7, "f"), (3, 4, "e"))
        assert writer.put(late) == PutResult(2, 3)
        assert asked == [False, True]
        assert writer.put(rows((50, 45, "g"), (1, 1, "late"))) == PutResult(1, 1)
        assert writer.put(rows((50, 44, "late"), (51, 1, "h"))) == PutResult(1, 1)
        assert asked == [False, True]
    assert {(1, 43, "d"), (2, 42, "b"), (3, 4, "e"), (40, -7, "f"), (50, 45, "g"), (51, 1, "h")} <= set(found(table))


@pytest.mark.clause("AMB-148")
def test_what_is_put_while_the_keys_are_read_is_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORTH_ASKING_ROWS", 1)
    read = opening.stored_sequences

    async def amid_it(*given: Any, keys: bool) -> pa.Table | pa.Scalar:
        found = await read(*given, keys=keys)
        if keys:
            writer._writer.compare_and_insert(rows((2, 50, "meanwhile")))
        return found

    monkeypatch.setattr(opening, "stored_sequences", amid_it)
    table = create(tmp_path / "t")
    table.base.append(rows(*((i, i, "old") for i in range(40))))
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, 40, "above all"))) == PutResult(1)
        assert writer.put(rows((2, 49, "late"), (3, 3, "same"), (4, 5, "new"))) == PutResult(1, 2)
    assert found(table)[1:5] == [(1, 40, "above all"), (2, 50, "meanwhile"), (3, 3, "old"), (4, 5, "new")]


@pytest.mark.clause("AMB-148")
def test_a_stored_row_without_a_sequence_is_older_than_any(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    with table.writer() as writer:
        writer.put(rows((1, None, "unknown")))
    with table.writer(sequence_by="seq") as writer:
        assert writer.put(rows((1, -5, "known"))) == PutResult(1, 0)


@pytest.mark.parametrize("worth_asking", [1, 1 << 40])
@pytest.mark.clause("AMB-148")
def test_a_region_compares_with_its_own_rows_of_the_base_whether_merges_tell_which_these_are_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth_asking: int
) -> None:
    monkeypatch.setattr(reading, "WORTH_ASKING_ROWS", worth_asking)
    table = create(tmp_path / "t", spec=memwal.bucket("b", "id", 3))
    old = rows(*((i, 10, "old") for i in range(60)))
    buckets = table.region_values(old)["b"].to_numpy()
    for bucket in range(3):
        with table.writer(values={"b": bucket}) as writer:
            writer.put(old.filter(pa.array(buckets == bucket)))
            writer.flush()
        table.merge()
    table.base.append(rows(*((i, 10, "appended") for i in range(60, 90))))
    every = rows(*((i, 10 + i % 2, "new") for i in range(90)))
    buckets = table.region_values(every)["b"].to_numpy()
    for bucket in range(3):
        mine = every.filter(pa.array(buckets == bucket))
        odd = sum(i % 2 for i in mine["id"].to_pylist())
        with table.writer(values={"b": bucket}, sequence_by="seq") as writer:
            assert writer.put(mine) == PutResult(odd, mine.num_rows - odd)
    assert [v for i, _, v in found(table) if i % 2] == ["new"] * 45


@pytest.mark.clause("AMB-148")
def test_keys_that_came_from_a_region_of_an_older_spec_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WORTH_ASKING_ROWS", 1)
    table = create(tmp_path / "t", spec=memwal.bucket("b", "id", 2))
    old = rows(*((i, 10, "old") for i in range(20)))
    buckets = table.region_values(old)["b"].to_numpy()
    for bucket in range(2):
        with table.writer(values={"b": bucket}) as writer:
            writer.put(old.filter(pa.array(buckets == bucket)))
    table.add_spec(memwal.bucket("c", "id", 3), drain=True)
    late = rows(*((i, 9, "late") for i in range(20)))
    buckets = table.region_values(late)["c"].to_numpy()
    for bucket in range(3):
        mine = late.filter(pa.array(buckets == bucket))
        with table.writer(values={"c": bucket}, sequence_by="seq") as writer:
            assert writer.put(mine) == PutResult(0, mine.num_rows)


@pytest.mark.clause("AMB-148")
def test_a_writer_that_is_fenced_before_it_has_read_what_is_stored_says_so(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    first = table.writer(sequence_by="seq")
    with memwal.open(tmp_path / "t").writer() as second:
        second.put(rows((1, 10, "new")))
        with pytest.raises(Fenced):
            first.put(rows((1, 11, "zombie")))


@pytest.mark.parametrize(
    "values",
    [
        [np.uint64(2**63 + 5), np.uint64(7)],
        ["b", "a"],
        [Decimal("10.5"), Decimal("9.25")],
        [date(2026, 1, 2), date(1969, 1, 1)],
        [datetime(2026, 1, 2), datetime(1969, 1, 1)],
        [timedelta(1), timedelta(-1)],
        [time(2), time(1)],
    ],
    ids=["uint64", "text", "decimal", "date", "timestamp", "duration", "time"],
)
def test_sequences_are_ordered_as_their_type_is(values: list[Any]) -> None:
    high, low = values
    column = pa.array([high, low])
    known = Sequences(["k"], "s", pa.table({"k": ["a", "b"], "s": column}))
    asked = pa.table({"k": ["a", "b", "c"], "s": pa.array([low, high, low], column.type)})
    assert known.compared(asked).late.tolist() == [True, False, False]
    # Of a region of which only the highest is known nothing else can be decided.
    ordered = comparable(pa.chunked_array([column]))
    bounded = Sequences(["k"], "s", pc.max(ordered))
    assert [bounded.decide(asked), bounded.decide(asked.slice(1, 1)), bounded.decide(asked.slice(0, 0))] == [0, 0, 1]
    below = Sequences(["k"], "s", pc.min(ordered))
    assert below.decide(asked.slice(1, 1))
    assert below.compared(asked.slice(1, 1)).places is None


@pytest.mark.parametrize("seed", range(4))
def test_of_many_writes_each_key_has_the_row_with_the_highest_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = pa.schema([("a", pa.int64()), ("b", pa.string()), ("s", pa.int64())])
    known = Sequences(["a", "b"], "s", shape.empty_table())
    expected: dict[tuple[int, str], int] = {}
    for number, size in enumerate(rng.integers(1, 40, 30)):
        # Some writes are above all others.
        a, s = rng.integers(0, 9, size), rng.integers(0, 50, size) + 50 * number * (number % 3 == 0)
        b = ["x" if flag else "y" for flag in rng.integers(0, 2, size)]
        batch = pa.table({"a": a, "b": b, "s": s})
        compared = known.compared(batch)
        late = compared.late
        for key, sequence, is_late in zip(zip(a.tolist(), b, strict=True), s.tolist(), late.tolist(), strict=True):
            assert is_late == (sequence <= expected.get(key, -1))
            expected[key] = max(sequence, expected.get(key, -1))
        kept = batch.filter(pa.array(compared.kept))
        told = {(row["a"], row["b"]): row["s"] for row in kept.to_pylist()}
        assert told == {key: expected[key] for key in told}
        known.written(kept, compared.of_kept())


@pytest.mark.clause("AMB-148")
def test_of_a_write_with_many_rows_of_one_key_the_last_ones_are_stored_and_all_of_them_count(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    with table.writer(sequence_by="seq") as writer:
        done = writer.put(rows((1, 5, "a"), (1, 7, "b"), (2, 7, "c"), (1, 6, "late"), (2, 9, "d"), (2, 9, "equal")))
        assert (done, writer.rows) == (PutResult(4, 2, replaced=2), 2)
        # Few that share their key stay as they are: nobody reads the older one all the same.
        several = [(number, 10, "e") for number in range(20)]
        assert writer.put(rows(*several, (3, 11, "f"))) == PutResult(21)
        assert writer.rows == 23
    assert found(table) == sorted((number, 10, "e") if number != 3 else (3, 11, "f") for number in range(20))


def test_places_of_keys_are_where_they_are() -> None:
    places = KeyPlaces(pa.table({"a": ["p", "q", "p"], "b": [1, 1, 2]}))
    again = KeyPlaces(pa.table({"a": ["p", "q", "p"], "b": [1, 2, 1]}))
    assert again.of(pa.table({"a": ["q", "p", "p"], "b": [2, 1, 2]})).tolist() == [1, 2, -1]
    assert places.of(pa.table({"a": ["p", "p", "q", "r", "q"], "b": [2, 1, 1, 1, 2]})).tolist() == [2, 0, 1, -1, -1]
    sparse = KeyPlaces(pa.table({"a": [10**12, -(10**12), 5]}))
    assert sparse.of(pa.table({"a": [5, -(10**12), 6, 10**12, -(10**18)]})).tolist() == [2, 1, -1, 0, -1]
    dense = KeyPlaces(pa.table({"a": [-3, 0, 4]}))
    assert dense.of(pa.table({"a": [4, -3, 5, -4, 2**62, -(2**62), 1]})).tolist() == [2, 0, -1, -1, -1, -1, -1]
    assert KeyPlaces(pa.table({"a": pa.array([], pa.int64())})).of(pa.table({"a": [1]})).tolist() == [-1]
    assert KeyPlaces(pa.table({"a": pa.array([], pa.string())})).of(pa.table({"a": ["p"]})).tolist() == [-1]


def test_texts_with_one_hash_are_other_places_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pa.table({"a": ["p", "", "long enough for two words"], "b": [10, 20, 30]})
    asked = pa.table(
        {"a": ["p", "q", "", "long enough for two wordz", "long enough for two words"], "b": [10, 10, 20, 30, 30]}
    )
    expected = [0, -1, 1, -1, 2]
    assert KeyPlaces(stored).of(asked).tolist() == expected
    # Hashes that tell only the length: keys that are not there meet one that is.
    monkeypatch.setattr(key_codes, "_mixed", lambda state, word: state + (word < 64) * word)
    assert KeyPlaces(stored).of(asked).tolist() == expected
    # And where stored ones meet each other, they are told apart in another way.
    monkeypatch.setattr(key_codes, "_mixed", lambda state, _word: state)
    assert KeyPlaces(stored).of(asked).tolist() == expected


@pytest.mark.clause("AMB-105")
def test_of_a_key_that_the_base_has_twice_the_last_row_is_compared(tmp_path: Path) -> None:
    table = create(tmp_path / "t", spec=memwal.bucket("b", "id", 1))
    table.base.append(rows((1, 10, "first")))
    table.base.append(rows((1, 5, "last"), (2, 5, "other")))
    with table.writer(values={"b": 0}, sequence_by="seq") as writer:
        assert writer.put(rows((1, 7, "new"), (2, 5, "late"))) == PutResult(1, 1)
