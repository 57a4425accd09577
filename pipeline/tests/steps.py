"""A program of a user: a write, reads and both streams in the session that the environment or an argument names.

``python pipeline/tests/steps.py FOLDER [MASTER SETTINGS]`` prints what came of each step as one line of JSON. Without a
master the session is that of ``SPARK_REMOTE``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import memwal_spark
import pyarrow as pa
from memwal_spark import jobs, runtime
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), pa.field("seq", pa.int64(), nullable=False), ("text", pa.string())]
)


def steps(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What each step gave. Buckets of texts are computed by the engine in Spark's Python workers."""
    for name in ("batch", "stream"):
        memwal.create(folder / name, SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 2))
    rows = spark.sql("SELECT concat('k', id % 10) AS id, id AS seq, concat('v', id) AS text FROM range(100)")
    done = memwal_spark.upsert(rows, folder / "batch", sequence_by="seq", txn=("steps", 1))
    again = memwal_spark.upsert(rows, folder / "batch", sequence_by="seq", txn=("steps", 1))
    merged = jobs.merge(spark, str(folder / "batch"), drain=True)
    return {
        "session": type(spark).__module__,
        "upsert": [done.rows, len([task for task in done.tasks if task["region_id"]]), again.skipped],
        "merged": merged.total("rows"),
        "read": read(spark, folder / "batch"),
        "refused": refused(spark, folder / "none"),
        "streamed": streamed(rows, folder),
        "changes": changes(spark, folder),
    }


def read(spark: SparkSession, path: Path) -> list[list[Any]]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = spark.read.format("memwal").load(str(path)).where("id >= 'k7' AND text <> 'v99'").collect()
        return sorted([*row] for row in found)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def refused(spark: SparkSession, path: Path) -> str:
    try:
        with memwal_spark.plain_errors():
            spark.read.format("memwal").load(str(path)).show()
    except AnalysisException as error:
        return str(error)
    return ""


def streamed(rows: DataFrame, folder: Path) -> list[str]:
    rows.coalesce(1).write.parquet(str(folder / "files"))
    files = rows.sparkSession.readStream.schema("id string, seq bigint, text string").parquet(str(folder / "files"))
    query = memwal_spark.upsert_stream(
        files, folder / "stream", sequence_by="seq", checkpoint=folder / "written", trigger={"availableNow": True}
    )
    query.awaitTermination()
    return sorted(memwal.open(folder / "stream").scan(["text"]).column("text").to_pylist())


def changes(spark: SparkSession, folder: Path) -> list[list[Any]]:
    feed = spark.readStream.format("memwal").options(readChangeFeed="true", startingFrom="earliest")
    told = feed.load(str(folder / "stream")).writeStream.format("memory").queryName("told")
    told.option("checkpointLocation", str(folder / "told")).trigger(availableNow=True).start().awaitTermination()
    found = spark.sql("SELECT _change_type, count(*), count(DISTINCT _region) FROM told GROUP BY _change_type")
    return [[*row] for row in found.collect()]


def main() -> None:
    folder, conf = Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
    spark = SparkSession.builder.getOrCreate() if conf is None else runtime.session("steps", 1, conf=conf)
    try:
        sys.stdout.write(json.dumps(steps(spark, folder)) + "\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
