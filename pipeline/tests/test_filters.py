"""Filters that Spark pushes: which ones are taken, and that each says of NULL and of all else what Spark says."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from memwal_spark.filters import pushed
from pyspark.sql import datasource as spark

ROWS = pa.table({"n": pa.array([1, 2, None, 4], pa.int32()), "t": ["ab", "b_", None, "ba"], "f": [1.0, None, 0.0, 2.0]})
N, T, F = ("n",), ("t",), ("f",)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (spark.EqualTo(N, 2), [2]),
        (spark.Not(spark.EqualTo(N, 2)), [1, 4]),
        (spark.EqualNullSafe(N, 2), [2]),
        (spark.Not(spark.EqualNullSafe(N, 2)), [1, None, 4]),
        (spark.GreaterThan(N, 2), [4]),
        (spark.GreaterThanOrEqual(N, 2), [2, 4]),
        (spark.LessThan(N, 2), [1]),
        (spark.LessThanOrEqual(N, 2), [1, 2]),
        (spark.In(N, (1, 4)), [1, 4]),
        (spark.Not(spark.In(N, (1, 4))), [2]),
        (spark.IsNull(N), [None]),
        (spark.IsNotNull(N), [1, 2, 4]),
        (spark.Not(spark.IsNull(F)), [1, None, 4]),
        (spark.StringStartsWith(T, "b"), [2, 4]),
        (spark.StringEndsWith(T, "b"), [1]),
        (spark.StringContains(T, "_"), [2]),
        (spark.Not(spark.StringContains(T, "a")), [2]),
    ],
    ids=repr,
)
def test_a_pushed_filter_keeps_the_rows_that_spark_would_keep(asked: spark.Filter, expected: list[int | None]) -> None:
    condition, left = pushed([asked], ROWS.schema)
    assert left == []
    assert ROWS.filter(condition).column("n").to_pylist() == expected


@pytest.mark.parametrize(
    "asked",
    [
        spark.EqualTo(F, 1.0),
        spark.GreaterThan(F, 1.0),
        spark.EqualTo(("s", "inner"), 1),
        spark.EqualTo(("elsewhere",), 1),
        spark.EqualTo(N, None),
        spark.EqualNullSafe(N, None),
        spark.EqualTo(N, 1 << 40),
        spark.EqualTo(N, Decimal("1.5")),
        spark.In(N, (1, None)),
        spark.StringContains(N, "1"),
        spark.Not(spark.Not(spark.EqualTo(N, 1))),
    ],
    ids=repr,
)
def test_what_the_engine_might_see_differently_is_left_to_spark(asked: spark.Filter) -> None:
    taken = spark.EqualTo(N, 2)
    condition, left = pushed([asked, taken], ROWS.schema)
    assert left == [asked]
    assert condition.equals(pc.field("n") == pa.scalar(2, pa.int32()))
