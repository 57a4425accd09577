"""Rows on their way through the shuffle, without Spark: packed by the tasks that read, put in order by a region's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import memwal
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memwal import cellwise
from memwal.region.sequences import comparable
from memwal_spark import packing
from memwal_spark.packing import GIVEN, ROWS, TASK, Packing, unpacked
from memwal_spark.route import _values
from pyspark.errors import PySparkException

BUCKETS = 3
SEQUENCES = [pa.int16(), pa.decimal128(21, 2), pa.date32(), pa.timestamp("us", "UTC"), pa.duration("us"), pa.string()]
PAIRS = pa.list_(pa.list_(pa.int8(), 2), 2)


def in_buckets(path: Path) -> tuple[memwal.Table, Packing]:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("seq", pa.int64(), False)])
    table = memwal.create(path, schema, primary_key=["id"], spec=memwal.bucket("b", "id", BUCKETS))
    return table, Packing(
        key=("id",), sequence_by="seq", values=_values(table), region_column=None, buckets=BUCKETS, known=()
    )


def numbered(sequences: list[int], kind: pa.DataType) -> pa.Table:
    """Rows whose sequences are ``sequences`` in ``kind``, with their place and a nested value that follows from it."""
    values = pa.array(sequences, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    places = range(len(sequences))
    return pa.table(
        {"seq": values, "place": pa.array(places), "pair": pa.array([[[n % 100, 1], [2, 3]] for n in places], PAIRS)}
    )


def runs(rows: pa.Table, of: int) -> Iterator[pa.RecordBatch]:
    """``rows`` as the tasks that read them pack them: runs of so many rows, each in order."""
    for start in range(0, rows.num_rows, of):
        run = rows.slice(start, of)
        run = cellwise.at(run, pc.sort_indices(comparable(run["seq"])).to_numpy())
        yield pa.record_batch([pa.array([0], pa.int32()), pa.array([packing._bytes(run)])], names=[TASK, ROWS])


@given(
    sequences=st.lists(st.integers(0, 99), min_size=1, max_size=60),
    of=st.integers(1, 20),
    held=st.sampled_from([1, 200, 1 << 20]),
    kind=st.sampled_from(SEQUENCES),
)
def test_a_task_gets_all_its_rows_in_order_however_little_it_may_hold(
    sequences: list[int], of: int, held: int, kind: pa.DataType
) -> None:
    rows = numbered(sequences, kind)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(packing, "_PIECE_BYTES", 100)
        found = pa.Table.from_batches(list(unpacked(runs(rows, of), "seq", held_bytes=held)))
    assert found["seq"].to_pylist() == sorted(rows["seq"].to_pylist())
    assert sorted(found.to_pylist(), key=lambda row: row["place"]) == rows.to_pylist()


@given(
    drawn=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["one", "two"])), min_size=1),
    of=st.integers(1, 40),
    held=st.sampled_from([1, 300, 1 << 20]),
    kind=st.sampled_from(SEQUENCES),
    texts=st.booleans(),
)
def test_rows_that_others_of_their_key_and_task_are_above_are_left_out_and_counted(
    drawn: list[tuple[int, int, str]], of: int, held: int, kind: pa.DataType, texts: bool
) -> None:
    ids, sequences, regions = (list(each) for each in zip(*drawn, strict=True))
    rows = numbered(sequences, kind)
    rows = rows.append_column("id", pa.array([f"key {n}" for n in ids] if texts else ids))
    rows = rows.append_column("region", pa.array(regions))
    packs = Packing(
        key=("id",), sequence_by="seq", values=None, region_column="region", buckets=None, known=("one", "two"),
        standing_only=True,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as small:
        small.setattr(packing, "_PIECE_BYTES", 100)
        small.setattr(packing, "CHUNK_BYTES", of * 20)
        packed = list(packs.pack(rows.to_batches(max_chunksize=2)))
        for task, region in enumerate(packs.known):
            came = [row for row in rows.to_pylist() if row["region"] == region]
            mine = [batch for batch in packed if batch[TASK].to_pylist() == [task]]
            assert sum(sum(batch[GIVEN].to_pylist()) for batch in mine) == len(came)
            found = [row for batch in unpacked(mine, "seq", key=["id"], held_bytes=held) for row in batch.to_pylist()]
            highest = {row["id"]: row["seq"] for row in sorted(came, key=lambda row: row["seq"])}
            standing = [row for row in came if row["seq"] == highest[row["id"]]]
            assert [row["seq"] for row in found] == sorted(row["seq"] for row in found)
            told = sorted(found, key=lambda row: row["place"])
            assert [row for row in told if row in standing] == standing
            assert all(row in came for row in told)
            if held == 1 << 20:
                assert told == standing


def test_what_a_task_may_not_hold_lies_in_sparks_local_folder_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    batches = unpacked(runs(numbered([5, 1, 4, 2, 3, 0], pa.int64()), 2), "seq", held_bytes=1)
    assert next(batches)["seq"].to_pylist() == [0, 1, 2, 3]
    assert len(list(tmp_path.rglob("*.arrow"))) == 3
    assert [row for batch in batches for row in batch["seq"].to_pylist()] == [4, 5]
    assert not list(tmp_path.iterdir())


def test_each_run_has_rows_of_one_task_in_order_and_chunks_end_at_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "CHUNK_BYTES", 40 * 16)
    table, packs = in_buckets(tmp_path / "t")
    rows = pa.table({"id": range(100), "seq": range(99, -1, -1)}, schema=table.schema)
    found = list(packs.pack(rows.to_batches(max_chunksize=20)))
    assert [batch[TASK].to_pylist() for batch in found] == [[0], [1], [2]] * 3
    buckets = dict(zip(range(100), table.region_values(rows)["b"].to_pylist(), strict=True))
    seen = []
    for batch in found:
        run = pa.ipc.open_stream(batch[ROWS][0].as_buffer()).read_all()
        assert {buckets[key] for key in run["id"].to_pylist()} == set(batch[TASK].to_pylist())
        assert all(one < other for one, other in pairwise(run["seq"].to_pylist()))
        seen += run["id"].to_pylist()
    assert sorted(seen) == list(range(100))


def test_rows_without_a_sequence_are_refused_before_any_task_writes(tmp_path: Path) -> None:
    _, packs = in_buckets(tmp_path / "t")
    rows = pa.table({"id": [1, 2], "seq": pa.array([1, None], pa.int64())})
    with pytest.raises(PySparkException, match=r"^\[MEMWAL_NULL_SEQUENCE\] column seq has NULLs"):
        list(packs.pack(rows.to_batches()))


def test_a_region_that_was_not_there_when_tasks_were_counted_is_told(tmp_path: Path) -> None:
    packs = Packing(
        key=("id",), sequence_by="seq", values=None, region_column="region", buckets=None, known=("one", "two")
    )
    rows = pa.table({"id": [1, 2], "seq": [1, 2], "region": ["two", "three"]})
    with pytest.raises(PySparkException, match=r"^\[MEMWAL_OTHER_REGIONS\] Spark computed the rows twice"):
        list(packs.pack(rows.to_batches()))
