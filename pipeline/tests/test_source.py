"""The data source `memwal` inside Spark: upserts, reads, retries, and what its errors say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow as pa
import pytest
from memwal_spark import striking
from memwal_spark.faults import Fault
from memwal_spark.route import route
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from memwal import Table
    from memwal.index.transforms import SpecRequest
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
    ]
)


def create(path: Path, spec: SpecRequest | None = None, revision: str = "B") -> Table:
    return memwal.create(path, SCHEMA, primary_key=["id"], spec=spec, revision=revision)


def bucketed(path: Path, revision: str = "B") -> Table:
    return create(path, memwal.bucket("b", "id", 4), revision)


def events(spark: SparkSession, rows: int = 1000, keys: int = 100) -> DataFrame:
    """``rows`` upserts, the last ``keys`` of which are the last ones of their keys; in no useful order."""
    numbered = spark.range(rows, numPartitions=3)
    frame = numbered.select((sf.col("id") % keys).alias("id"), sf.col("id").alias("seq"))
    return frame.withColumn("text", sf.concat(sf.lit("v"), "seq")).orderBy(sf.rand(1))


def last(rows: int = 1000, keys: int = 100) -> list[dict[str, Any]]:
    """What `events` leaves behind."""
    return [{"id": i, "seq": rows - keys + i, "text": f"v{rows - keys + i}"} for i in range(keys)]


def save(df: DataFrame, path: Path, source: str = "memwal", **options: object) -> None:
    named = {name: str(value) for name, value in ({"sequenceBy": "seq"} | options).items()}
    df.write.format(source).options(**named).mode("append").save(str(path))


def found(table: Table | DataFrame) -> list[dict[str, Any]]:
    rows = table.collect() if hasattr(table, "collect") else table.scan().to_pylist()
    return sorted((row if isinstance(row, dict) else row.asDict() for row in rows), key=lambda row: row["id"])


@pytest.mark.parametrize("revision", ["A", "B", "R"])
def test_a_write_is_an_upsert_by_key_and_the_highest_sequence_wins(
    spark: SparkSession, tmp_path: Path, revision: str
) -> None:
    table = bucketed(tmp_path / "t", revision)
    save(route(events(spark), table, sequence_by="seq"), tmp_path / "t")
    assert found(table) == last()


def test_a_later_write_upserts_what_an_earlier_one_wrote(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    save(route(events(spark, 300), table, sequence_by="seq"), tmp_path / "t", flushEveryRows=20)
    table.merge()
    save(route(events(spark, 500), table, sequence_by="seq"), tmp_path / "t", numRegions=4, revision="B")
    assert found(table) == last(500)


def test_the_report_says_what_each_task_wrote(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    report = tmp_path / "report.json"
    save(route(events(spark), table, sequence_by="seq"), tmp_path / "t", reportPath=report, flushEveryRows=1)
    content = json.loads(report.read_text())
    assert content["complete"] is True
    tasks = content["tasks"]
    assert sum(task["rows"] for task in tasks) == 1000
    regions = {str(region.region_id): region for region in table.regions()}
    assert {task["region_id"] for task in tasks} == set(regions)
    for task in tasks:
        region = regions[task["region_id"]]
        assert region.values == {"b": task["partition"]}
        assert region.manifest is not None
        assert (task["epoch"], task["attempt"], task["puts"]) == (1, 0, 1)
        assert task["generations"] == region.manifest.generation_current - 1 == 1


@pytest.mark.parametrize("kind", ["task-error", "worker-kill"])
def test_a_task_that_fails_after_durable_puts_is_retried_under_a_higher_epoch(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    spark.dataSource.register(striking.SourceWithFaults)
    table = bucketed(tmp_path / "t")
    evidence = tmp_path / "evidence.json"
    fault = Fault(kind=kind, job=0, partition=2, rows=30, puts=3, evidence=str(evidence))
    save(
        route(events(spark), table, sequence_by="seq"),
        tmp_path / "t",
        striking.FORMAT,
        plannedFaults=striking.Strikes(faults=(fault,)).to_json(),
        flushEveryRows=20,
        reportPath=tmp_path / "report.json",
    )
    tasks = {task["partition"]: task for task in json.loads((tmp_path / "report.json").read_text())["tasks"]}
    assert {number: (task["attempt"], task["epoch"]) for number, task in tasks.items()} == {
        0: (0, 1), 1: (0, 1), 2: (1, 2), 3: (0, 1),
    }  # fmt: skip
    flushed_by_the_failed_attempt = json.loads(evidence.read_text())["generations"][tasks[2]["region_id"]]
    assert flushed_by_the_failed_attempt == 1
    assert found(table) == last()


def test_spark_reads_the_merged_rows_with_the_columns_that_were_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    with table.writer(values={"b": int(table.region_values(_row(7)).column("b")[0].as_py())}) as writer:
        writer.put(_row(7, 1, "old"))
        writer.flush()
        writer.put(_row(7, 2, None))
    read = spark.read.format("memwal").option("columns", "text,id,_generation,_epoch").load(str(tmp_path / "t"))
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in read.schema] == [
        ("text", "string", True),
        ("id", "bigint", False),
        ("_generation", "bigint", True),
        ("_epoch", "bigint", True),
    ]
    assert [tuple(row) for row in read.collect()] == [(None, 7, 2, 1)]
    own = spark.read.format("memwal").schema("seq bigint, _position bigint").load(str(tmp_path / "t"))
    assert [tuple(row) for row in own.where("_position > 0").collect()] == [(2, 2)]


def _row(number: int, seq: int = 0, text: str | None = "x") -> pa.Table:
    return pa.table({"id": [number], "seq": [seq], "text": pa.array([text], pa.string())}, schema=SCHEMA)


def test_several_partitions_show_one_state_without_loss_or_repetition(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    save(route(events(spark), table, sequence_by="seq"), tmp_path / "t", flushEveryRows=50)
    table.merge()
    save(route(events(spark, 1100), table, sequence_by="seq"), tmp_path / "t", flushEveryRows=150)
    read = spark.read.format("memwal").option("numPartitions", 3).load(str(tmp_path / "t"))
    assert read.rdd.getNumPartitions() == 3
    assert found(read) == last(1100)
    only_text = (
        spark.read.format("memwal").option("numPartitions", 2).option("columns", "text").load(str(tmp_path / "t"))
    )
    assert sorted(row["text"] for row in only_text.collect()) == sorted(row["text"] for row in last(1100))


def test_a_table_is_read_as_it_was_at_a_version_a_moment_or_a_tag(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.base.append(_row(1, 1, "first"))
    base = memwal.base_table(tmp_path / "t")
    base.tag("kept")
    then, version = datetime.now(UTC), table.version
    while datetime.now(UTC) - then < timedelta(milliseconds=2):
        pass  # versions are told apart by milliseconds
    table.base.append(_row(2, 1, "second"))
    for options in ({"version": version}, {"timestamp": then.isoformat()}, {"tag": "kept"}):
        read = spark.read.format("memwal").options(**options).load(str(tmp_path / "t"))
        assert [row["text"] for row in read.collect()] == ["first"], options
    for options, message in (
        ({"version": 99}, r"\[MEMWAL_NO_VERSION\] the table at .* has no version 99"),
        ({"timestamp": "2000-01-01"}, "no version of 2000-01-01T00:00:00.*the oldest one kept is of"),
        ({"tag": "other"}, "there is no tag 'other'; choose one of kept"),
    ):
        with pytest.raises(AnalysisException, match=message):
            spark.read.format("memwal").options(**options).load(str(tmp_path / "t"))


def test_an_eventual_read_shows_the_regions_of_the_last_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    with table.writer() as writer:
        writer.put(_row(1, 1, "in a snapshot"))
        writer.flush()
        table.snapshot()
        writer.put(_row(1, 2, "in the WAL"))
    shown = {
        consistency: [
            row["text"]
            for row in spark.read.format("memwal")
            .option("consistency", consistency)
            .load(str(tmp_path / "t"))
            .collect()
        ]
        for consistency in ("strong", "eventual")
    }
    assert shown == {"strong": ["in the WAL"], "eventual": ["in a snapshot"]}


def test_filters_are_pushed_where_spark_allows_it_and_applied_to_the_newest_rows(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = bucketed(tmp_path / "t")
    with table.writer(values={"b": int(table.region_values(_row(7)).column("b")[0].as_py())}) as writer:
        writer.put(_row(7, 1, "old"))
        writer.flush()
        writer.put(_row(7, 2, "new"))
    read = spark.read.format("memwal").load(str(tmp_path / "t"))
    asked = {
        "text = 'old'": [],
        "text = 'new' AND id = 7": [(7, 2, "new")],
        "seq % 2 = 0 AND id IN (7)": [(7, 2, "new")],
    }
    for pushing in ("false", "true"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushing)
        try:
            for condition, expected in asked.items():
                assert [tuple(row) for row in read.where(condition).collect()] == expected
            if pushing == "true":
                capfd.readouterr()
                read.where("text = 'new'").explain("formatted")
                assert "* Filter" not in capfd.readouterr().out, "nothing is left for Spark to apply"
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_table_without_a_spec_is_written_by_region_ids(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    even, odd = (str(table.register_region()) for _ in range(2))
    region = sf.when(sf.col("id") % 2 == 0, even).otherwise(odd)
    df = events(spark).withColumn("region", region)
    routed = route(df, table, sequence_by="seq", region_column="region")
    save(routed, tmp_path / "t", regionColumn="region", flushEveryRows=100)
    assert found(table) == last()
    assert {str(info.region_id) for info in table.regions() if info.manifest} == {even, odd}
    with pytest.raises(PySparkException, match=r"MEMWAL_TWO_REGIONS.*memwal_spark\.route\.route"):
        save(df.coalesce(1).sortWithinPartitions("seq"), tmp_path / "t", regionColumn="region")
    with pytest.raises(PySparkException, match=r"MEMWAL_NO_REGION_COLUMN.*option regionColumn"):
        save(events(spark).coalesce(1).sortWithinPartitions("seq"), tmp_path / "t")


def test_a_task_with_rows_of_two_regions_is_refused_and_told_of_route(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t")
    with pytest.raises(PySparkException, match=r"\[MEMWAL_TWO_REGIONS\].*memwal_spark\.route\.route\(df, path"):
        save(events(spark).coalesce(1).sortWithinPartitions("seq"), tmp_path / "t")


def test_rows_out_of_sequence_are_refused_and_told_of_route(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    unordered = route(events(spark), table, sequence_by="seq").sortWithinPartitions(sf.desc("seq"))
    with pytest.raises(PySparkException, match=r"\[MEMWAL_OUT_OF_SEQUENCE\] seq falls from \d+ to \d+ .*route"):
        save(unordered, tmp_path / "t")
    assert found(table) == []


def test_a_sequence_that_falls_between_two_batches_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t", memwal.bucket("b", "id", 1))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 2)
    try:
        rows = spark.createDataFrame(
            [(1, 5, "a"), (2, 6, "b"), (3, 4, "c")], "id bigint not null, seq bigint not null, text string"
        ).coalesce(1)
        with pytest.raises(PySparkException, match=r"\[MEMWAL_OUT_OF_SEQUENCE\] seq falls from 6 to 4"):
            save(rows, tmp_path / "t")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [row["id"] for row in found(table)] == [1, 2]


def test_a_null_sequence_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t")
    nothing = events(spark, 1, 1).withColumn("seq", sf.lit(None).cast("bigint")).coalesce(1)
    with pytest.raises(PySparkException, match=r"MEMWAL_NULL_SEQUENCE"):
        save(nothing, tmp_path / "t")


def test_overwrite_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t")
    writer = events(spark).write.format("memwal").option("sequenceBy", "seq").mode("overwrite")
    with pytest.raises(PySparkException, match=r"\[MEMWAL_NO_OVERWRITE\].*\.mode\('append'\)"):
        writer.save(str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flushRows": "3"}, r"\[MEMWAL_UNKNOWN_OPTION\].*'flushrows'.*flushEveryRows"),
        ({"numRegions": "5"}, r"\[MEMWAL_REGIONS\] option numRegions is 5.*has 4 buckets"),
        ({"revision": "A"}, r"\[MEMWAL_REVISION\].*has revision B.*says A"),
        ({"sequenceBy": "order"}, r"\[MEMWAL_OPTION\] option sequenceBy names 'order'.*'text'"),
    ],
)
def test_a_wrong_option_fails_before_any_task_starts(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    table = bucketed(tmp_path / "t")
    with pytest.raises(AnalysisException, match=message):
        save(events(spark), tmp_path / "t", **options)
    assert table.regions() == ()


def test_rows_that_do_not_fit_the_table_are_refused_with_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    with pytest.raises(AnalysisException, match=r"\[MEMWAL_SCHEMA\].*missing \['text'\], unknown \['words'\]"):
        save(events(spark).withColumnRenamed("text", "words"), tmp_path / "t")
    text = route(events(spark), table, sequence_by="seq").withColumn("id", sf.lit("ten"))
    with pytest.raises(PySparkException, match=r"\[MEMWAL_SCHEMA\] the rows do not fit the table: .*ten"):
        save(text, tmp_path / "t")


def test_other_types_are_cast_where_that_is_safe(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    narrow = events(spark).withColumn("id", sf.col("id").cast("int")).withColumn("seq", sf.col("seq").cast("int"))
    save(route(narrow, table, sequence_by="seq"), tmp_path / "t")
    assert found(table) == last()


def test_a_missing_table_is_named_with_how_to_create_one(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"\[MEMWAL_NO_TABLE\].*memwal\.create\(path, schema"):
        spark.read.format("memwal").load(str(tmp_path / "none"))


def test_an_unknown_column_is_named_with_those_there_are(spark: SparkSession, tmp_path: Path) -> None:
    bucketed(tmp_path / "t")
    with pytest.raises(AnalysisException, match=r"\[MEMWAL_SCHEMA\].*no columns \['words'\]; it has \['id', 'seq'"):
        spark.read.format("memwal").option("columns", "words").load(str(tmp_path / "t"))


def test_an_empty_write_leaves_the_table_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = bucketed(tmp_path / "t")
    save(route(events(spark).where("id < 0"), table, sequence_by="seq"), tmp_path / "t")
    assert found(table) == []
    assert table.regions() == ()
