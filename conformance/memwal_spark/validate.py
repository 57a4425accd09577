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
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import memwal
from memwal.errors import InvalidArgument
from memwal.revisions import REVISIONS

from . import faults, flights, html, readings, report, runtime
from .faults import Fault, Proof
from .memory import PeakMemory
from .merging import BackgroundMerger, Merged
from .options import Place
from .progress import Progress, Running
from .readings import AFTER, BASE, BEFORE, Folder
from .report import Merging, RegionResult, Report
from .route import route

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSHES = 6
"""About as many times is each region's MemTable flushed while Spark writes."""
FLUSH_ROWS_LEAST = 20

WRITE = "write through Spark"


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
        if self.revision not in REVISIONS:
            raise InvalidArgument(f"unknown revision {self.revision!r}; known are {', '.join(REVISIONS)}")
        if self.regions < 1:
            raise InvalidArgument(f"at least one region is needed, not {self.regions}")


def validate(job: Job, progress: Progress, spark: SparkSession | None = None) -> Report:
    """Run the whole job in ``job.out``, whose earlier results it replaces; writes report.json and report.html there.

    ``spark``: a session that keeps an event log; None starts one and stops it.
    """
    folder = _cleared(job.out)
    with PeakMemory() as memory:
        with progress.phase("derive the change log") as phase:
            log = flights.change_log(job.flights, seed=job.seed)
            flights.write(log, folder.log)
            upserts = phase.rows = log.num_rows
            del log
        own = None
        if spark is None:
            with progress.phase("start Spark"):
                spark = own = runtime.session("memwal validate", job.cores, event_log=folder.event_log)
        try:
            found = _run(job, folder, upserts, progress, spark, memory)
        finally:
            if own is not None:
                own.stop()
    _store(found, job.out)
    return found


def compare_again(job: Job, progress: Progress, spark: SparkSession | None = None) -> Report:
    """Compare the table that an earlier run left in ``job.out``, which is not changed; writes the report there."""
    folder = Folder(job.out)
    if not folder.log.is_file() or not folder.table.is_dir():
        raise InvalidArgument(f"{job.out} holds no earlier run: leave out --again")
    with PeakMemory() as memory:
        own = None
        if spark is None:
            with progress.phase("start Spark"):
                spark = own = runtime.session("memwal validate", job.cores)
        try:
            with progress.phase(AFTER) as phase:
                after = phase.rows = readings.merged_read(spark, folder, AFTER)
            with progress.phase(BASE) as phase:
                base = phase.rows = readings.base_read(folder)
            comparisons = readings.compare_all(spark, folder, {AFTER: after, BASE: base}, progress)
            found = Report(
                revision=memwal.open(folder.table).revision.name,
                seed=job.seed,
                flights=comparisons[0].expected.rows,
                upserts=spark.read.parquet(str(folder.log)).count(),
                comparisons=comparisons,
                phases=progress.phases,
                peak_memory_bytes=memory.peak_bytes,
                versions=_versions(spark),
            )
        finally:
            if own is not None:
                own.stop()
    _store(found, job.out)
    return found


