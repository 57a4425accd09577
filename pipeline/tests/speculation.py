"""Jobs under real speculation on a standalone cluster: an original attempt that returns late, a copy that is killed.

    python pipeline/tests/speculation.py --runs 20

Of each run it says how many rows differ from Spark's own answer, and it counts a run only if Spark's event log shows
that a speculative copy ran and was killed, failed, or was the one that won. What a run does is planned by `Planned`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import memwal
import pyarrow as pa
from memwal.errors import MemwalError
from memwal_spark import cluster, runtime, upserting
from memwal_spark.errors import said, sentence
from memwal_spark.oracle import last_rows
from memwal_spark.proofs import flush_event_log
from memwal_spark.route import route
from memwal_spark.source import AnotherClaim, MemWalWriter
from memwal_spark.write import RegionTask, TaskWritten
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from memwal_spark.options import WriteOptions
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Done = TypeVar("Done")

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("seq", pa.int64(), False), ("text", pa.string())])
KEYS, ROUNDS, REGIONS = 20_000, 3, 4
WAIT_S = 150.0
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.75",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.python.task.killTimeout": "200ms",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "6000",
    "spark.sql.shuffle.partitions": str(REGIONS),
}


class Planned(DataSource):
    """The data source `memwal`, one of whose tasks is run twice by Spark.

    Its original attempt puts all rows, and returns only once the copy has put its first batch. The copy, which Spark
    starts elsewhere because the original is slow, claims when the original has put everything, puts its first batch,
    and then does nothing more until Spark kills it. A copy that finds the task finished returns at once, and wins; one
    whose first batch is refused fails, and the original returns then.
    """

    @classmethod
    def name(cls) -> str:
        return "memwal_planned"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = {name: value for name, value in self.options.items() if name.lower() not in ("meeting", "batch")}
        inner = MemWalWriter(options, schema, overwrite=overwrite)
        if "batch" in self.options:
            inner._options = replace(inner._options, batch=("job", int(self.options["batch"])))
        return _Writer(inner, Path(self.options["meeting"]))


class _Writer(DataSourceArrowWriter):
    def __init__(self, inner: MemWalWriter, folder: Path) -> None:
        self._inner, self._folder = inner, folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return planned(self._folder, self._inner.write, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


class PlannedTask:
    """A task of `memwal_spark.upsert`, one of which is run twice by Spark, as `Planned` says."""

    def __init__(self, folder: Path, options: WriteOptions) -> None:
        self._folder, self._options = folder, options

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
        return planned(self._folder, RegionTask(self._options).run, batches)


def planned(folder: Path, write: Callable[[Iterator[pa.RecordBatch]], Done], batches: Iterator[pa.RecordBatch]) -> Done:
    """``write`` the ``batches`` of a task as `Planned` says; attempts meet in ``folder``."""
    context = TaskContext.get()
    if context.partitionId() != 1:
        return write(batches)
    if context.attemptNumber() == 0:
        done = write(batches)
        _say(folder, "original", asdict(done))
        _wait(folder, "copy")
        return done
    _wait(folder, "original")
    try:
        done = write(_first(folder, batches))
    except (MemwalError, PySparkException) as refused:
        _say(folder, "done", {"refused": sentence(refused) if isinstance(refused, MemwalError) else said(refused)})
        _say(folder, "copy", None)
        raise
    _say(folder, "done", asdict(done))
    return done


def _first(folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield next(batches)
    _say(folder, "copy", None)
    time.sleep(WAIT_S)


def _say(folder: Path, what: str, done: dict[str, Any] | None) -> None:
    (folder / f"{what}.new").write_text(json.dumps(done))
    (folder / f"{what}.new").rename(folder / what)


def _wait(folder: Path, what: str) -> None:
    ends = time.monotonic() + WAIT_S
    while not (folder / what).exists():
        if time.monotonic() > ends:
            raise RuntimeError(f"nobody has said {what}")
        time.sleep(0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run did."""

    way: str
    happened: str
    """How the event log says that the first speculative copy ended: ``killed``, ``won``, ``failed``; or ``none``."""
    failure: str
    """With what the job failed; empty if it did not."""
    entries: tuple[int, int]
    """WAL entries of the region when the original attempt had returned, and in the end: barriers of claims too."""
    original: dict[str, Any]
    """What the original attempt reported."""
    copy: dict[str, Any] | None
    """What the copy reported, if it came so far; ``refused``: the error with which it failed."""
    differing: int
    """Rows that are not what Spark says that they should be."""
    seconds: float


WAYS: dict[str, dict[str, str]] = {
    "drop": {"lateRows": "drop"},
    "mark": {"lateRows": "drop", "batch": "1"},
    "keep": {"lateRows": "keep"},
    "fail": {"lateRows": "fail"},
    "call": {},
}
"""Options of the format; `CALL` is a call of `memwal_spark.upsert` that names no batch."""
CALL = "call"


def log_of(spark: SparkSession) -> DataFrame:
    numbered = spark.range(0, KEYS * ROUNDS, numPartitions=REGIONS)
    frame = numbered.select((sf.col("id") % KEYS).alias("id"), sf.col("id").alias("seq"))
    return frame.withColumn("text", sf.concat(sf.lit("v"), "seq"))


