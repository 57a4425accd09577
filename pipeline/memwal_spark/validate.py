"""The validation job: a million real upserts through Spark and the engine, compared with Spark's own answer.

Spark partitions the change log of `memwal_spark.flights` by region and writes it, while a merger works in the driver.
Tasks fail on purpose in the middle of their work and are run again by Spark. Afterwards the merged read (before and
after the rest is merged and collected) and the base table as pylance reads it are compared with the last row of each
key, row by row.
"""

from __future__ import annotations

import json
import platform
import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import memwal
from memwal.errors import InvalidArgument, check_name
from memwal.index.transforms import SpecRequest
from memwal.revisions import REVISIONS

from . import faults, flights, html, readings, report, runtime
from .faults import Fault, Proof
from .folder import Folder
from .memory import PeakMemory
from .merging import BackgroundMerger, MergerProgress
from .options import TableOption
from .oracle import OracleComparison
from .progress import PhaseProgress, RunningPhase
from .report import AFTER, BASE, BEFORE, WRITE, JobReport, MergerReport, RegionResult
from .route import route

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSHES = 5.5
"""MemTable flushes of a region while Spark writes, on average; the half leaves rows in the WAL for the final flush."""
FLUSH_ROWS_LEAST = 20

BATCH_ROWS_MOST = 10_000
"""Rows of one put, and so of one WAL entry, at most; Spark's own default."""
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be validated."""

    out: Path
    revision: str = "B"
    regions: int = 8
    flights: int | None = None
    """Number of flights; None takes all."""
    fault: bool = True
    seed: int = 0
    cores: int = 2

    def __post_init__(self) -> None:
        check_name("revision", self.revision, REVISIONS)
        if self.regions < 1:
            raise InvalidArgument(f"at least one region is needed, not {self.regions}")


def validate(job: Job, progress: PhaseProgress) -> JobReport:
    """Run the whole job in ``job.out``, whose earlier results it replaces; writes report.json and report.html there.

    A session that is running already is used, and has to keep an event log; else one is started and stopped.
    """
    folder = Folder(job.out.resolve())
    folder.clear()
    with PeakMemory() as memory:
        with progress.phase("derive the change log") as phase:
            log = flights.change_log(job.flights, seed=job.seed)
            flights.write(log, folder.log)
            upserts = phase.rows = log.num_rows
            del log
        with _started(job, progress, folder.event_log) as spark:
            found = _run(job, folder, upserts, progress, spark, memory)
    _store(found, folder)
    return found


def compare_again(job: Job, progress: PhaseProgress) -> JobReport:
    """Compare the table that an earlier run left in ``job.out``, which is not changed; writes the report there."""
    folder = Folder(job.out.resolve())
    if not folder.log.is_file() or not folder.table.is_dir():
        raise InvalidArgument(f"{job.out} holds no earlier run: leave out --again")
    with PeakMemory() as memory, _started(job, progress, None) as spark:
        comparisons = _read_and_compare(spark, folder, progress)
        found = JobReport(
            revision=memwal.open(folder.table).revision.name,
            seed=job.seed,
            flights=comparisons[0].expected.rows,
            upserts=spark.read.parquet(str(folder.log)).count(),
            comparisons=comparisons,
            phases=progress.phases,
            peak_memory_bytes=memory.peak_bytes,
            versions=_versions(spark),
        )
    _store(found, folder)
    return found


@contextmanager
def _started(job: Job, progress: PhaseProgress, event_log: Path | None) -> Iterator[SparkSession]:
    with ExitStack() as stack:
        with progress.phase("start Spark"):
            spark = stack.enter_context(runtime.running("memwal spark validate", job.cores, event_log=event_log))
        yield spark


def _run(
    job: Job, folder: Folder, upserts: int, progress: PhaseProgress, spark: SparkSession, memory: PeakMemory
) -> JobReport:
    plan = planned(job, folder, upserts) if job.fault else ()
    with progress.phase("create the table"):
        memwal.create(folder.table, flights.SCHEMA, primary_key=flights.KEY, revision=job.revision, spec=_spec(job))
    group = f"memwal spark validate {secrets.token_hex(4)}"
    with progress.phase(WRITE) as phase:
        phase.rows = upserts
        merged = _write(job, folder, upserts, plan, group, spark, phase)
    with progress.phase("flush what is left in the WAL"):
        _flush_all(folder)
    unmerged = _unmerged(folder)
    with progress.phase(BEFORE) as phase:
        rows = readings.engine_read(folder)
        phase.rows = rows.num_rows
    readings.store(rows, folder, BEFORE)
    del rows
    with progress.phase("merge the rest") as phase:
        phase.rows = memwal.open(folder.table).merge().rows
    with progress.phase("collect garbage"):
        collection = memwal.open(folder.table).gc(retain_versions=1)
    comparisons = _read_and_compare(spark, folder, progress, BEFORE)
    proofs: tuple[Proof, ...] = ()
    if plan:
        with progress.phase("look the planned faults up"):
            faults.flush_event_log(spark)
            proofs = faults.prove(_event_log(spark), group, plan, _tasks(folder))
    return JobReport(
        revision=job.revision,
        seed=job.seed,
        flights=comparisons[0].expected.rows,
        upserts=upserts,
        comparisons=comparisons,
        phases=progress.phases,
        faults=proofs,
        regions=_region_results(folder),
        meanwhile=MergerReport(
            passes=merged.passes, generations=merged.generations, rows=merged.rows, conflicts=merged.conflicts
        ),
        unmerged_scanned=unmerged,
        collected=sum(decision.kind == "generation" for decision in collection.collected),
        peak_memory_bytes=memory.peak_bytes,
        versions=_versions(spark),
    )


def _read_and_compare(
    spark: SparkSession, folder: Folder, progress: PhaseProgress, *stored: str
) -> tuple[OracleComparison, ...]:
    """Read the table as it is now in both ways, and compare that and the readings stored earlier."""
    with progress.phase(AFTER) as phase:
        phase.rows = readings.spark_read(spark, folder)
    with progress.phase(BASE) as phase:
        phase.rows = readings.base_read(folder)
    return readings.compare_all(spark, folder, [*stored, AFTER, BASE], progress)


def planned(job: Job, folder: Folder, upserts: int) -> tuple[Fault, ...]:
    """One task that fails with an exception and, with two regions or more, one whose process is killed."""
    flush = _flush_rows(job, upserts)
    tasks = random.Random(job.seed).sample(range(job.regions), min(2, job.regions))
    kinds: tuple[faults.Kind, ...] = ("raise", "kill")
    return tuple(
        Fault(
            kind=kind,
            partition=task,
            rows=flush + flush // 2,
            puts=3,
            evidence=str(folder.evidence.resolve() / f"task-{task}.json"),
        )
        for kind, task in zip(kinds, tasks, strict=False)
    )


def _flush_rows(job: Job, upserts: int) -> int:
    """Rows after which a MemTable is flushed: an even number, so that two puts of half of it reach it."""
    return max(FLUSH_ROWS_LEAST, int(upserts / (job.regions * FLUSHES)) // 2 * 2)


def _spec(job: Job) -> SpecRequest:
    """Buckets of the whole key; R hashes one column only, and takes the flight number."""
    columns = ["flight"] if job.revision == "R" else list(flights.KEY)
    return memwal.bucket("bucket", columns, job.regions)


def _write(
    job: Job,
    folder: Folder,
    upserts: int,
    plan: Sequence[Fault],
    group: str,
    spark: SparkSession,
    phase: RunningPhase,
) -> MergerProgress:
    flush = _flush_rows(job, upserts)
    spark.dataSource.register(faults.SourceWithFaults)
    log = spark.read.parquet(str(folder.log))
    routed = route(log, TableOption(path=str(folder.table)), sequence_by=flights.SEQUENCE)
    writer = routed.write.format(faults.FORMAT if plan else "memwal").mode("append")
    if plan:
        writer = writer.option(faults.PLAN, faults.plan_json(plan))
    writer = writer.options(
        sequenceBy=flights.SEQUENCE,
        numRegions=job.regions,
        flushEveryRows=flush,
        reportPath=str(folder.written.resolve()),
    )

    def tell(merged: MergerProgress) -> None:
        phase.tell(f"{merged.generations:,} generations with {merged.rows:,} rows merged meanwhile")

    spark.sparkContext.setJobGroup(group, "write the change log")
    spark.conf.set(_BATCH_ROWS, min(BATCH_ROWS_MOST, flush // 2))
    try:
        with BackgroundMerger(str(folder.table), tell) as merger:
            writer.save(str(folder.table))
    finally:
        spark.conf.unset(_BATCH_ROWS)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    return merger.merged


def _flush_all(folder: Folder) -> None:
    table = memwal.open(folder.table)
    for region in table.regions():
        with table.writer(region.region_id) as writer:
            writer.flush()


def _unmerged(folder: Folder) -> int:
    """Generations that a merged read has to merge in memory now."""
    return sum(
        sum(generation.generation > region.merged for generation in region.manifest.flushed)
        for region in memwal.open(folder.table).regions()
        if region.manifest is not None
    )


def _region_results(folder: Folder) -> tuple[RegionResult, ...]:
    tasks = {task["region_id"]: task for task in _tasks(folder)}
    results = []
    for region in sorted(memwal.open(folder.table).regions(), key=lambda region: tuple(region.values.values())):
        task = tasks[str(region.region_id)]
        assert region.manifest is not None, "a region that a task wrote has a manifest"
        results.append(
            RegionResult(
                region_id=str(region.region_id),
                values={name: None if value is None else str(value) for name, value in region.values.items()},
                rows=task["rows"],
                puts=task["puts"],
                epoch=region.manifest.epoch,
                generations=region.manifest.generation_current - 1,
                merged=region.merged,
                attempts=task["attempt"] + 1,
            )
        )
    return tuple(results)


def _tasks(folder: Folder) -> list[dict[str, Any]]:
    """What the tasks of the write reported; see `memwal_spark.write.TaskWritten`."""
    tasks: list[dict[str, Any]] = json.loads(folder.written.read_text())["tasks"]
    return tasks


def _event_log(spark: SparkSession) -> Path:
    address = spark.sparkContext.getConf().get("spark.eventLog.dir")
    if address is None:
        raise InvalidArgument("[MEMWAL_NO_EVENT_LOG] the session keeps no event log, so no fault can be proved")
    return Path(unquote(urlsplit(address).path))


def _versions(spark: SparkSession) -> dict[str, str]:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a running session has a JVM"
    packages = {name: metadata.version(name) for name in ("pyspark", "pyarrow", "pylance")}
    return {"Python": platform.python_version(), "Java": jvm.System.getProperty("java.version"), **packages}


def _store(found: JobReport, folder: Folder) -> None:
    report.write_json(found, folder.report_json)
    html.write_html(found, folder.report_html)
