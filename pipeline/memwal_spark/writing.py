"""The Spark jobs of a validation that write its change log, and the faults that are planned for them."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
import pyarrow.compute as pc
import pyarrow.parquet as pq
from memwal.region.sequences import LateRows
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from . import faults, proofs, watching
from .change_log import ChangeLog
from .errors import said
from .faults import Fault
from .folder import Folder
from .foreign import ForeignWriter
from .options import TableOption
from .proofs import TaskAttempt
from .route import region_of, route
from .striking import FOREIGN, FORMAT, STRIKES, WATCH, SourceWithFaults, Strikes
from .watching import WatchedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSHES = 5.5
"""MemTable flushes of a region while Spark writes, on average; the half leaves rows in the WAL for the final flush."""
FLUSHES_OF_JOB = 2.5
"""The same of a region and job, where faults need several jobs."""
FLUSH_ROWS_LEAST = 20

BATCH_ROWS_MOST = 10_000
"""Rows of one put, and so of one WAL entry, at most; Spark's own default."""
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_JOB = "__memwal_job"
_ANOTHER = "[MEMWAL_ANOTHER_CLAIM]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWrites:
    """The writes of a log: a job for each of its batches, or for parts of them where faults need more jobs."""

    folder: Folder
    log: ChangeLog
    regions: int
    jobs: Sequence[DataFrame]
    flush: int
    """Rows after which a task flushes its MemTable."""
    plan: tuple[Fault, ...] = ()
    late_rows: LateRows = "drop"
    writer: ForeignWriter | None = None
    """The implementation that writes; None: the engine."""
    group: str = field(default_factory=lambda: f"memwal spark validate {secrets.token_hex(4)}")

    @classmethod
    def plan_for(
        cls,
        spark: SparkSession,
        folder: Folder,
        log: ChangeLog,
        *,
        regions: int,
        kinds: Sequence[str] = (),
        seed: int = 0,
        late_rows: LateRows = "drop",
        writer: ForeignWriter | None = None,
    ) -> LogWrites:
        """Divide the stored log into jobs, and draw what the faults of ``kinds`` strike by ``seed``."""
        rows = spark.read.parquet(str(folder.log))
        watching.watch(log, rows, folder.watched)
        jobs = log.jobs(rows)
        flushes = FLUSHES
        if faults.needs_cluster(kinds):
            jobs = _stored(spark, folder, log, jobs, faults.jobs_needed(kinds))
            flushes = max(FLUSHES, FLUSHES_OF_JOB * len(jobs))
        flush = flush_rows(log.rows, regions, flushes)
        plan: tuple[Fault, ...] = ()
        if kinds:
            counts = _rows_of_regions(jobs, folder)
            plan = faults.planned(kinds, seed, counts, flush, folder.evidence.resolve())
        return cls(
            folder=folder,
            log=log,
            regions=regions,
            jobs=jobs,
            flush=flush,
            plan=plan,
            late_rows=late_rows,
            writer=writer,
        )

    def store(self) -> None:
        """Keep what drivers have to know."""
        names = ("regions", "flush", "late_rows", "group")
        told = {name: getattr(self, name) for name in names} | {"plan": [asdict(fault) for fault in self.plan]}
        writer = None if self.writer is None else asdict(self.writer)
        self.folder.writes.write_text(json.dumps({**told, "jobs": len(self.jobs), "writer": writer}))

    @classmethod
    def load(cls, spark: SparkSession, folder: Folder) -> LogWrites:
        """What `store` kept, in the session of a driver."""
        told: dict[str, Any] = json.loads(folder.writes.read_text())
        plan = tuple(Fault(**fault) for fault in told.pop("plan"))
        jobs = _pieces(spark, folder, told.pop("jobs"))
        writer = told.pop("writer")
        foreign = None if writer is None else ForeignWriter(**{**writer, "command": tuple(writer["command"])})
        log = ChangeLog.load(folder.log_facts)
        return cls(folder=folder, log=log, jobs=jobs, plan=plan, writer=foreign, **told)

    @property
    def rows(self) -> WatchedRows:
        """The rows of which histories are kept."""
        return WatchedRows(
            file=str(self.folder.watched.resolve()),
            folder=str(self.folder.notes.resolve()),
            key=self.log.key,
            sequence=self.log.sequence,
        )

    def planned_for(self, number: int) -> tuple[Fault, ...]:
        """The faults of one job."""
        return tuple(fault for fault in self.plan if fault.job == number)

    def run(self, spark: SparkSession, number: int, strikes: Strikes | None = None) -> str:
        """Run job ``number``; returns when all its rows are durable.

        That is so too where another claim came between, which Spark's own attempts make under speculation: then the
        job fails, and what it said of it is returned.
        """
        path = str(self.folder.table.resolve())
        routed = route(self.jobs[number], TableOption(path=path), sequence_by=self.log.sequence)
        options = {
            **self.options,
            "numRegions": self.regions,
            "reportPath": str(self.written(number).resolve()),
            **({FOREIGN: json.dumps(asdict(self.writer))} if self.writer is not None else {}),
            STRIKES: (strikes or Strikes(faults=self.planned_for(number))).to_json(),
        }
        spark.dataSource.register(SourceWithFaults)
        spark.sparkContext.setJobGroup(self.group_of(number), f"write job {number} of the change log")
        spark.conf.set(_BATCH_ROWS, min(BATCH_ROWS_MOST, self.flush // 2))
        try:
            routed.write.format(FORMAT).mode("append").options(**options).save(path)
        except Exception as failed:
            if _ANOTHER not in said(failed):
                raise
            return said(failed)
        finally:
            spark.conf.unset(_BATCH_ROWS)
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        return ""

    @property
    def options(self) -> dict[str, Any]:
        """Options that jobs and streams have alike."""
        deletes = {"deleteColumn": self.log.delete} if self.log.delete is not None else {}
        watched = {WATCH: json.dumps(asdict(self.rows))}
        late = {"sequenceBy": self.log.sequence, "lateRows": self.late_rows, "flushEveryRows": self.flush}
        return {**late, **deletes, **watched}

    def proofs(self, event_log: Path) -> tuple[proofs.Proof, ...]:
        """Whether the planned faults happened, from the event logs in that folder."""
        return proofs.prove(event_log, self.group_of, self.plan, self._tasks)

    def tasks(self) -> dict[str, list[dict[str, Any]]]:
        """Region -> what its successful tasks reported, job by job; see `memwal_spark.write.TaskWritten`."""
        found = defaultdict(list)
        for number in range(len(self.jobs)):
            for task in self._tasks(number):
                if task["region_id"] is not None:
                    found[task["region_id"]].append({"job": number, **task})
        return found

    def runs(self, event_log: Path) -> list[tuple[str, int, int, TaskAttempt]]:
        """Region (empty if no attempt of its task has told), job, task and attempt, of all that wrote."""
        regions = {(each["job"], each["partition"]): name for name, tasks in self.tasks().items() for each in tasks}
        return [
            (regions.get((number, task), ""), number, task, attempt)
            for number in range(len(self.jobs))
            for task, attempt in proofs.attempts(event_log, self.group_of(number))
        ]

    def _tasks(self, number: int) -> list[dict[str, Any]]:
        file = self.written(number)
        tasks: list[dict[str, Any]] = json.loads(file.read_text())["tasks"] if file.is_file() else []
        return tasks

    def written(self, number: int) -> Path:
        """What the tasks of job ``number`` reported."""
        return self.folder.written / f"job-{number}.json"

    def group_of(self, number: int) -> str:
        """Under which Spark runs job ``number``; the name of its query where it is a stream."""
        return f"{self.group} {number}"


def flush_rows(rows: int, regions: int, flushes: float = FLUSHES) -> int:
    """Rows after which a MemTable is flushed: an even number, so that two puts of half of it reach it."""
    return max(FLUSH_ROWS_LEAST, int(rows / (regions * flushes)) // 2 * 2)


def _stored(
    spark: SparkSession, folder: Folder, log: ChangeLog, jobs: Sequence[DataFrame], needed: int
) -> list[DataFrame]:
    """Store ``needed`` jobs or more, each a part of one of ``jobs`` with the same range of sequences."""
    of_each = -(-needed // len(jobs))
    sequence = sf.col(f"`{log.sequence}`")
    above = [sf.when(sequence >= end, 1).otherwise(0) for end in _quantiles(folder, log, of_each)]
    part = reduce(add, above, sf.lit(0))
    numbered = [job.withColumn(_JOB, sf.lit(number * of_each) + part) for number, job in enumerate(jobs)]
    reduce(DataFrame.unionByName, numbered).write.partitionBy(_JOB).parquet(str(folder.pieces))
    empty = jobs[0].limit(0)
    for number in range(len(jobs) * of_each):
        if not _piece(folder, number).is_dir():
            empty.write.parquet(str(_piece(folder, number)))
    return _pieces(spark, folder, len(jobs) * of_each)


def _pieces(spark: SparkSession, folder: Folder, jobs: int) -> list[DataFrame]:
    schema = spark.read.parquet(str(_piece(folder, 0))).schema
    return [spark.read.schema(schema).parquet(str(_piece(folder, number))) for number in range(jobs)]


def _piece(folder: Folder, number: int) -> Path:
    return folder.pieces / f"{_JOB}={number}"


def _quantiles(folder: Folder, log: ChangeLog, parts: int) -> list[Any]:
    """Sequences that divide the log into parts of like size."""
    sequences = pq.read_table(folder.log, columns=[log.sequence])[log.sequence].combine_chunks()
    order = pc.sort_indices(sequences)
    return [sequences[order[len(order) * part // parts].as_py()].as_py() for part in range(1, parts)]


def _rows_of_regions(jobs: Sequence[DataFrame], folder: Folder) -> list[dict[int, int]]:
    """Of each job the rows of each bucket, which is the number of its task."""
    table = memwal.open(folder.table)
    regions = [
        job.select(sf.lit(number).alias("job"), region_of(job, table).alias("region"))
        for number, job in enumerate(jobs)
    ]
    found: list[dict[int, int]] = [{} for _ in jobs]
    for row in reduce(DataFrame.union, regions).groupBy("job", "region").count().collect():
        found[row["job"]][row["region"]] = row["count"]
    return found
