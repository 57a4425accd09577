"""Planned failures of Spark tasks, and the proof from Spark's event log that they happened and were retried.

A planned fault lets the first attempt of one task get well into its work — some puts and at least one MemTable flush
are durable by then — and breaks it: with an exception, or by killing its process. What the attempt left behind is
then in the WAL and in generations when Spark runs the task again.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from memwal.errors import InvalidArgument
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from .options import TableOption, for_writing
from .place import open_table
from .watching import WatchedRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "memwal_with_faults"
PLAN, WATCH, FOREIGN = "plannedFaults", "watchedRows", "foreignWriter"
"""Options of this format beside those of `memwal`, as JSON: the plan, what `memwal_spark.watching` notes, and which
other implementation writes (`memwal_spark.foreign`)."""

Kind = Literal["raise", "kill"]


class PlannedFault(Exception):
    """Raised inside a task, on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planned failure."""

    kind: Kind
    """``raise``: an exception in the task; ``kill``: SIGKILL for the Python worker, which closes nothing."""
    partition: int
    """The task it hits: number of the partition that is written."""
    rows: int
    """Rows that the first attempt writes before it fails."""
    puts: int
    """Number of batches that these rows are cut into; each is durable before the next is asked for."""
    evidence: str
    """Local file that receives the state of all regions just before the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One attempt of a task, from the event log."""

    number: int
    failed: bool
    seconds: float
    reason: str
    """First line of what Spark says; empty for success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a planned fault happened as planned."""

    fault: Fault
    attempts: tuple[TaskAttempt, ...]
    generations: int
    """Generations that the failed attempt had flushed; its other rows were in the WAL."""

    @property
    def happened(self) -> bool:
        """The first attempt failed for the planned reason, after a flush, and a later one succeeded."""
        words = {"raise": PlannedFault.__name__, "kill": "Python worker exited unexpectedly"}[self.fault.kind]
        if not self.generations or not self.attempts:
            return False
        first, *later = self.attempts
        return first.failed and words in first.reason and any(not attempt.failed for attempt in later)

    @property
    def summary(self) -> str:
        """One sentence."""
        fault = f"planned fault ({self.fault.kind}, task {self.fault.partition}, after {self.fault.rows} rows)"
        if self.happened:
            return f"{fault}: the task failed and was retried"
        seen = ", ".join(f"attempt {a.number} {a.reason or 'succeeded'}" for a in self.attempts) or "no attempt"
        return f"{fault} did not happen: {seen}"


def prove(
    event_log: Path, job_group: str, faults: Sequence[Fault], written: Sequence[Mapping[str, Any]]
) -> tuple[Proof, ...]:
    """Look the planned faults up in an event log: tasks of the jobs of ``job_group``, by partition.

    ``event_log``: the folder given to `memwal_spark.runtime.session`; the newest file in it is read. ``written``: what
    the tasks that succeeded reported, as in the report of option ``reportPath``.
    """
    regions = {task["partition"]: task["region_id"] for task in written}
    tasks = list(_tasks(_events(event_log), job_group))
    failing = {stage for stage, _, attempt in tasks if attempt.failed}
    proofs = []
    for fault in faults:
        attempts = [a for stage, partition, a in tasks if stage in failing and partition == fault.partition]
        proofs.append(
            Proof(
                fault=fault,
                attempts=tuple(sorted(attempts, key=lambda attempt: attempt.number)),
                generations=_generations_left(fault, regions.get(fault.partition)),
            )
        )
    return tuple(proofs)


def _generations_left(fault: Fault, region: str | None) -> int:
    evidence = Path(fault.evidence)
    if region is None or not evidence.is_file():
        return 0
    return int(json.loads(evidence.read_text())["generations"].get(region, 0))


def flush_event_log(spark: SparkSession) -> None:
    """Wait until every event that Spark has posted so far is in the event log."""
    bus = spark.sparkContext._jsc.sc().listenerBus()
    bus.waitUntilEmpty()


def event_log(spark: SparkSession) -> Path:
    """Folder of the session's event log; raises InvalidArgument if it keeps none."""
    address = spark.sparkContext.getConf().get("spark.eventLog.dir")
    if address is None:
        raise InvalidArgument("[MEMWAL_NO_EVENT_LOG] the session keeps no event log, so no fault can be proved")
    return Path(unquote(urlsplit(address).path))


