"""The validation job: a change log through Spark and the engine, compared with Spark's own answer.

Spark partitions the log (`memwal_spark.logs`) by region and writes it, while a merger works in the driver.
Tasks fail on purpose in the middle of their work and are run again by Spark. Afterwards the merged read (before and
after the rest is merged and collected) and the base table as pylance reads it are compared with the last row of each
key, row by row.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memwal
from memwal.errors import InvalidArgument
from memwal.index.transforms import SpecRequest
from memwal.violations import Violation
from memwal.words import counted

from . import drivers, html, jobs, logs, readings, report, runtime, timeline, watching
from .beside import Beside, BesideBuilder, BesideCollector, BesideLooker, BesideReport, make_index
from .change_log import ChangeLog
from .faults import needs_cluster
from .folder import Folder
from .foreign_run import OwnWriter, working_writer
from .job import Job
from .memory import PeakMemory
from .merging import BackgroundMerger, MergerProgress
from .oracle import Fingerprint, OracleComparison
from .progress import PhaseProgress, RunningPhase
from .proofs import Proof, event_log, flush_event_log
from .replaying import ReplayedJob, hash_of, recipe
from .report import AFTER, BASE, BEFORE, ITS_OWN, WRITE, JobReport, MergerReport, RegionResult, VerifyResult
from .timeline import FileRecorder, Timeline
from .watching import KeyReader
from .writing import LogWrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def validate(job: Job, progress: PhaseProgress, replayed: ReplayedJob | None = None) -> JobReport:
    """Run the whole job in ``job.out``, whose earlier results it replaces; writes report.json and report.html there.

    A session that is running already is used, and has to keep an event log; else one is started and stopped.
    ``replayed``: what the job is held to if it is run again; raises InvalidArgument where data or faults differ.
    """
    folder = Folder(job.out.resolve())
    folder.clear()
    with PeakMemory() as memory, _started(job, progress, folder.event_log) as spark:
        with progress.phase("derive the change log") as phase:
            log = logs.make(job.log, spark, job.seed, folder.log)
            log.store(folder.log_facts)
            phase.rows = log.rows
            log_hash = hash_of(spark.read.parquet(str(folder.log)))
            if replayed is not None:
                replayed.check_log(log_hash)
        found = _run(job, folder, log, progress, spark, memory, replayed)
        found = replace(found, job=recipe(job, log_hash))
    _store(found, folder)
    return found


def compare_again(job: Job, progress: PhaseProgress) -> JobReport:
    """Compare the table that an earlier run left in ``job.out``, which is not changed; writes the report there."""
    folder = Folder(job.out.resolve())
    if not folder.log_facts.is_file() or not folder.table.is_dir():
        raise InvalidArgument(f"{job.out} has no earlier run: leave out --again")
    log = ChangeLog.load(folder.log_facts)
    with PeakMemory() as memory, _started(job, progress, None) as spark:
        summary = readings.answer(spark, folder, log, progress)
        comparisons = _read_and_compare(spark, folder, log, summary, progress)
        found = JobReport(
            revision=memwal.open(folder.table).revision.name,
            seed=job.seed,
            log=log.name,
            sequence=log.sequence,
            keys=comparisons[0].expected.rows,
            events=log.rows,
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
    job: Job,
    folder: Folder,
    log: ChangeLog,
    progress: PhaseProgress,
    spark: SparkSession,
    memory: PeakMemory,
    replayed: ReplayedJob | None,
) -> JobReport:
    writer = working_writer(job.writer, job.revision, folder, log, progress)
    with progress.phase("create the table"):
        memwal.create(folder.table, log.schema, primary_key=log.key, revision=job.revision, spec=_spec(job, log))
        indexed = make_index(folder.table)
        writer.prepare([{"bucket": number} for number in range(job.regions)])
    writer.ask_regions()
    writes = _plan(job, folder, log, writer, spark, replayed)
    recorder = FileRecorder(folder.table)
    with progress.phase(WRITE) as phase:
        phase.rows = log.rows
        merged, beside, reads, seen = _write(writes, spark, phase, writer, recorder, indexed=indexed is not None)
    writer.judge("when Spark has written")
    writer.overtake()
    with progress.phase("flush what is left in the WAL"):
        writer.flush()
    writer.judge("when all is flushed")
    unmerged = _unmerged(folder)
    first = _first_reads(folder, log, writer, progress)
    summary = readings.answer(spark, folder, log, progress)
    # Before anything is merged or collected, so that every place of a key that differs can still be told.
    before = readings.compare_all(spark, folder, log, summary, first, progress, lambda: _claims(writes, spark, job))
    with progress.phase("verify, before the last merge"):
        verified = [_found("while Spark wrote", seen), _verified(spark, folder, "before the last merge")]
    with progress.phase("check the histories of watched keys"):
        seen_by_readers = watching.check(watching.history(folder.notes, reads), folder.history)
    collected = beside.collected + _merge_and_collect(folder, writer, recorder, progress)
    comparisons = before + _read_and_compare(spark, folder, log, summary, progress)
    with progress.phase("verify, in the end"):
        verified.append(_verified(spark, folder, "in the end"))
    writer.judge("in the end")
    proofs, history = _looked_up(writes, recorder, _event_log(spark, folder, job), writer)
    return JobReport(
        revision=job.revision,
        seed=job.seed,
        log=log.name,
        sequence=log.sequence,
        keys=comparisons[0].expected.rows,
        events=log.rows,
        comparisons=comparisons,
        phases=progress.phases,
        faults=proofs,
        regions=_region_results(folder, writes),
        meanwhile=MergerReport(
            passes=merged.passes, generations=merged.generations, rows=merged.rows, conflicts=merged.conflicts
        ),
        beside=beside,
        verified=tuple(verified),
        history=seen_by_readers,
        unmerged_scanned=unmerged,
        timeline=history,
        writer=writer.report(),
        collected=collected,
        peak_memory_bytes=memory.peak_bytes,
        versions=_versions(spark),
    )


def _plan(
    job: Job, folder: Folder, log: ChangeLog, writer: OwnWriter, spark: SparkSession, replayed: ReplayedJob | None
) -> LogWrites:
    with writer.progress.phase("plan the jobs and their faults"):
        writes = LogWrites.plan_for(
            spark, folder, log, regions=job.regions, writer=writer.foreign,
            kinds=job.faults, seed=job.fault_seed, late_rows=job.late_rows,
        )  # fmt: skip
        if replayed is not None:
            replayed.check_faults(writes.plan)
        return writes


def _looked_up(
    writes: LogWrites, recorder: FileRecorder, told: Path, writer: OwnWriter
) -> tuple[tuple[Proof, ...], Timeline | None]:
    """What Spark's event log proves of the faults, and when all happened; the latter None if it cannot be told."""
    history: Timeline | None = None
    with writer.progress.phase("look up faults, and what happened when"):
        proofs = writes.proofs(told) if writes.plan else ()
        with writer.during("timeline"):
            history = timeline.drawn(recorder, writes.log, writes.folder.log, writes.runs(told))
    return proofs, history


