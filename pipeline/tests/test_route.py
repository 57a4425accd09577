"""Which region, and so which Spark task, a row goes to: held against the engine's own region values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal_spark import flights
from memwal_spark.route import bucket_count, region_of, route
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from memwal import Table
    from memwal.index.transforms import SpecRequest
    from pyspark.sql import DataFrame, SparkSession

INT32 = [0, 1, -1, 123, 2**31 - 1, -(2**31), -2089875627]
INT64 = [0, 1, -1, 123, 2**63 - 1, -(2**63), 2841062569, -4026370631]
TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "ä€😀", "\x7f\x80ÿ"]
INSTANTS = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us) for us in (0, 1, -1, 123_456_789, -(10**15))]


def number_of_rows() -> int:
    return 40


def values_of(kind: pa.DataType) -> list[Any]:
    """At least one of each interesting value, and one NULL."""
    chosen: dict[str, list[Any]] = {
        "int8": [0, 1, -1, 127, -128],
        "int16": [0, 1, -1, 2**15 - 1, -(2**15)],
        "int32": INT32,
        "int64": INT64,
        "bool": [True, False],
        "date32[day]": [date(1970, 1, 1), date(2013, 7, 4), date(1, 1, 1), date(9999, 12, 31)],
        "timestamp[us, tz=UTC]": INSTANTS,
        "timestamp[us]": [instant.replace(tzinfo=None) for instant in INSTANTS],
        "string": TEXTS,
    }
    found = [*chosen[str(kind)], None]
    return [found[i % len(found)] for i in range(number_of_rows())]


NATIVE_TEXTBOOK = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
]  # fmt: skip


def table_with(path: Path, columns: dict[str, pa.DataType], spec: SpecRequest, revision: str) -> tuple[Table, pa.Table]:
    """A table of ``columns`` beside the key ``id``, and rows for it."""
    fields = [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, kind in columns.items())]
    rows = pa.table(
        [pa.array(range(number_of_rows()), pa.int64()), *(pa.array(values_of(k), k) for k in columns.values())],
        schema=pa.schema(fields),
    )
    return memwal.create(path, rows.schema, primary_key=["id"], revision=revision, spec=spec), rows


def regions(df: DataFrame, table: Table) -> dict[int, Any]:
    """Region of each row by id, as routing computes it."""
    return {row[0]: row[1] for row in df.select("id", region_of(df, table).alias("region")).collect()}


def engine_regions(table: Table, rows: pa.Table) -> dict[int, Any]:
    """The same by the engine."""
    return dict(zip(rows["id"].to_pylist(), table.region_values(rows).column(0).to_pylist(), strict=True))


def is_native(df: DataFrame, table: Table) -> bool:
    """Whether Spark computes the region without Python."""
    plan = df.select(region_of(df, table))._jdf.queryExecution().optimizedPlan().toString()
    return "Python" not in plan and "UDF" not in plan


@pytest.mark.parametrize("kind", NATIVE_TEXTBOOK, ids=str)
def test_spark_computes_the_textbook_bucket_of_fixed_width_types_natively(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType
) -> None:
    table, rows = table_with(tmp_path / "t", {"c": kind}, memwal.bucket("b", "c", 10, immutable=True), "B")
    df = spark.createDataFrame(rows)
    assert is_native(df, table)
    assert regions(df, table) == engine_regions(table, rows)


@pytest.mark.parametrize("kind", [*NATIVE_TEXTBOOK, pa.string()], ids=str)
def test_spark_computes_the_bucket_of_revision_r_natively(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType
) -> None:
    table, rows = table_with(tmp_path / "t", {"c": kind}, memwal.bucket("b", "c", 10, immutable=True), "R")
    df = spark.createDataFrame(rows)
    assert is_native(df, table)
    assert regions(df, table) == engine_regions(table, rows)


def test_a_composite_bucket_of_fixed_width_columns_is_native_and_skips_nulls(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"a": pa.int32(), "b": pa.date32(), "c": pa.int64()}
    table, rows = table_with(tmp_path / "t", columns, memwal.bucket("r", ["c", "a", "b"], 7, immutable=True), "A")
    df = spark.createDataFrame(rows)
    assert is_native(df, table)
    found = regions(df, table)
    assert found == engine_regions(table, rows)
    unknown = [row["id"] for row in rows.to_pylist() if row["a"] is row["b"] is row["c"] is None]
    assert [found[row] for row in unknown] == [None] * len(unknown)


@pytest.mark.parametrize(
    "spec",
    [
        memwal.bucket("r", "s", 10, immutable=True),
        memwal.bucket("r", ["n", "s"], 10, immutable=True),
        memwal.identity("r", "n", immutable=True),
        memwal.truncate("r", "s", 2, immutable=True),
        memwal.year("r", "d", immutable=True),
        memwal.expression("r", "col0 % 3", "m", immutable=True),
    ],
    ids=["text bucket", "composite bucket with text", "identity", "truncate", "year", "expression"],
)
def test_the_engine_computes_every_other_spec_inside_spark(
    spark: SparkSession, tmp_path: Path, spec: SpecRequest
) -> None:
    columns = {"n": pa.int32(), "s": pa.string(), "d": pa.date32(), "m": pa.int16()}
    table, rows = table_with(tmp_path / "t", columns, spec, "B")
    df = spark.createDataFrame(rows)
    assert not is_native(df, table)
    found, expected = regions(df, table), engine_regions(table, rows)
    if bucket_count(table) is not None:
        assert found == expected
        return
    groups: dict[Any, set[str]] = {}
    for row, value in expected.items():
        groups.setdefault(value, set()).add(found[row])
    assert all(len(texts) == 1 for texts in groups.values())
    assert len(set(found.values())) == len(groups)


@pytest.mark.parametrize(
    ("revision", "columns"),
    [("B", list(flights.KEY)), ("A", ["flight_date", "flight"]), ("R", ["flight"]), ("R", ["carrier"])],
)
def test_each_task_gets_the_whole_of_one_region_in_sequence_order(
    spark: SparkSession, tmp_path: Path, revision: str, columns: list[str]
) -> None:
    table = memwal.create(
        tmp_path / "t",
        flights.SCHEMA,
        primary_key=flights.KEY,
        revision=revision,
        spec=memwal.bucket("b", columns, 5),
    )
    log = flights.change_log(500, seed=2)
    df = spark.createDataFrame(log.take(pa.array(range(log.num_rows - 1, -1, -1))))
    routed = route(df, table, sequence_by="seq")
    assert routed.columns == df.columns

    buckets = dict(zip(log["seq"].to_pylist(), table.region_values(log)["b"].to_pylist(), strict=True))
    tasks: dict[int, list[int]] = dict(
        enumerate(routed.rdd.glom().map(lambda rows: [r["seq"] for r in rows]).collect())
    )
    assert {task: {buckets[seq] for seq in rows} for task, rows in tasks.items() if rows} == {
        bucket: {bucket} for bucket in set(buckets.values())
    }
    assert all(rows == sorted(rows) for rows in tasks.values())
    assert sorted(seq for rows in tasks.values() for seq in rows) == sorted(buckets)


def test_a_spec_of_several_fields_gets_a_task_for_each_combination(spark: SparkSession, tmp_path: Path) -> None:
    spec = memwal.region_spec([memwal.identity("o", "origin"), memwal.month("m", "flight_date")])
    table = memwal.create(tmp_path / "t", flights.SCHEMA, primary_key=flights.KEY, spec=spec)
    log = flights.change_log(300, seed=2)
    routed = route(spark.createDataFrame(log), table, sequence_by="seq")
    tasks = routed.rdd.glom().map(lambda rows: {(row["origin"], row["flight_date"].month) for row in rows}).collect()
    assert all(len(combinations) == 1 for combinations in tasks)
    expected = {(o, d.month) for o, d in zip(log["origin"].to_pylist(), log["flight_date"].to_pylist(), strict=True)}
    assert len(tasks) == len(expected)
    assert set().union(*tasks) == expected


def test_rows_without_a_column_that_routing_needs_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", flights.SCHEMA, primary_key=flights.KEY, spec=memwal.bucket("b", "flight", 2))
    df = spark.createDataFrame(flights.change_log(5))
    with pytest.raises(InvalidArgument, match=r"MEMWAL_SCHEMA.*lack the columns \['flight'\]"):
        route(df.drop("flight"), table, sequence_by="seq")
    with pytest.raises(InvalidArgument, match=r"MEMWAL_SCHEMA.*lack the columns \['order'\]"):
        route(df, table, sequence_by="order")


def test_a_table_without_a_spec_is_routed_by_a_column_of_region_ids(spark: SparkSession, tmp_path: Path) -> None:
    table = memwal.create(tmp_path / "t", flights.SCHEMA, primary_key=flights.KEY)
    df = spark.createDataFrame(flights.change_log(20))
    with pytest.raises(InvalidArgument, match=r"MEMWAL_NO_REGION_COLUMN"):
        route(df, table, sequence_by="seq")
    unnamed = df.withColumn("region", sf.when(df["origin"] != "JFK", df["origin"]))
    with pytest.raises(InvalidArgument, match=r"MEMWAL_NULL_REGION"):
        route(unnamed, table, sequence_by="seq", region_column="region")
    by_origin = route(df.withColumn("region", df["origin"]), table, sequence_by="seq", region_column="region")
    tasks = by_origin.rdd.glom().map(lambda rows: {row["origin"] for row in rows}).collect()
    assert sorted(tasks, key=min) == [{"EWR"}, {"JFK"}, {"LGA"}]