def _events(event_log: Path) -> Iterator[dict[str, Any]]:
    newest = max((f for f in event_log.iterdir() if f.is_file()), key=lambda f: f.stat().st_mtime_ns)
    with newest.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _tasks(events: Iterable[Mapping[str, Any]], job_group: str) -> Iterator[tuple[int, int, TaskAttempt]]:
    """(stage, partition, attempt) of every task that ended in a job of the group."""
    stages: set[int] = set()
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            if event.get("Properties", {}).get("spark.jobGroup.id") == job_group:
                stages.update(event["Stage IDs"])
        elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
            info, reason = event["Task Info"], event["Task End Reason"]
            yield (
                event["Stage ID"],
                info.get("Partition ID", info["Index"]),
                TaskAttempt(
                    number=info["Attempt"],
                    failed=info["Failed"],
                    seconds=(info["Finish Time"] - info["Launch Time"]) / 1000,
                    reason=_reason(reason),
                ),
            )


def _reason(reason: Mapping[str, Any]) -> str:
    """The first sentence of what Spark says; of a planned exception the line that names it."""
    if reason["Reason"] == "Success":
        return ""
    lines = [line.strip() for line in str(reason.get("Description", "")).splitlines() if line.strip()]
    planned = [line for line in lines if PlannedFault.__name__ in line]
    return planned[-1] if planned else (lines or [str(reason["Reason"])])[0].partition(". ")[0]


class SourceWithFaults(DataSource):  # type: ignore[misc] # pyspark's own types are not read
    """The data source `memwal` for writing, with faults in some tasks, and notes of what all of them write."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> WriterWithFaults:
        """The writer of `memwal` with the options `PLAN` and `WATCH` around it; without `WATCH` nothing is noted."""
        from .foreign import ForeignWriter
        from .foreign_task import ForeignDataWriter
        from .source import MemWalWriter

        own = (PLAN.lower(), WATCH.lower(), FOREIGN.lower())
        options = {name: value for name, value in self.options.items() if name.lower() not in own}
        plan = [Fault(**fault) for fault in json.loads(self.options[PLAN])]
        foreign = self.options.get(FOREIGN)
        if foreign is None:
            inner = MemWalWriter(options, schema, overwrite=overwrite)
        else:
            inner = ForeignDataWriter(options, schema, ForeignWriter(**json.loads(foreign)))
        watched = self.options.get(WATCH)
        rows = None if watched is None else WatchedRows(**json.loads(watched))
        return WriterWithFaults(inner, plan, for_writing(options).place, rows)


class WriterWithFaults(DataSourceArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Hands every call on to the real writer; breaks the first attempt of the tasks in the plan."""

    def __init__(
        self, inner: DataSourceArrowWriter, plan: Sequence[Fault], place: TableOption, rows: WatchedRows | None
    ) -> None:
        self._inner = inner
        self._place = place
        self._rows = rows
        self._plan = {fault.partition: fault for fault in plan}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        context = TaskContext.get()
        assert context is not None, "a task always has a context"
        fault = self._plan.get(context.partitionId())
        if fault is not None and context.attemptNumber() == 0:
            iterator = breaking(iterator, fault, self._place)
        if self._rows is not None:
            iterator = self._rows.noted(iterator, str(context.taskAttemptId()))
        return self._inner.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.abort(messages)


def breaking(batches: Iterator[pa.RecordBatch], fault: Fault, place: TableOption) -> Iterator[pa.RecordBatch]:
    """The first rows of ``batches`` in small batches, and then the fault; fewer rows than planned come unharmed."""
    piece = max(1, fault.rows // fault.puts)
    left = fault.rows
    for batch in batches:
        start = 0
        while start < batch.num_rows and left:
            part = batch.slice(start, min(piece, left))
            yield part
            start += part.num_rows
            left -= part.num_rows
        if not left:
            _break(fault, place)


def _break(fault: Fault, place: TableOption) -> None:
    flushed = {r.region_id: r.manifest.generation_current - 1 for r in open_table(place).regions() if r.manifest}
    Path(fault.evidence).write_text(json.dumps({"generations": flushed}))
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise PlannedFault(f"planned: partition {fault.partition} fails after {fault.rows} rows")


def plan_json(faults: Sequence[Fault]) -> str:
    """Value of option `PLAN`."""
    return json.dumps([asdict(fault) for fault in faults])
