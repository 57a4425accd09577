"""The Spark jobs of a validation that write its change log, and the faults that are planned for one of them."""

from __future__ import annotations

import json
import random
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import memwal
from pyspark.sql import functions as sf

from . import faults, watching
from .change_log import ChangeLog
from .faults import Fault
from .folder import Folder
from .foreign import ForeignWriter
from .options import TableOption
from .route import region_of, route
from .watching import WatchedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLUSHES = 5.5
"""MemTable flushes of a region while Spark writes, on average; the half leaves rows in the WAL for the final flush."""
FLUSH_ROWS_LEAST = 20

BATCH_ROWS_MOST = 10_000
"""Rows of one put, and so of one WAL entry, at most; Spark's own default."""
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWrites:
    """The writes of a log: a job for each of its batches."""

    folder: Folder
    log: ChangeLog
    regions: int
    jobs: Sequence[DataFrame]
    plan: tuple[Fault, ...]
    struck: int
    """Number of the job for which the faults are planned."""
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
        seed: int,
        fault: bool,
        writer: ForeignWriter | None = None,
    ) -> LogWrites:
        """Divide the stored log into jobs, and choose tasks that fail if ``fault``."""
        rows = spark.read.parquet(str(folder.log))
        watching.watch(log, rows, folder.watched)
        jobs = log.jobs(rows)
        plan: tuple[Fault, ...] = ()
        struck = 0
        if fault:
            counts = [_rows_of_regions(job, folder) for job in jobs]
            struck = max(range(len(jobs)), key=lambda number: max(counts[number].values(), default=0))
            plan = planned(seed, counts[struck] if counts else {}, flush_rows(log.rows, regions), folder)
        return cls(folder=folder, log=log, regions=regions, jobs=jobs, plan=plan, struck=struck, writer=writer)

    @property
    def rows(self) -> WatchedRows:
        """The rows of which histories are kept."""
        return WatchedRows(
            file=str(self.folder.watched),
            folder=str(self.folder.notes),
            key=self.log.key,
            sequence=self.log.sequence,
        )

    def run(self, spark: SparkSession, number: int) -> None:
        """Run job ``number``; returns when all its rows are durable."""
        flush = flush_rows(self.log.rows, self.regions)
        path = str(self.folder.table)
        routed = route(self.jobs[number], TableOption(path=path), sequence_by=self.log.sequence)
        struck = self.plan if number == self.struck else ()
        options = {
            "sequenceBy": self.log.sequence,
            "numRegions": self.regions,
            "flushEveryRows": flush,
            "reportPath": str(self._written(number).resolve()),
            faults.PLAN: faults.plan_json(struck),
            faults.WATCH: json.dumps(asdict(self.rows)),
            **({faults.FOREIGN: json.dumps(asdict(self.writer))} if self.writer is not None else {}),
            **({"deleteColumn": self.log.delete} if self.log.delete is not None else {}),
        }
        spark.dataSource.register(faults.SourceWithFaults)
        spark.sparkContext.setJobGroup(self._group(number), f"write job {number} of the change log")
        spark.conf.set(_BATCH_ROWS, min(BATCH_ROWS_MOST, flush // 2))
        try:
            routed.write.format(faults.FORMAT).mode("append").options(**options).save(path)
        finally:
            spark.conf.unset(_BATCH_ROWS)
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

    def proofs(self, spark: SparkSession) -> tuple[faults.Proof, ...]:
        """Whether the planned faults happened."""
        faults.flush_event_log(spark)
        return faults.prove(faults.event_log(spark), self._group(self.struck), self.plan, self._tasks(self.struck))

    def tasks(self) -> dict[str, list[dict[str, Any]]]:
        """Region -> what its successful tasks reported, job by job; see `memwal_spark.write.TaskWritten`."""
        found = defaultdict(list)
        for number in range(len(self.jobs)):
            for task in self._tasks(number):
                if task["region_id"] is not None:
                    found[task["region_id"]].append({"job": number, **task})
        return found

    def _tasks(self, number: int) -> list[dict[str, Any]]:
        written = self._written(number)
        tasks: list[dict[str, Any]] = json.loads(written.read_text())["tasks"] if written.is_file() else []
        return tasks

    def _written(self, number: int) -> Any:
        return self.folder.written / f"job-{number}.json"

    def _group(self, number: int) -> str:
        return f"{self.group} {number}"


def flush_rows(rows: int, regions: int) -> int:
    """Rows after which a MemTable is flushed: an even number, so that two puts of half of it reach it."""
    return max(FLUSH_ROWS_LEAST, int(rows / (regions * FLUSHES)) // 2 * 2)


def planned(seed: int, rows: Mapping[int, int], flush: int, folder: Folder) -> tuple[Fault, ...]:
    """One task that fails with an exception and, where two have rows enough, one whose process is killed.

    ``rows``: of each task. It is struck anywhere between its first flush and its last rows, so that what its second
    attempt gives again is older than what readers saw. If none has rows enough the largest is planned for in vain.
    """
    least, chance = flush + flush // 2, random.Random(seed)
    enough = sorted(task for task, count in rows.items() if count > least)
    tasks = chance.sample(enough, min(2, len(enough))) or [max(rows, key=lambda task: rows[task], default=0)]
    kinds: tuple[faults.Kind, ...] = ("raise", "kill")
    return tuple(
        Fault(
            kind=kind,
            partition=task,
            rows=chance.randrange(least, max(least + 1, rows.get(task, 0))),
            puts=3,
            evidence=str(folder.evidence.resolve() / f"task-{task}.json"),
        )
        for kind, task in zip(kinds, tasks, strict=False)
    )


def _rows_of_regions(job: DataFrame, folder: Folder) -> dict[int, int]:
    """Rows of each bucket, which is the number of its task."""
    region = region_of(job, memwal.open(folder.table))
    return {
        row["region"]: row["count"]
        for row in job.select(region.alias("region"))
        .groupBy("region")
        .agg(sf.count(sf.lit(1)).alias("count"))
        .collect()
    }
