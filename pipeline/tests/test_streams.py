"""The streaming sink inside Spark: each batch once, however often it comes and however its rows are divided."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import memwal
import memwal_spark
import pyarrow as pa
import pytest
from memwal.codec.marks import Mark
from memwal.errors import InvalidArgument
from memwal_spark import streaming, write
from memwal_spark.options import for_writing, for_writing_streams
from memwal_spark.source import AnotherClaim
from memwal_spark.streaming import BATCH, QUERY, BatchPart, MemWalStreamWriter
from memwal_spark.write import RegionTask, TaskWritten
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
    ]
)
KEYS = 20


def bucketed(path: Path, revision: str = "B") -> memwal.Table:
    spec = memwal.bucket("b", "id", 2)
    return memwal.create(path, SCHEMA, primary_key=["id"], spec=spec, revision=revision, wal_collection=True)


def add(spark: SparkSession, source: Path, first: int, rows: int = 2 * KEYS) -> None:
    """One file of ``rows`` upserts of `KEYS` keys, whose sequences count from ``first``."""
    numbered = spark.range(first, first + rows, numPartitions=1)
    frame = numbered.select((sf.col("id") % KEYS).alias("id"), sf.col("id").alias("seq"))
    frame.withColumn("text", sf.concat(sf.lit("v"), "seq")).write.mode("append").parquet(str(source))


def found(path: Path) -> list[tuple[int, int, str]]:
    return sorted(tuple(row.values()) for row in memwal.open(path).scan().to_pylist())


def expected(first: int, rows: int) -> list[tuple[int, int, str]]:
    last = {seq % KEYS: seq for seq in range(first, first + rows)}
    return sorted((key, seq, f"v{seq}") for key, seq in last.items())


def run(spark: SparkSession, path: Path, *, in_one_task: bool = False) -> None:
    """Write what there is of the source. ``in_one_task``: all rows of a batch are in one task, of several regions."""
    reader = spark.readStream.schema("id bigint, seq bigint, text string").option("maxFilesPerTrigger", 1)
    stream, now = reader.parquet(str(path / "source")), {"availableNow": True}
    table, checkpoint = path / "t", path / "checkpoint"
    if in_one_task:
        sink = stream.coalesce(1).writeStream.format("memwal").option("sequenceBy", "seq")
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(**now).start(str(table))
    else:
        query = memwal_spark.upsert_stream(stream, table, sequence_by="seq", checkpoint=checkpoint, trigger=now)
    query.awaitTermination()


def lose(checkpoint: Path, kind: str, batch: int) -> None:
    """Take the entry of a batch out of a checkpoint: a driver that dies in time leaves none."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / kind / name).unlink(missing_ok=True)