def rows(table: pa.Table) -> set[tuple[Any, ...]]:
    return set(zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def differing(wanted: set[tuple[Any, ...]], stored: pa.Table) -> int:
    """How many wanted rows are not stored, and by how many rows the table has too few or too many."""
    return len(wanted - rows(stored)) + abs(stored.num_rows - len(wanted))


def wanted_rows(spark: SparkSession) -> set[tuple[Any, ...]]:
    """What Spark says that the table should hold."""
    return rows(last_rows(log_of(spark), ["id"], "seq").toArrow())


def run(spark: SparkSession, folder: Path, way: str, event_log: Path, wanted: set[tuple[Any, ...]]) -> Run:
    """One job; the table and what attempts say to each other are in ``folder``."""
    started = time.monotonic()
    folder.mkdir()
    path = folder / "table"
    table = memwal.create(path, SCHEMA, primary_key=["id"], spec=memwal.bucket("b", "id", REGIONS))
    log, group, failure = log_of(spark), f"{way} {folder.name}", ""
    spark.sparkContext.setJobGroup(group, group)
    try:
        if way == CALL:
            upserting.RegionTask = partial(PlannedTask, folder)  # type: ignore[assignment,misc]
            upserting.upsert(log, path, sequence_by="seq")
        else:
            writer = route(log, table, sequence_by="seq").write.format(Planned.name())
            writer.options(sequenceBy="seq", meeting=str(folder), **WAYS[way]).mode("append").save(str(path))
    except (PySparkException, AnotherClaim) as failed:
        failure = str(failed)
    happened = _until(lambda: end_of_copy(spark, event_log, group))
    told = {name: json.loads((folder / name).read_text()) for name in ("original", "done") if (folder / name).exists()}
    stored = memwal.open(path).scan()
    original = told["original"]
    return Run(
        way=way,
        happened=happened,
        failure=failure,
        entries=(original["position"], last_position(path, original["region_id"])),
        original=original,
        copy=told.get("done"),
        differing=differing(wanted, stored),
        seconds=round(time.monotonic() - started, 1),
    )


def last_position(path: Path, region: str) -> int:
    """The highest position in the region's WAL; names of entries are numbers with their bits reversed."""
    names = [file.stem for file in (path / "_mem_wal" / region / "wal").iterdir() if file.suffix]
    return max(int(name[::-1], 2) for name in names)


def _until(asked: Callable[[], str]) -> str:
    """The first answer other than none; or that, after some time."""
    ends = time.monotonic() + 30
    while (found := asked()) == "none" and time.monotonic() < ends:
        time.sleep(0.2)
    return found


def end_of_copy(spark: SparkSession, event_log: Path, group: str) -> str:
    """What became of the speculative copy of task 1 in the jobs of ``group``."""
    # Spark writes its log out when a job or stage ends, and the copy may end after those of its own job.
    spark.range(1).count()
    flush_event_log(spark)
    (file,) = (each for each in event_log.iterdir() if each.is_file() and not each.name.startswith("."))
    stage: int | None = None
    for line in file.read_text("utf-8").splitlines(keepends=True):
        event = json.loads(line) if line.endswith("\n") else {"Event": ""}
        if event["Event"] == "SparkListenerJobStart" and event["Properties"].get("spark.jobGroup.id") == group:
            # The first job is the write, and its last stage has the tasks that write.
            stage = max(event["Stage IDs"]) if stage is None else stage
        if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] == stage:
            info, reason = event["Task Info"], event["Task End Reason"]
            if info["Speculative"] and info["Partition ID"] == 1:
                if reason["Reason"] == "Success":
                    return "won"
                return "killed" if reason["Reason"] == "TaskKilled" else "failed"
    return "none"


def right(done: Run) -> bool:
    """Whether a run is what its way is to show, with the planned fault seen in the event log."""
    claimed = "MEMWAL_ANOTHER_CLAIM" in done.failure and done.happened == "killed"
    if done.way == "drop":
        return claimed and done.differing == 0
    if done.way == "fail":
        # The original returns as soon as the copy is refused, so that Spark hears of either first.
        refused = done.copy is not None and "[MEMWAL_LATE_ROW]" in done.copy.get("refused", "")
        ended = done.happened in ("failed", "killed")
        return "MEMWAL_ANOTHER_CLAIM" in done.failure and ended and refused and done.differing == 0
    if done.way in ("mark", CALL):
        skipped = done.copy is not None and done.copy.get("skipped") and done.entries[0] == done.entries[1]
        return not done.failure and done.happened == "won" and bool(skipped) and done.differing == 0
    return claimed and done.differing > 0


def main() -> int:
    """Run what the command line says on a cluster; exit code 0 if each run was right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="of each way")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--json", type=Path, help="file that receives one line for each run")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="speculation-"))
    found: list[Run] = []
    try:
        with cluster.standalone(
            folder / "cluster", cores=2, lifetime_s=300.0 + 100.0 * asked.runs * len(asked.ways)
        ) as made:
            conf = {**made.conf, **SETTINGS}
            with runtime.running("speculation", event_log=folder / "log", conf=conf) as spark:
                spark.dataSource.register(Planned)
                wanted = wanted_rows(spark)
                for number in range(asked.runs):
                    for way in asked.ways:
                        found.append(run(spark, folder / f"{way}{number}", way, folder / "log", wanted))
                        shown = {**asdict(found[-1]), "right": right(found[-1])}
                        sys.stdout.write(json.dumps(shown) + "\n")
                        if asked.json:
                            with asked.json.open("a") as file:
                                file.write(json.dumps(shown) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for way in asked.ways:
        of_way = [each for each in found if each.way == way]
        sys.stderr.write(f"{way}: {sum(map(right, of_way))} of {len(of_way)} right\n")
    return int(not all(map(right, found)))


if __name__ == "__main__":
    raise SystemExit(main())
