"""The comparison of a reading with Spark's own answer: it finds every kind of difference, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from memwal_spark import oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "a int, b string, seq bigint, x int, y string"
KEY = ("a", "b")
LOG = [
    (1, "p", 1, 10, "one"),
    (1, "p", 4, None, "four"),
    (1, "q", 2, 20, None),
    (2, "p", 3, 30, "three"),
    (2, "p", 5, 30, None),
]
LAST = [(1, "p", 4, None, "four"), (1, "q", 2, 20, None), (2, "p", 5, 30, None)]


@pytest.fixture
def log(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(LOG, COLUMNS)


def compare(spark: SparkSession, log: DataFrame, rows: list[tuple[Any, ...]]) -> oracle.OracleComparison:
    expected = oracle.last_rows(log, KEY, "seq")
    actual = spark.createDataFrame(rows, COLUMNS)
    return oracle.compare("reading", expected, actual, log=log, key=KEY, sequence="seq")


def test_the_last_row_of_a_key_is_the_one_with_the_highest_sequence_even_with_nulls(log: DataFrame) -> None:
    assert sorted(tuple(row) for row in oracle.last_rows(log, KEY, "seq").collect()) == LAST


def test_equal_rows_in_any_order_and_with_columns_in_any_order_are_equal(spark: SparkSession, log: DataFrame) -> None:
    expected = oracle.last_rows(log, KEY, "seq")
    actual = spark.createDataFrame(LAST[::-1], COLUMNS).select("y", "x", "seq", "b", "a")
    comparison = oracle.compare("reading", expected, actual, log=log, key=KEY, sequence="seq")
    assert comparison.ok
    assert (comparison.actual.rows, comparison.actual.keys) == (3, 3)
    assert comparison.summary == "reading: 3 rows, equal"


def test_a_missing_row_is_named_with_its_history(spark: SparkSession, log: DataFrame) -> None:
    comparison = compare(spark, log, [LAST[1], LAST[2]])
    assert (comparison.missing, comparison.extra, comparison.changed, comparison.duplicates) == (1, 0, 0, 0)
    assert not comparison.ok
    (difference,) = comparison.differences
    assert (difference.kind, difference.key) == ("missing", {"a": "1", "b": "p"})
    assert difference.actual is None
    assert [event["seq"] for event in difference.history] == ["1", "4"]


def test_a_row_of_a_key_that_was_never_written_is_extra(spark: SparkSession, log: DataFrame) -> None:
    comparison = compare(spark, log, [*LAST, (9, "z", 6, 1, "new")])
    assert (comparison.missing, comparison.extra, comparison.changed, comparison.duplicates) == (0, 1, 0, 0)
    (difference,) = comparison.differences
    assert (difference.kind, difference.key, difference.history) == ("extra", {"a": "9", "b": "z"}, ())


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ((1, "p", 1, 10, "one"), ("seq", "x", "y")),
        ((1, "p", 4, 0, "four"), ("x",)),
        ((1, "p", 4, None, None), ("y",)),
    ],
    ids=["an older row", "a value for NULL", "NULL for a value"],
)
def test_a_changed_row_is_named_with_its_columns(
    spark: SparkSession, log: DataFrame, row: tuple[Any, ...], columns: tuple[str, ...]
) -> None:
    comparison = compare(spark, log, [row, *LAST[1:]])
    assert (comparison.missing, comparison.extra, comparison.changed, comparison.duplicates) == (0, 0, 1, 0)
    (difference,) = comparison.differences
    assert (difference.kind, difference.columns) == ("changed", columns)
    assert comparison.actual != comparison.expected


def test_a_row_that_is_there_twice_is_a_difference(spark: SparkSession, log: DataFrame) -> None:
    comparison = compare(spark, log, [*LAST, LAST[0]])
    assert (comparison.missing, comparison.extra, comparison.changed, comparison.duplicates) == (0, 0, 0, 1)
    assert not comparison.ok
    (difference,) = comparison.differences
    assert (difference.kind, difference.key) == ("duplicate", {"a": "1", "b": "p"})


def test_a_null_moved_to_another_column_changes_the_fingerprint(spark: SparkSession) -> None:
    first = spark.createDataFrame([(1, "a", None, "v")], "k int, b string, c string, d string")
    second = spark.createDataFrame([(1, None, "a", "v")], "k int, b string, c string, d string")
    assert oracle.fingerprint(first, ["k"]) != oracle.fingerprint(second, ["k"])


def test_an_empty_reading_has_an_empty_fingerprint(spark: SparkSession, log: DataFrame) -> None:
    nothing = oracle.fingerprint(log.where("a > 5"), KEY)
    assert nothing == oracle.Fingerprint(rows=0, keys=0, hash_sum=0, hash_xor=0)
    comparison = compare(spark, log, [(9, "z", 6, 1, "new")])
    assert (comparison.missing, comparison.extra) == (3, 1)


def test_no_more_than_twenty_differences_are_named(spark: SparkSession) -> None:
    rows = [(i, "k", i, 0, "") for i in range(30)]
    log = spark.createDataFrame(rows, COLUMNS)
    comparison = compare(spark, log, [(a, b, seq, 1, y) for a, b, seq, _, y in rows])
    assert comparison.changed == 30
    assert [difference.key["a"] for difference in comparison.differences] == [str(i) for i in range(20)]