def _run(
    job: Job, folder: Folder, upserts: int, progress: Progress, spark: SparkSession, memory: PeakMemory
) -> Report:
    plan = planned(job, upserts) if job.fault else ()
    with progress.phase("create the table"):
        memwal.create(
            folder.table, flights.SCHEMA, primary_key=flights.KEY, revision=job.revision, spec=_spec(job)
        )
    group = f"memwal validate {secrets.token_hex(4)}"
    with progress.phase(WRITE) as phase:
        phase.rows = upserts
        merged = _write(job, folder, upserts, plan, group, spark, phase)
    with progress.phase("flush what is left in the WAL"):
        _flush_all(folder)
    unmerged = _unmerged(folder)
    with progress.phase(BEFORE) as phase:
        before = phase.rows = readings.merged_read(spark, folder, BEFORE)
    with progress.phase("merge the rest") as phase:
        phase.rows = memwal.open(folder.table).merge().rows
    with progress.phase("collect garbage"):
        memwal.open(folder.table).gc(retain_versions=1)
    with progress.phase(AFTER) as phase:
        after = phase.rows = readings.merged_read(spark, folder, AFTER)
    with progress.phase(BASE) as phase:
        base = phase.rows = readings.base_read(folder)
    comparisons = readings.compare_all(spark, folder, {BEFORE: before, AFTER: after, BASE: base}, progress)
    proofs: tuple[Proof, ...] = ()
    if plan:
        with progress.phase("look the planned faults up"):
            faults.flush_event_log(spark)
            proofs = faults.prove(_event_log(spark), group, plan)
    return Report(
        revision=job.revision,
        seed=job.seed,
        flights=comparisons[0].expected.rows,
        upserts=upserts,
        comparisons=comparisons,
        phases=progress.phases,
        faults=proofs,
        regions=_region_results(folder),
        meanwhile=Merging(
            passes=merged.passes, generations=merged.generations, rows=merged.rows, conflicts=merged.conflicts
        ),
        unmerged_scanned=unmerged,
        peak_memory_bytes=memory.peak_bytes,
        versions=_versions(spark),
    )


def planned(job: Job, upserts: int) -> tuple[Fault, ...]:
    """One task that fails with an exception and, with two regions or more, one whose process is killed."""
    flush = _flush_rows(job, upserts)
    tasks = random.Random(job.seed).sample(range(job.regions), min(2, job.regions))
    kinds: tuple[faults.Kind, ...] = ("raise", "kill")
    return tuple(
        Fault(kind=kind, partition=task, rows=flush + flush // 2, puts=3)
        for kind, task in zip(kinds, tasks, strict=False)
    )


def _flush_rows(job: Job, upserts: int) -> int:
    return max(FLUSH_ROWS_LEAST, upserts // (job.regions * FLUSHES))


def _spec(job: Job) -> memwal.index.transforms.SpecRequest:
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
    phase: Running,
) -> Merged:
    spark.dataSource.register(faults.SourceWithFaults)
    log = spark.read.parquet(str(folder.log))
    routed = route(log, Place(path=str(folder.table)), sequence_by=flights.SEQUENCE)
    writer = routed.write.format(faults.FORMAT if plan else "memwal").mode("append")
    if plan:
        writer = writer.option(faults.PLAN, faults.plan_json(plan))
    writer = writer.options(
        sequenceBy=flights.SEQUENCE,
        numRegions=job.regions,
        flushEveryRows=_flush_rows(job, upserts),
        reportPath=str(folder.written.resolve()),
    )

    def tell(merged: Merged) -> None:
        phase.tell(f"{merged.generations:,} generations with {merged.rows:,} rows merged meanwhile")

    spark.sparkContext.setJobGroup(group, "write the change log")
    with BackgroundMerger(str(folder.table), tell) as merger:
        writer.save(str(folder.table))
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
    tasks = {task["region_id"]: task for task in json.loads(folder.written.read_text())["tasks"]}
    results = []
    for region in memwal.open(folder.table).regions():
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
    return tuple(sorted(results, key=lambda result: tuple(value or "" for value in result.values.values())))


def _event_log(spark: SparkSession) -> Path:
    address = spark.sparkContext.getConf().get("spark.eventLog.dir")
    if address is None:
        raise InvalidArgument("[MEMWAL_NO_EVENT_LOG] the session keeps no event log, so no fault can be proved")
    return Path(address.removeprefix("file://"))


def _versions(spark: SparkSession) -> dict[str, str]:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a running session has a JVM"
    packages = {name: metadata.version(name) for name in ("pyspark", "pyarrow", "pylance")}
    return {"Python": platform.python_version(), "Java": jvm.System.getProperty("java.version"), **packages}


def _cleared(out: Path) -> Folder:
    """``out`` without what an earlier run left there."""
    folder = Folder(out)
    for path in (folder.table, folder.event_log, folder.root / "readings"):
        shutil.rmtree(path, ignore_errors=True)
    for path in (folder.log, folder.written, out / "report.json", out / "report.html"):
        path.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    return folder


def _store(found: Report, out: Path) -> None:
    report.write_json(found, out / "report.json")
    html.write_html(found, out / "report.html")
