"""Every type of column, as key, sequence, region value and value, through Spark and back."""

from __future__ import annotations

import datetime as dt
import math
import random
import shutil
import struct
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memwal.codec.marks import Mark
from memwal.errors import InvalidArgument
from memwal_spark import upsert, write
from memwal_spark.errors import said
from memwal_spark.options import for_writing_streams
from memwal_spark.streaming import _by_region
from memwal_spark.types import in_spark
from memwal_spark.values import as_text
from memwal_spark.write import RegionTask
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = dt.UTC
TEXTS = [
    "",
    "a",
    "a\0b",
    "\0",
    "é",
    "e\u0301",
    "\U0001f600",
    "x" * 5000,
    " ",
    "\n",
    "'\"\\",
    "NULL",
    "\ufeff",
    "\uffff",
]
BYTES = [b"", b"\0", b"\xff\xfe", bytes(range(256)), b"abc"]
DATES = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)]
TIMES = [
    dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 2),
    dt.datetime(9999, 12, 30, 23, 59, 59, 999999), dt.datetime(2024, 3, 31, 2, 30), dt.datetime(1582, 10, 10),
]  # fmt: skip
ZONED = [each.replace(tzinfo=UTC) for each in TIMES]


def whole(bits: int, *, signed: bool = True) -> list[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return [low, high, 0, 1, low + 1, high // 3]


def digits(precision: int, scale: int) -> list[Decimal]:
    return [Decimal(f"{each}E-{scale}") for each in (0, 1, -1, 10**precision - 1, 1 - 10**precision, 10**scale // 3)]


KEYS: Mapping[pa.DataType, list[Any]] = {
    pa.int8(): whole(8), pa.int16(): whole(16), pa.int32(): whole(32), pa.int64(): whole(64),
    pa.uint8(): whole(8, signed=False), pa.uint16(): whole(16, signed=False),
    pa.uint32(): whole(32, signed=False), pa.uint64(): whole(64, signed=False),
    pa.string(): TEXTS, pa.large_string(): TEXTS, pa.binary(): BYTES, pa.large_binary(): BYTES,
    pa.binary(3): [b"\0\0\0", b"abc", b"\xff\xff\xff"],
    pa.date32(): DATES, pa.date64(): DATES,
    pa.timestamp("us"): TIMES, pa.timestamp("s"): [each.replace(microsecond=0) for each in TIMES],
    pa.timestamp("ms"): [each.replace(microsecond=7000) for each in TIMES],
    pa.timestamp("ns"): [dt.datetime(2000, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    pa.timestamp("us", "UTC"): ZONED, pa.timestamp("us", "Europe/Berlin"): ZONED,
    pa.decimal128(10, 2): digits(10, 2), pa.decimal128(38, 10): digits(38, 10), pa.decimal128(5, 0): digits(5, 0),
    pa.bool_(): [True, False],
}  # fmt: skip
"""Values of each type that a key may have."""
FLOATS = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]
VALUES: Mapping[pa.DataType, list[Any]] = {
    **KEYS,
    pa.float16(): FLOATS, pa.float32(): FLOATS, pa.float64(): [*FLOATS, 5e-324],
    pa.time64("us"): [dt.time(0), dt.time(23, 59, 59, 999999)],
    pa.duration("us"): [dt.timedelta(0), dt.timedelta(days=-3, microseconds=1)],
    pa.decimal256(38, 2): digits(38, 2),
    pa.list_(pa.int32()): [[], [1, None, 3]], pa.large_list(pa.uint8()): [[255], []],
    pa.list_(pa.float32(), 2): [[0.5, -1.0]],
    pa.struct([("a", pa.uint16()), ("b", pa.string())]): [{"a": 65535, "b": None}, {"a": None, "b": ""}],
    pa.null(): [None],
}  # fmt: skip


SEQUENCES = [
    pa.int8(), pa.uint64(), pa.date32(), pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"),
    pa.decimal128(38, 10), pa.string(),
]  # fmt: skip
"""Types by which rows may be ordered."""


def frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """``rows`` as a user has them in Spark, in the types that Spark has for them."""
    return spark.createDataFrame(rows.cast(to_arrow_schema(in_spark(rows.schema), timezone="UTC")))


def plain(kind: pa.DataType, value: Any) -> Any:
    """``value`` as something that is equal to the same value only: NaN to itself, 0.0 not to -0.0."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return tuple(plain(kind.value_type, each) for each in value)
    if isinstance(value, dict):
        return tuple(plain(kind.field(name).type, each) for name, each in value.items())
    return value


def rows_of(found: pa.Table) -> dict[Any, tuple[Any, ...]]:
    """Rows by their first column; zoned times as numbers, since Python has none in the last hours of time."""
    columns = [
        [
            plain(column.type, value)
            for value in (_numbers(column) if pa.types.is_timestamp(column.type) else column).to_pylist()
        ]
        for column in found.columns
    ]
    return {row[0]: row for row in zip(*columns, strict=True)}


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64())


def stored(table: memwal.Table) -> dict[Any, tuple[Any, ...]]:
    return rows_of(table.scan())


def read(spark: SparkSession, path: Path, schema: pa.Schema) -> dict[Any, tuple[Any, ...]]:
    return rows_of(spark.read.format("memwal").load(str(path)).toArrow().cast(schema))


def drawn(rng: random.Random, schema: pa.Schema, sequences: list[Any], of: Mapping[pa.DataType, list[Any]]) -> pa.Table:
    """A row for each value of the key, with the ``sequences`` one after another."""
    columns = {}
    for field in schema:
        values = of[field.type]
        columns[field.name] = [None if field.nullable and rng.random() < 0.3 else rng.choice(values) for _ in sequences]
    columns["seq"] = sequences
    return pa.table(columns, schema=schema)


def merged(table: memwal.Table) -> memwal.Table:
    for region in table.regions():
        with table.writer(region.region_id) as writer:
            writer.flush()
    table.merge()
    return table


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_a_key_of_each_type_and_values_of_all_types_come_out_as_they_went_in(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType
) -> None:
    rng = random.Random(str(kind))
    fields = [pa.field(f"v{number}", each) for number, each in enumerate(VALUES)]
    # Values of all types beside one key, and beside the others a text.
    beside = fields if kind == pa.int64() else [pa.field("v", pa.string())]
    schema = pa.schema([pa.field("k", kind, False), pa.field("seq", pa.int64(), False), *beside])
    spec = memwal.bucket("b", "k", 3) if kind in (pa.int64(), pa.timestamp("ns")) else memwal.identity("r", "k")
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=spec)
    expected: dict[Any, tuple[Any, ...]] = {}
    for batch in range(2):
        rows = drawn(rng, schema, rng.sample(range(1000), 12), VALUES)
        for row in sorted(map(tuple, _each(rows)), key=lambda row: row[1]):
            if row[0] not in expected or row[1] > expected[row[0]][1]:
                expected[row[0]] = row
        upsert(frame(spark, rows), tmp_path / "t", sequence_by="seq")
        assert stored(memwal.open(tmp_path / "t")) == expected, batch
    assert read(spark, tmp_path / "t", schema) == expected
    assert stored(merged(table)) == expected
    assert read(spark, tmp_path / "t", schema) == expected


def _each(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [row for number in range(rows.num_rows) for row in rows_of(rows.slice(number, 1)).values()]


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_a_key_of_each_type_goes_through_a_stream_and_a_batch_that_comes_again_puts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    task = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 1)
    monkeypatch.setattr(write, "context", lambda: task)
    schema = pa.schema([pa.field("k", kind, False), pa.field("seq", kind if kind in SEQUENCES else pa.int64(), False)])
    keys = pa.array(KEYS[kind], kind).unique()
    order = keys if kind in SEQUENCES else pa.array(range(len(keys)))
    given = pa.table([keys, order], schema=schema).cast(to_arrow_schema(in_spark(schema), timezone="UTC"))
    options = for_writing_streams({"path": str(tmp_path / "t"), "sequenceBy": "seq"})
    specs = [memwal.bucket("b", "k", 1), memwal.identity("r", "k")]
    for spec in specs[: 1 if kind == pa.timestamp("ns") else 2]:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=spec)
        ends = None
        for batch in (0, 0, 1):
            mark = Mark(application="query", batch=batch, partitions=(0,))
            for share in _by_region(table, given, options):
                RegionTask(options).write(table, share, mark)
            assert stored(memwal.open(tmp_path / "t")) == rows_of(given.cast(schema))
            assert ends is None or batch or table.log_ends() == ends
            ends = table.log_ends()


TIMED = [
    ("year", pa.date32()), ("month", pa.timestamp("us")), ("day", pa.timestamp("us", "Europe/Berlin")),
    ("hour", pa.timestamp("us", "UTC")),
    # Deletes are of revision R, which has no transforms of times.
    ("identity", pa.string()), ("identity", pa.int32()),
]  # fmt: skip


@pytest.mark.parametrize(("transform", "kind"), TIMED, ids=str)
def test_regions_by_times_and_deletes_give_what_a_fold_gives(
    spark: SparkSession, tmp_path: Path, transform: str, kind: pa.DataType
) -> None:
    schema = pa.schema([pa.field("k", kind, False), pa.field("seq", pa.int64(), False), pa.field("v", pa.string())])
    spec, deletes = getattr(memwal, transform)("r", "k"), transform == "identity"
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=spec, revision="R" if deletes else "B")
    rng, expected, last = random.Random(transform), dict[Any, tuple[Any, ...]](), dict[Any, int]()
    for _ in range(2):
        rows = drawn(rng, schema, rng.sample(range(1000), 12), KEYS | {pa.string(): TEXTS})
        gone = pa.array([deletes and rng.random() < 0.4 for _ in range(12)])
        for row, deleted in sorted(zip(_each(rows), gone.to_pylist(), strict=True), key=lambda each: each[0][1]):
            if row[1] > last.get(row[0], -1):
                last[row[0]] = row[1]
                expected.pop(row[0], None)
                expected |= {} if deleted else {row[0]: row}
        df = spark.createDataFrame(rows.append_column("gone", gone) if deletes else rows)
        upsert(df, tmp_path / "t", sequence_by="seq", delete_column="gone" if deletes else None)
        assert stored(memwal.open(tmp_path / "t")) == expected
    assert read(spark, tmp_path / "t", schema) == expected
    assert stored(merged(table)) == expected


@pytest.mark.parametrize("kind", SEQUENCES, ids=str)
def test_the_last_row_by_a_sequence_of_each_type_wins(spark: SparkSession, tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("seq", kind, False), pa.field("v", pa.int64())])
    memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=memwal.bucket("b", "k", 2))
    order = pa.array(KEYS[kind], kind).unique().sort()
    count = len(order)
    rows = pa.table([pa.array([1] * count), order, pa.array(range(count))], schema=schema)
    for part in (range(count - 1, -1, -2), range(count - 1)):
        upsert(frame(spark, rows.take(list(part))), tmp_path / "t", sequence_by="seq")
    assert memwal.open(tmp_path / "t").scan()["v"].to_pylist() == [count - 1]


def test_bytes_are_no_sequence_and_that_is_said_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("seq", pa.binary(), False)])
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=memwal.bucket("b", "k", 2))
    rows = frame(spark, pa.table([[1], [b"a"]], schema=schema))
    with pytest.raises(InvalidArgument, match="'seq' is binary; rows are ordered by"):
        upsert(rows, tmp_path / "t", sequence_by="seq")
    assert table.regions() == ()


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint64()], ids=str)
def test_filters_on_numbers_without_a_sign_choose_the_rows_that_spark_would(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType
) -> None:
    schema = pa.schema([pa.field("k", kind, False), pa.field("seq", pa.int64(), False)])
    memwal.create(tmp_path / "t", schema, primary_key=["k"], spec=memwal.bucket("b", "k", 2))
    values = sorted(set(KEYS[kind]))
    rows = frame(spark, pa.table([values, range(len(values))], schema=schema))
    upsert(rows, tmp_path / "t", sequence_by="seq")
    read = spark.read.format("memwal").load(str(tmp_path / "t"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for condition in (f"k = {values[-1]}", f"k > {values[2]}", "k < -1", f"k <= {2 * values[-1]}"):
            assert read.where(condition).count() == rows.where(condition).count(), condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_column_of_a_type_that_spark_has_not_is_named_and_the_others_can_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.decimal256(40, 2))])
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"])
    with table:
        table.upsert(pa.table([[1], [Decimal("1.5")]], schema=schema))
    load = spark.read.format("memwal")
    with pytest.raises(PySparkException) as refused:
        load.load(str(tmp_path / "t"))
    assert said(refused.value).startswith(
        "[MEMWAL_TYPE] column v has type decimal256(40, 2), which Spark does not have"
    )
    assert load.option("columns", "k").load(str(tmp_path / "t")).collect() == [(1,)]


def test_a_value_that_spark_cannot_hold_is_an_error_and_no_other_value(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("at", pa.timestamp("ns"))])
    table = memwal.create(tmp_path / "t", schema, primary_key=["k"])
    with table:
        table.upsert(pa.table([pa.array([1]), pa.array([1001], pa.int64()).cast(pa.timestamp("ns"))], schema=schema))
    with pytest.raises(PySparkException) as refused:
        spark.read.format("memwal").load(str(tmp_path / "t")).collect()
    assert said(refused.value).startswith("[MEMWAL_TYPE] column at has a value that does not fit Spark's timestamp_ntz")


TEXT = st.none() | st.text(alphabet="\0\1a1:-", max_size=4)


@given(a=st.tuples(TEXT, TEXT), b=st.tuples(TEXT, TEXT))
@example(a=("a", "1:b"), b=("a1:b", ""))
@example(a=("\0", None), b=(None, "\0"))
def test_rows_have_one_text_only_if_all_their_region_values_are_equal(a: Any, b: Any) -> None:
    first, second = as_text(
        pa.table([pa.array(each, pa.string()) for each in zip(a, b, strict=True)], names=["x", "y"])
    )
    assert (first == second) == (a == b)


def test_the_two_zeros_of_floating_numbers_are_one_region_value() -> None:
    first, second, third = as_text(pa.table({"x": pa.array([0.0, -0.0, None]), "y": [1, 1, 1]}))
    assert first == second != third
