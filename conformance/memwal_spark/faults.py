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

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "memwal_with_faults"
PLAN = "plannedFaults"
"""Option of this format beside those of `memwal`: the plan as JSON."""

Kind = Literal["raise", "kill"]


class PlannedFault(Exception):  # noqa: N818 - a fault, not an error
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
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
    attempts: tuple[Attempt, ...]

    @property
    def happened(self) -> bool:
        """The first attempt failed for the planned reason and a later one succeeded."""
        words = {"raise": PlannedFault.__name__, "kill": "Python worker exited unexpectedly"}[self.fault.kind]
        if not self.attempts or not self.attempts[0].failed or words not in self.attempts[0].reason:
            return False
        return any(not attempt.failed for attempt in self.attempts[1:])


def prove(event_log: Path, job_group: str, faults: Sequence[Fault]) -> tuple[Proof, ...]:
    """Look the planned faults up in an event log: tasks of the jobs of ``job_group``, by partition.

    ``event_log``: the folder given to `memwal_spark.runtime.session`; the newest file in it is read.
    """
    tasks = list(_tasks(_events(event_log), job_group))
    failing = {stage for stage, _, attempt in tasks if attempt.failed}
    return tuple(
        Proof(
            fault=fault,
            attempts=tuple(
                sorted(
                    (attempt for stage, partition, attempt in tasks if stage in failing and partition == fault.partition),
                    key=lambda attempt: attempt.number,
                )
            ),
        )
        for fault in faults
    )


def flush_event_log(spark: SparkSession) -> None:
    """Wait until every event that Spark has posted so far is in the event log."""
    bus = spark.sparkContext._jsc.sc().listenerBus()
    bus.waitUntilEmpty()


def _events(event_log: Path) -> Iterator[dict[str, Any]]:
    newest = max((f for f in event_log.iterdir() if f.is_file()), key=lambda f: f.stat().st_mtime_ns)
    with newest.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _tasks(events: Iterable[Mapping[str, Any]], job_group: str) -> Iterator[tuple[int, int, Attempt]]:
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
                Attempt(
                    number=info["Attempt"],
                    failed=info["Failed"],
                    seconds=(info["Finish Time"] - info["Launch Time"]) / 1000,
                    reason=_reason(reason),
                ),
            )


def _reason(reason: Mapping[str, Any]) -> str:
    """One line: what Spark says, and the exception of the Python worker inside it where there is one."""
    if reason["Reason"] == "Success":
        return ""
    lines = [line.strip() for line in str(reason.get("Description", reason["Reason"])).splitlines() if line.strip()]
    planned = [line for line in lines if PlannedFault.__name__ in line]
    return (planned or lines or [reason["Reason"]])[-1 if planned else 0]


class SourceWithFaults(DataSource):
    """The data source `memwal` for writing, with faults in some tasks. Registered by the job that plans them."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> WriterWithFaults:
        """The writer of `memwal` with the plan of option `PLAN` around it."""
        from .source import MemWalWriter

        options = {name: value for name, value in self.options.items() if name.lower() != PLAN.lower()}
        plan = json.loads(self.options[PLAN])
        return WriterWithFaults(MemWalWriter(options, schema, overwrite=overwrite), [Fault(**fault) for fault in plan])


class WriterWithFaults(DataSourceArrowWriter):
    """Hands every call on to the real writer; breaks the first attempt of the tasks in the plan."""

    def __init__(self, inner: DataSourceArrowWriter, plan: Sequence[Fault]) -> None:
        self._inner = inner
        self._plan = {fault.partition: fault for fault in plan}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        context = TaskContext.get()
        assert context is not None, "a task always has a context"
        fault = self._plan.get(context.partitionId())
        if fault is not None and context.attemptNumber() == 0:
            iterator = breaking(iterator, fault)
        return self._inner.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """As the real writer."""
        self._inner.abort(messages)


def breaking(batches: Iterator[pa.RecordBatch], fault: Fault) -> Iterator[pa.RecordBatch]:
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
            _break(fault)


def _break(fault: Fault) -> None:
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise PlannedFault(f"planned: partition {fault.partition} fails after {fault.rows} rows")


def plan_json(faults: Sequence[Fault]) -> str:
    """Value of option `PLAN`."""
    return json.dumps([asdict(fault) for fault in faults])