def _claims(writes: LogWrites, spark: SparkSession, job: Job) -> dict[tuple[str, int], str]:
    return timeline.claimants(writes.runs(_event_log(spark, writes.folder, job)), writes.folder.table)


def _first_reads(folder: Folder, log: ChangeLog, writer: OwnWriter, progress: PhaseProgress) -> list[str]:
    """Read the table before the last merge, with the engine and with the writer's own reader; names of the readings."""
    names = [BEFORE]
    with progress.phase(BEFORE) as phase:
        rows = log.schema.empty_table()
        with writer.during(BEFORE):
            rows = readings.engine_read(folder)
        phase.rows = rows.num_rows
    readings.store(rows, folder, BEFORE)
    own = writer.read()
    if own is not None:
        readings.store(own, folder, ITS_OWN)
        names.append(ITS_OWN)
    return names


def _merge_and_collect(folder: Folder, writer: OwnWriter, recorder: FileRecorder, progress: PhaseProgress) -> int:
    """Merge what is left and collect all that can be; returns the number of generations that were collected."""
    with progress.phase("merge the rest") as phase, writer.during("merge"):
        phase.rows = memwal.open(folder.table).merge().rows
    recorder.step()
    writer.judge("when all is merged")
    with progress.phase("collect garbage"), writer.during("collection"):
        done = memwal.open(folder.table).gc(retain_versions=1)
        return sum(decision.kind == "generation" for decision in done.collected)
    return 0


def _event_log(spark: SparkSession, folder: Folder, job: Job) -> Path:
    """Where Spark has told what became of the jobs: of drivers of their own, or of this session."""
    if needs_cluster(job.faults):
        return folder.event_log
    flush_event_log(spark)
    return event_log(spark)


