"""Rows, attempts and jobs that come late, in Spark: what is stored has to be the row with the highest sequence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import memwal
import memwal_spark
import pyarrow as pa
import pytest
from memwal.errors import InvalidArgument
from memwal.region.sequences import LateRows
from memwal_spark.route import route
from memwal_spark.source import MemWalWriter
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
KEYS = 40


def bucketed(path: Path, revision: str = "B", buckets: int = 2) -> memwal.Table:
    return memwal.create(path, SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", buckets), revision=revision)


def events(spark: SparkSession, first: int, rows: int = KEYS) -> DataFrame:
    """``rows`` upserts of `KEYS` keys, whose sequences count from ``first``."""
    numbered = spark.range(first, first + rows, numPartitions=2)
    frame = numbered.select((sf.col("id") % KEYS).alias("id"), sf.col("id").alias("seq"))
    return frame.withColumn("text", sf.concat(sf.lit("v"), "seq"))


def found(path: Path) -> list[tuple[int, int, str]]:
    return sorted(tuple(row.values()) for row in memwal.open(path).scan().to_pylist())


def expected(first: int, rows: int = KEYS) -> list[tuple[int, int, str]]:
    """What `events` leaves behind."""
    last = {seq % KEYS: seq for seq in range(first, first + rows)}
    return sorted((key, seq, f"v{seq}") for key, seq in last.items())


def test_one_call_routes_and_writes_and_a_later_job_with_older_rows_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucketed(tmp_path / "t")
    done = memwal_spark.upsert(events(spark, 1000, 400), tmp_path / "t", sequence_by="seq", flush_every_rows=100)
    assert (done.rows, done.replaced, done.late, done.deleted, done.generations > 0) == (400, 360, 0, 0, False)
    late = memwal_spark.upsert(events(spark, 500, 80), tmp_path / "t", sequence_by="seq")
    assert (late.rows, late.replaced, late.late) == (80, 40, 40)
    assert found(tmp_path / "t") == expected(1000, 400)
    kept = memwal_spark.upsert(events(spark, 500), tmp_path / "t", sequence_by="seq", late_rows="keep")
    assert (kept.rows, kept.replaced, kept.late) == (40, 0, 0)
    assert found(tmp_path / "t") == expected(500)
    with pytest.raises(PySparkException, match=r"\[MEMWAL_LATE_ROW\] \d+ rows? came late; the first is .*AMB-148"):
        memwal_spark.upsert(events(spark, 100), tmp_path / "t", sequence_by="seq", late_rows="fail")


def test_only_where_late_rows_are_dropped_is_a_row_left_out_that_a_later_one_of_the_call_replaces(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = {}
    ways: tuple[LateRows, ...] = ("drop", "keep", "fail")
    for late_rows in ways:
        path = tmp_path / late_rows
        bucketed(path)
        done = memwal_spark.upsert(events(spark, 0, 60), path, sequence_by="seq", late_rows=late_rows)
        entries = spark.read.format("memwal").option("table", "wal").load(str(path))
        stored = entries.selectExpr("sum(rows)").collect()[0][0]
        counts[late_rows] = (done.rows, done.replaced, done.late, stored)
        assert found(tmp_path / late_rows) == expected(0, 60)
    assert counts == {"drop": (60, 20, 0, 40), "keep": (60, 0, 0, 60), "fail": (60, 20, 0, 40)}
    # A row that is late fails the job, also where a later one of its key comes with it.
    with pytest.raises(PySparkException, match=r"\[MEMWAL_LATE_ROW\]"):
        memwal_spark.upsert(events(spark, 40, 80), tmp_path / "fail", sequence_by="seq", late_rows="fail")


def test_of_rows_of_one_key_and_sequence_one_stands_and_the_others_are_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucketed(tmp_path / "t")
    rows = spark.createDataFrame(
        [(1, 5, "a"), (1, 4, "b"), (1, 5, "a"), (2, 1, "c")], "id bigint, seq bigint, text string"
    )
    done = memwal_spark.upsert(rows, tmp_path / "t", sequence_by="seq")
    assert (done.rows, done.replaced, done.late) == (4, 1, 1)
    assert found(tmp_path / "t") == [(1, 5, "a"), (2, 1, "c")]


def test_a_delete_column_deletes_and_an_older_row_does_not_bring_the_key_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    bucketed(tmp_path / "t", "R")
    memwal_spark.upsert(events(spark, 1000), tmp_path / "t", sequence_by="seq")
    changes = events(spark, 2000, 80).withColumn("gone", (sf.col("seq") % 4 == 0) & (sf.col("seq") >= 2040))
    done = memwal_spark.upsert(changes, tmp_path / "t", sequence_by="seq", delete_column="gone")
    assert (done.rows, done.replaced, done.late, done.deleted) == (80, 40, 0, 10)
    memwal_spark.upsert(events(spark, 1500), tmp_path / "t", sequence_by="seq")
    assert found(tmp_path / "t") == [row for row in expected(2000, 80) if row[1] % 4]


def test_deletes_that_a_table_cannot_have_are_refused_before_any_task(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "b")
    changes = events(spark, 0).withColumn("gone", sf.lit(True))
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_NO_DELETES\].*revision R, and the table has B"):
        memwal_spark.upsert(changes, tmp_path / "b", sequence_by="seq", delete_column="gone")
    strict = SCHEMA.append(pa.field("more", pa.string(), nullable=False))
    memwal.create(tmp_path / "r", strict, primary_key=["id"], spec=memwal.bucket("b", "id", 2), revision="R")
    more = changes.withColumn("more", sf.lit("x"))
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_NO_DELETES\].*\['more'\] are NOT NULL: make these"):
        memwal_spark.upsert(more, tmp_path / "r", sequence_by="seq", delete_column="gone")
    rate = spark.readStream.format("rate").load()
    stream = rate.selectExpr("value AS id", "value AS seq", "'x' AS text", "'x' AS more", "true AS gone")
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_NO_DELETES\].*\['more'\] are NOT NULL: make these"):
        memwal_spark.upsert_stream(
            stream, tmp_path / "r", sequence_by="seq", checkpoint=checkpoint, delete_column="gone"
        )
    assert not checkpoint.exists()


def test_a_batch_that_comes_again_puts_no_entry_and_an_older_one_is_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = bucketed(tmp_path / "t")
    memwal_spark.upsert(events(spark, 1000), tmp_path / "t", sequence_by="seq", txn=("app", 7))
    table.merge()
    before = {str(region.region_id): region.manifest for region in memwal.open(tmp_path / "t").regions()}
    for batch in (7, 6):
        again = memwal_spark.upsert(events(spark, 5000), tmp_path / "t", sequence_by="seq", txn=("app", batch))
        assert (again.skipped, again.rows) == (True, 0)
    assert {str(region.region_id): region.manifest for region in memwal.open(tmp_path / "t").regions()} == before
    assert found(tmp_path / "t") == expected(1000)
    done = memwal_spark.upsert(events(spark, 6000), tmp_path / "t", sequence_by="seq", txn=("app", 8))
    assert (done.skipped, done.rows, done.late) == (False, 40, 0)


cloudpickle.register_pickle_by_value(sys.modules[__name__])


class TwoAttempts(DataSource):  # type: ignore[misc] # pyspark's own types are not read
    """The data source `memwal`, each of whose tasks is followed by what a second attempt of it does.

    The first attempt puts all of its rows and returns; before the job commits, the copy claims the region, puts its
    first batches, and is killed, since the first has succeeded.
    """

    @classmethod
    def name(cls) -> str:
        return "two_attempts"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _TwoAttempts(MemWalWriter(self.options, schema, overwrite=overwrite))


class _TwoAttempts(DataSourceArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    def __init__(self, inner: MemWalWriter) -> None:
        self._inner = inner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = list(iterator)
        first = self._inner.write(iter(batches))

        def killed() -> Iterator[pa.RecordBatch]:
            yield from (batch.slice(0, batch.num_rows // 2) for batch in batches[:1])
            raise KeyboardInterrupt

        try:
            self._inner.write(killed())
        except KeyboardInterrupt:
            return first
        raise AssertionError("the copy was not killed")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


@pytest.mark.parametrize(("late_rows", "right"), [("drop", True), ("keep", False)])
def test_a_copy_that_claims_after_the_first_attempt_has_put_everything_changes_no_row_and_the_job_says_so(
    spark: SparkSession, tmp_path: Path, late_rows: str, right: bool
) -> None:
    """Fact 1: without the comparison (``keep``) the copy's older rows are the newest, and the commit only says so."""
    spark.dataSource.register(TwoAttempts)
    table = bucketed(tmp_path / "t")
    report = tmp_path / "report.json"
    options = {"sequenceBy": "seq", "lateRows": late_rows, "reportPath": str(report)}
    routed = route(events(spark, 0, 400), table, sequence_by="seq")
    with pytest.raises(PySparkException, match=r"MEMWAL_ANOTHER_CLAIM\] region .* written under epoch 1, now it is 2"):
        routed.write.format("two_attempts").options(**options).mode("append").save(str(tmp_path / "t"))
    content = json.loads(report.read_text())
    assert content["complete"] is False
    assert {task["epoch"] for task in content["tasks"]} == {1}
    assert {int(region.manifest.epoch) for region in memwal.open(tmp_path / "t").regions() if region.manifest} == {2}
    assert (found(tmp_path / "t") == expected(0, 400)) is right