def test_a_batch_that_comes_again_puts_no_entry_though_its_wal_was_collected(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = bucketed(tmp_path / "t")
    add(spark, tmp_path / "source", 100)
    run(spark, tmp_path)
    assert found(tmp_path / "t") == expected(100, 40)
    for region in table.regions():
        table.drain(region.region_id)
    table.gc(retain_versions=1)
    before = table.log_ends()
    lose(tmp_path / "checkpoint", "commits", 0)
    run(spark, tmp_path, in_one_task=True)
    assert table.log_ends() == before
    add(spark, tmp_path / "source", 200)
    run(spark, tmp_path)
    assert found(tmp_path / "t") == expected(200, 40)
    assert table.log_ends() != before


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The task that the process takes itself for."""
    found = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 1)
    for room in (write, streaming):
        monkeypatch.setattr(room, "context", lambda: found)
    return found


def rows(*values: tuple[int, int]) -> pa.Table:
    """Rows of (id, seq)."""
    ids, sequences = zip(*values, strict=True)
    return pa.table([ids, sequences, [f"v{each}" for each in sequences]], schema=SCHEMA)


def put(path: Path, share: pa.Table, batch: int, partition: int = 0, **more: str) -> TaskWritten:
    options = for_writing_streams({"path": str(path), "sequenceBy": "seq", **more})
    mark = Mark(application="query", batch=batch, partitions=(partition,))
    return RegionTask(options).write(memwal.open(path), share, mark)


def one_bucket(path: Path, revision: str = "B") -> memwal.Table:
    return memwal.create(path, SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 1), revision=revision)


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("late_rows", ["drop", "keep"])
def test_a_mark_skips_no_row_that_is_not_stored_however_the_rows_of_a_batch_were_divided(
    tmp_path: Path, late_rows: str
) -> None:
    table = one_bucket(tmp_path / "t")
    # A batch whose region was in two tasks, the second of which failed; then both shares come in one task.
    put(tmp_path / "t", rows((1, 10), (2, 11)), 5, 0, lateRows=late_rows)
    whole = rows((3, 12), (2, 11), (1, 10), (1, 13))
    again = put(tmp_path / "t", whole, 5, lateRows=late_rows)
    assert (again.skipped, again.rows) == (False, 4)
    assert found(tmp_path / "t") == [(1, 13, "v13"), (2, 11, "v11"), (3, 12, "v12")]
    ends = table.log_ends()
    for partition in (0, 7):
        assert put(tmp_path / "t", whole, 5, partition, lateRows=late_rows).skipped
    assert put(tmp_path / "t", rows((3, 12)), 4, lateRows=late_rows).skipped
    assert table.log_ends() == ends


@pytest.mark.usefixtures("task")
def test_rows_come_in_any_order_and_deletes_with_them(tmp_path: Path) -> None:
    one_bucket(tmp_path / "t", "R")
    changes = rows((1, 12), (2, 15), (1, 14), (2, 11)).append_column("gone", pa.array([False, True, True, False]))
    done = put(tmp_path / "t", changes, 0, deleteColumn="gone")
    assert (done.rows, done.deleted, found(tmp_path / "t")) == (4, 2, [])
    # Nothing stands for a deleted key, so that the writer compares; it leaves out all rows.
    again = put(tmp_path / "t", changes, 0, deleteColumn="gone")
    assert (again.skipped, again.late, found(tmp_path / "t")) == (False, 2, [])


ONE = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"region": [ONE, None]}, r"\[MEMWAL_NULL_REGION\] some rows have no region id|\[MEMWAL_TWO_REGIONS\].*None"),
        ({"region": [None, None]}, r"\[MEMWAL_NULL_REGION\] some rows have no region id"),
        ({"region": ["one", "one"]}, r"\[MEMWAL_NO_REGION_ID\] a row has the region id 'one': "),
        ({"region": [7, 7]}, r"\[MEMWAL_NO_REGION_ID\] a row has the region id '7': "),
        ({"id": [1, None]}, r"\[MEMWAL_NULL_KEY\] key column id has NULLs"),
        ({"seq": [1, None]}, r"\[MEMWAL_NULL_SEQUENCE\] column seq has NULLs"),
    ],
)
def test_a_row_without_region_key_or_sequence_is_refused_by_batch_and_stream(
    tmp_path: Path, task: SimpleNamespace, columns: dict[str, list[Any]], said: str
) -> None:
    spec = "region" not in columns
    made = {"id": [1, 2], "seq": [1, 2], "text": ["a", "b"], **({} if spec else {"region": [ONE, ONE]}), **columns}
    share = pa.table(made)
    memwal.create(tmp_path / "t", SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", 2) if spec else None)
    options = {"path": str(tmp_path / "t"), "sequenceBy": "seq", **({} if spec else {"regionColumn": "region"})}
    task.getLocalProperty = {QUERY: "query", BATCH: "1"}.get
    sink = MemWalStreamWriter(options, from_arrow_schema(share.schema), overwrite=False)
    for write_all in (RegionTask(for_writing(options)).run, sink.write):
        with pytest.raises(InvalidArgument, match=said):
            write_all(iter(share.to_batches()))
    assert found(tmp_path / "t") == []


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("limit", [{"flushEveryRows": "4"}, {"flushEveryEntries": "2"}])
def test_what_batches_leave_in_a_region_is_flushed_when_it_is_enough(tmp_path: Path, limit: Mapping[str, str]) -> None:
    one_bucket(tmp_path / "t")
    flushed = [put(tmp_path / "t", rows((1, 2 * n), (2, 2 * n + 1)), n, **limit).generations for n in range(5)]
    assert flushed == [0, 1, 0, 1, 0]
    assert put(tmp_path / "t", rows((1, 8), (2, 9)), 4, **limit).skipped


def test_a_batch_fails_at_its_end_if_a_region_was_in_two_tasks_or_was_claimed_again(tmp_path: Path) -> None:
    table = one_bucket(tmp_path / "t")
    region = str(table.register_region({"b": 0}))
    schema = from_arrow_schema(SCHEMA)
    writer = MemWalStreamWriter({"path": str(tmp_path / "t"), "sequenceBy": "seq"}, schema, overwrite=False)

    def part(epoch: int) -> BatchPart:
        said: dict[str, Any] = dict.fromkeys(TaskWritten.__dataclass_fields__, 0)
        return BatchPart((TaskWritten(**{**said, "region_id": region, "epoch": epoch}),))

    with table.writer(region):
        writer.commit([part(1), BatchPart(())], 3)
        with pytest.raises(InvalidArgument, match=r"\[MEMWAL_TWO_TASKS\] several tasks of batch 3.*route"):
            writer.commit([part(1), part(1)], 3)
    with table.writer(region), pytest.raises(AnotherClaim, match="written under epoch 1, now it is 2"):
        writer.commit([part(1)], 3)


def test_output_mode_complete_and_failing_for_late_rows_are_refused(tmp_path: Path) -> None:
    """Rows of a batch that comes again are late: a query that failed for them would never continue."""
    one_bucket(tmp_path / "t")
    options = {"path": str(tmp_path / "t"), "sequenceBy": "seq"}
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_NO_OVERWRITE\].*outputMode\('append'\)"):
        MemWalStreamWriter(options, from_arrow_schema(SCHEMA), overwrite=True)
    with pytest.raises(InvalidArgument, match=r"\[MEMWAL_OPTION\] option lateRows must be drop or keep in a stream"):
        MemWalStreamWriter(options | {"lateRows": "fail"}, from_arrow_schema(SCHEMA), overwrite=False)


def test_the_programs_of_the_page_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of changes of one table is written into another, of the same name in another folder."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    streams = page[page.index("\n## Streams") :].split("\n## ")[1]
    programs = [part.partition("```")[0] for part in streams.split("```python\n")[1:]]
    assert len(programs) == 2
    there, here = tmp_path / "there", tmp_path / "here"
    table = bucketed(there / "the" / "table")
    for bucket, share in ((0, [(7, 1), (7, 2)]), (1, [(1, 3)])):
        values = table.region_values(rows(*share)).to_pylist()[0]
        assert values["b"] in (0, 1), bucket
        with table.writer(values=values) as writer:
            writer.put(rows(*share))
    names: dict[str, Any] = {"spark": spark}
    monkeypatch.chdir(there)
    exec(programs[1].replace('"the/table"', repr(str(there / "the" / "table"))), names)
    bucketed(here / "the" / "table")
    monkeypatch.chdir(here)
    names["df"] = names["changes"].select("id", "seq", "text")
    exec(programs[0].replace('"the/', f'"{here}/the/'), names)
    assert found(here / "the" / "table") == [(1, 3, "v3"), (7, 2, "v2")]
    shutil.rmtree(here)


@pytest.mark.long
def test_a_hundred_restarts_from_checkpoints_that_were_cut_lose_and_change_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Between them rows come, regions are flushed, merged and collected, and tasks get other rows than before.

    `MEMWAL_STREAM_RESTARTS` and `MEMWAL_STREAM_SEED` let a hundred be run in pieces.
    """
    rng = random.Random(int(os.environ.get("MEMWAL_STREAM_SEED", "0")))
    table = bucketed(tmp_path / "t")
    checkpoint = tmp_path / "checkpoint"
    cuts, last = Counter[str](), 0
    for restart in range(int(os.environ.get("MEMWAL_STREAM_RESTARTS", "100"))):
        for _ in range(rng.choice((0, 1, 1, 2))):
            rows_in_file = rng.randrange(1, 3 * KEYS)
            # Every third file has older sequences than what was written: its rows are late.
            add(spark, tmp_path / "source", max(0, last - 30) if rng.random() < 0.3 else last, rows_in_file)
            last += rows_in_file
        if not (tmp_path / "source").exists():
            add(spark, tmp_path / "source", 0)
            last = 2 * KEYS
        run(spark, tmp_path, in_one_task=rng.random() < 0.3)
        if rng.random() < 0.3:
            for region in table.regions():
                with table.writer(region.region_id) as writer:
                    writer.flush()
            table.merge()
            table.gc(retain_versions=1)
        batches = sorted(int(each.name) for each in (checkpoint / "offsets").iterdir() if each.name.isdecimal())
        kind = rng.choice(("none", "commit", "commit", "commit", "batches"))
        lost = batches[-rng.randrange(1, 4) :] if kind == "batches" else batches[-1:]
        for batch in lost if kind != "none" else []:
            lose(checkpoint, "commits", batch)
            if kind == "batches":
                lose(checkpoint, "offsets", batch)
        cuts[kind] += 1
        if restart % 10 == 9:
            assert found(tmp_path / "t") == oracle(spark, tmp_path / "source"), (restart, cuts)
    assert found(tmp_path / "t") == oracle(spark, tmp_path / "source")
    sys.stdout.write(f"{sum(cuts.values())} restarts, {dict(cuts)}, {table.log_ends()}\n")


def oracle(spark: SparkSession, source: Path) -> list[tuple[int, int, str]]:
    """Spark's own answer: of each key the row with the highest sequence."""
    newest = spark.read.parquet(str(source)).groupBy("id").agg(sf.max(sf.struct("seq", "text")).alias("row"))
    return sorted((row["id"], row["row"]["seq"], row["row"]["text"]) for row in newest.collect())