def _read_and_compare(
    spark: SparkSession, folder: Folder, log: ChangeLog, summary: Fingerprint, progress: PhaseProgress
) -> tuple[OracleComparison, ...]:
    """Read the table as it is now in both ways, and compare that with the answer, whose ``summary`` is given."""
    with progress.phase(AFTER) as phase:
        phase.rows = readings.spark_read(spark, folder)
    with progress.phase(BASE) as phase:
        phase.rows = readings.base_read(folder)
    return readings.compare_all(spark, folder, log, summary, [AFTER, BASE], progress)


def _spec(job: Job, log: ChangeLog) -> SpecRequest:
    """Buckets of the columns that the log goes by; R hashes one column only, and takes the first."""
    columns = log.region_by[:1] if job.revision == "R" else log.region_by
    return memwal.bucket("bucket", columns, job.regions)


def _write(
    writes: LogWrites,
    spark: SparkSession,
    phase: RunningPhase,
    writer: OwnWriter,
    recorder: FileRecorder,
    *,
    indexed: bool,
) -> tuple[MergerProgress, BesideReport, list[dict[str, Any]], tuple[Violation, ...]]:
    """Run all jobs, while others merge, build, collect, look and read; returns also what was read and found."""

    def tell(merged: MergerProgress) -> None:
        phase.tell(f"{counted(merged.generations, 'generation')} with {counted(merged.rows, 'row')} merged meanwhile")

    path = writes.folder.table
    builder, collector, looker, reader = (
        BesideBuilder(path),
        BesideCollector(path),
        BesideLooker(path),
        KeyReader(path, writes.rows),
    )
    with ExitStack() as stack:
        stack.enter_context(writer.during(WRITE))
        merger = stack.enter_context(BackgroundMerger(str(path), tell, recorder.merged))
        if indexed:
            stack.enter_context(Beside("index builder", builder.step, 0.5))
        stack.enter_context(Beside("collector", collector.step, 0.5))
        stack.enter_context(Beside("recorder", recorder.step, 1.0))
        stack.enter_context(Beside("invariants", looker.step, 2.0))
        stack.enter_context(Beside("reader", reader.step))
        if needs_cluster([fault.kind for fault in writes.plan]):
            drivers.run_all(writes, phase.tell)
        else:
            for number in range(len(writes.jobs)):
                writes.run(spark, number)
    beside = BesideReport(
        builds=builder.builds,
        collections=collector.passes,
        collected=collector.collected,
        looks=looker.looks,
        reads=reader.reads,
        conflicts=builder.conflicts + collector.conflicts,
    )
    return merger.merged, beside, reader.found, tuple(looker.findings)


def _verified(spark: SparkSession, folder: Folder, when: str) -> VerifyResult:
    """What every invariant says of the table, each region looked at in a task of its own."""
    done = jobs.verify(spark, str(folder.table))
    if done.report is None:
        raise InvalidArgument(f"[MEMWAL_VERIFY] {done.failed[0].item}: {done.failed[0].error}")
    return _found(when, done.report.findings, done.report.looked_at)


def _found(when: str, findings: Sequence[Violation], looked_at: Sequence[tuple[str, int]] = ()) -> VerifyResult:
    return VerifyResult(when=when, findings=tuple(map(str, findings)), looked_at=tuple(looked_at))


def _unmerged(folder: Folder) -> int:
    """Generations that a merged read has to merge in memory now."""
    return sum(
        sum(generation.generation > region.merged for generation in region.manifest.flushed)
        for region in memwal.open(folder.table).regions()
        if region.manifest is not None
    )


def _region_results(folder: Folder, writes: LogWrites) -> tuple[RegionResult, ...]:
    written = writes.tasks()
    results = []
    for region in sorted(memwal.open(folder.table).regions(), key=lambda region: tuple(region.values.values())):
        tasks = written[str(region.region_id)]
        assert region.manifest is not None, "a region that a task wrote has a manifest"
        results.append(
            RegionResult(
                region_id=str(region.region_id),
                values={name: None if value is None else str(value) for name, value in region.values.items()},
                rows=sum(task["rows"] for task in tasks),
                puts=sum(task["puts"] for task in tasks),
                epoch=region.manifest.epoch,
                generations=region.manifest.generation_current - 1,
                merged=region.merged,
                attempts=sum(task["attempt"] + 1 for task in tasks),
            )
        )
    return tuple(results)


def _versions(spark: SparkSession) -> dict[str, str]:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a running session has a JVM"
    packages = {name: metadata.version(name) for name in ("pyspark", "pyarrow", "pylance")}
    return {"Python": platform.python_version(), "Java": jvm.System.getProperty("java.version"), **packages}


def _store(found: JobReport, folder: Folder) -> None:
    report.write_json(found, folder.report_json)
    html.write_html(found, folder.report_html)
