"""Proofs from Spark's event logs that planned faults happened, and that Spark continued as it does in life."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from memwal.errors import InvalidArgument
from memwal.words import counted

from .faults import Fault
from .striking import ACKNOWLEDGED, NOBODY, PlannedFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORPHAN_S = 60.0
"""How long an orphan is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One attempt of a task, from the event log."""

    number: int
    failed: bool
    """Or killed."""
    seconds: float
    reason: str
    """First line of what Spark says; empty for success."""
    application: str = ""
    stage: tuple[int, int] = (0, 0)
    """Its number, and which attempt of the stage it is."""
    speculative: bool = False
    executor: str = ""
    begun_ms: int = 0
    why: str = ""
    """Spark's name for the reason of the end: ``Success``, ``ExceptionFailure``, ``TaskKilled``, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a planned fault happened as planned."""

    fault: Fault
    attempts: tuple[TaskAttempt, ...]
    generations: int
    """Generations that the struck attempt had flushed; its other rows were in the WAL."""
    happened: bool
    facts: tuple[str, ...] = ()
    """What proves it beside the attempts."""
    violated: bool = False
    """Something was acknowledged that must not be."""

    @property
    def summary(self) -> str:
        """One sentence."""
        if self.violated:
            return f"{self.fault.text}: {self.facts[-1]}"
        if self.happened:
            return f"{self.fault.text}: {'; '.join(self.facts) or 'the task failed and was retried'}"
        attempts = ", ".join(f"attempt {a.number} {a.reason or 'succeeded'}" for a in self.attempts) or "no attempt"
        return f"{self.fault.text} did not happen: {'; '.join((attempts, *self.facts))}"


@dataclass(slots=True, kw_only=True)
class Application:
    """What the event log of one driver says of the jobs of a group."""

    name: str
    attempts: list[tuple[int, TaskAttempt]] = field(default_factory=list)
    """Partition, attempt: of the tasks that write."""
    jobs: int = 0
    """Spark jobs that were begun."""
    done: int = 0
    """Those that succeeded."""
    removed: list[tuple[str, int, str]] = field(default_factory=list)
    """Executor, when in ms, why."""
    ended: bool = False
    batches: list[tuple[str, int, int]] = field(default_factory=list)
    """Run of a streaming query, batch, rows of its input."""


def prove(
    event_log: Path, group: Callable[[int], str], faults: Sequence[Fault], tasks: Callable[[int], Sequence[Any]]
) -> tuple[Proof, ...]:
    """Look the planned faults up in the event logs of a folder.

    ``group``: name of the group of a job, by its number. ``tasks``: what the tasks of a job that succeeded reported.
    """
    logs = _logs(event_log)
    read = {job: [_application(file, group(job)) for file in logs] for job in {fault.job for fault in faults}}
    return tuple(_proof(fault, read[fault.job], tasks(fault.job)) for fault in faults)


def attempts(event_log: Path, group: str) -> list[tuple[int, TaskAttempt]]:
    """Partition and attempt of each task that wrote in a job, whatever became of it."""
    return [each for file in _logs(event_log) for each in _application(file, group).attempts]


def _logs(event_log: Path) -> list[Path]:
    return [file for file in sorted(event_log.iterdir()) if file.is_file() and not file.name.startswith(".")]


def _proof(fault: Fault, applications: Sequence[Application], written: Sequence[Mapping[str, Any]]) -> Proof:
    attempts = [a for app in applications for partition, a in app.attempts if partition == fault.partition]
    if fault.kind == "stream-restart":
        attempts = []
    attempts.sort(key=lambda attempt: (attempt.begun_ms, attempt.number))
    regions = {task["partition"]: task["region_id"] for task in written}
    generations = _generations_left(fault, regions.get(fault.partition))
    seen = StruckTask(fault=fault, attempts=attempts, applications=applications)
    facts = _CHECKS[fault.kind](seen)
    told = tuple(facts) if facts else ()
    unflushed = fault.kind not in ("original-wins", "stream-restart") and not generations
    return Proof(
        fault=fault,
        attempts=tuple(attempts),
        generations=generations,
        happened=bool(told) and not unflushed,
        facts=told,
        violated=fault.kind == "orphan" and seen.orphan.get("outcome") == ACKNOWLEDGED,
    )


def _generations_left(fault: Fault, region: str | None) -> int:
    evidence = Path(fault.evidence)
    if region is None or not evidence.is_file():
        return 0
    return int(json.loads(evidence.read_text())["generations"].get(region, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class StruckTask:
    """What is looked at for one fault."""

    fault: Fault
    attempts: Sequence[TaskAttempt]
    applications: Sequence[Application]

    @property
    def last(self) -> TaskAttempt | None:
        """The last attempt that succeeded."""
        return next((a for a in reversed(self.attempts) if not a.failed), None)

    @property
    def orphan(self) -> Mapping[str, Any]:
        """What an orphan has told before it ended."""
        file = Path(self.fault.evidence).with_suffix(".orphan")
        ends = time.monotonic() + ORPHAN_S
        while not file.is_file() and Path(self.fault.evidence).is_file() and time.monotonic() < ends:
            time.sleep(0.1)
        told: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
        return told


def _failed_first(words: str) -> Callable[[StruckTask], list[str]]:
    def check(seen: StruckTask) -> list[str]:
        if not seen.attempts:
            return []
        first, *later = seen.attempts
        retried = first.failed and words in first.reason and any(not attempt.failed for attempt in later)
        return [f"attempt 0 failed ({first.reason}) and was retried"] if retried else []

    return check


def _lost(seen: StruckTask) -> tuple[str, int, str] | None:
    """The executor that the struck attempt lost, when it was removed (ms), and why; None unless the task ended well."""
    lost = [a for a in seen.attempts if a.why == "ExecutorLostFailure"]
    if not lost or seen.last is None:
        return None
    gone = [r for app in seen.applications if app.name == lost[0].application for r in app.removed]
    return next((removed for removed in gone if removed[0] == lost[0].executor), None)


def _executor_killed(seen: StruckTask) -> list[str]:
    lost = _lost(seen)
    return [] if lost is None else [f"executor {lost[0]} was removed ({lost[2]}), and its task was run again"]


def _stage_retried(seen: StruckTask) -> list[str]:
    unfetched = [a for app in seen.applications for _, a in app.attempts if a.why == "FetchFailed"]
    if not unfetched or seen.last is None or seen.last.stage[1] < 1:
        return []
    return [
        f"{counted(len(unfetched), 'task')} ended with FetchFailed; attempt {seen.last.stage[1]} of the stage was whole"
    ]


def _copy_won(seen: StruckTask) -> list[str]:
    copies = [a for a in seen.attempts if a.speculative and a.why == "Success"]
    killed = [a for a in seen.attempts if not a.speculative and a.why == "TaskKilled"]
    if not copies or not killed:
        return []
    return [f"the speculative attempt {copies[0].number} succeeded, and the original was killed ({killed[0].reason})"]


def _original_won(seen: StruckTask) -> list[str]:
    killed = [a for a in seen.attempts if a.speculative and a.why == "TaskKilled"]
    won = [a for a in seen.attempts if not a.speculative and a.why == "Success"]
    if not killed or not won or not Path(seen.fault.evidence).with_suffix(".copy").exists():
        return []
    return [f"the speculative attempt {killed[0].number} claimed the region and was killed ({killed[0].reason})"]


def _driver_killed(seen: StruckTask) -> list[str]:
    there = [app for app in seen.applications if app.jobs]
    if len(there) < 2 or not Path(seen.fault.evidence).is_file():
        return []
    first, last = there[0], there[-1]
    if first.ended or first.done == first.jobs or last.done != last.jobs or seen.last is None:
        return []
    return [f"application {first.name} never ended its job, and {last.name} ran it again"]


def _orphaned(seen: StruckTask) -> list[str]:
    lost, told = _lost(seen), seen.orphan
    if lost is None or told.get("outcome", NOBODY) == NOBODY or told["at"] * 1000 < lost[1]:
        return []
    what, late = told["outcome"].partition("\n")[0], told["at"] - lost[1] / 1000
    said = what if what == ACKNOWLEDGED else f"refused: {what}"
    return [*_executor_killed(seen), f"process {told['pid']} put {late:.1f} s after that, and was {said}"]


def _restarted(seen: StruckTask) -> list[str]:
    batches = [b for app in seen.applications for b in app.batches if b[2]]
    runs = list(dict.fromkeys(run for run, _, _ in batches))
    if len(runs) < 2:
        return []
    before, after = ({batch for run, batch, _ in batches if run == which} for which in runs[:2])
    again = sorted(before & after)
    if not again or again[0] != seen.fault.partition:
        return []
    return [f"the query did the batches {sorted(before)}, was cut, and did {again} again"]


_CHECKS: Mapping[str, Callable[[StruckTask], list[str]]] = {
    "task-error": _failed_first(PlannedFault.__name__),
    "worker-kill": _failed_first("Python worker exited unexpectedly"),
    "executor-kill": _executor_killed,
    "stage-retry": _stage_retried,
    "copy-wins": _copy_won,
    "original-wins": _original_won,
    "driver-kill": _driver_killed,
    "orphan": _orphaned,
    "stream-restart": _restarted,
}
"""Kind of fault -> what proves it; nothing if it did not happen."""


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


def _events(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def _application(file: Path, group: str) -> Application:
    found = Application(name=file.name.partition(".")[0])
    stages: set[int] = set()
    jobs: set[int] = set()
    for event in _events(file):
        name = event["Event"]
        if name == "SparkListenerJobStart":
            if event.get("Properties", {}).get("spark.jobGroup.id") == group:
                stages.update(event["Stage IDs"])
                jobs.add(event["Job ID"])
                found.jobs += 1
        elif name == "SparkListenerJobEnd" and event["Job ID"] in jobs:
            found.done += event["Job Result"]["Result"] == "JobSucceeded"
        elif name == "SparkListenerTaskEnd" and event["Stage ID"] in stages and event["Task Type"] == "ResultTask":
            info = event["Task Info"]
            found.attempts.append((info.get("Partition ID", info["Index"]), _attempt(found.name, event)))
        elif name == "SparkListenerExecutorRemoved":
            found.removed.append((event["Executor ID"], event["Timestamp"], _first_line(event["Removed Reason"])))
        elif name == "SparkListenerApplicationEnd":
            found.ended = True
        elif name == _PROGRESS:
            progress = event["progress"]
            progress = json.loads(progress) if isinstance(progress, str) else progress
            if progress.get("name") == group:
                rows = sum(source["numInputRows"] for source in progress["sources"])
                found.batches.append((progress["runId"], progress["batchId"], rows))
    return found


def _attempt(application: str, event: Mapping[str, Any]) -> TaskAttempt:
    info, reason = event["Task Info"], event["Task End Reason"]
    return TaskAttempt(
        number=info["Attempt"],
        failed=reason["Reason"] != "Success",
        seconds=(info["Finish Time"] - info["Launch Time"]) / 1000,
        reason=_reason(reason),
        application=application,
        stage=(event["Stage ID"], event["Stage Attempt ID"]),
        speculative=info["Speculative"],
        executor=info["Executor ID"],
        begun_ms=info["Launch Time"],
        why=reason["Reason"],
    )


def _reason(reason: Mapping[str, Any]) -> str:
    """The first sentence of what Spark says; of a planned exception the line that names it."""
    if reason["Reason"] == "Success":
        return ""
    said = next((str(reason[name]) for name in ("Description", "Loss Reason", "Kill Reason") if name in reason), "")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    planned = [line for line in lines if PlannedFault.__name__ in line]
    return planned[-1] if planned else (lines or [str(reason["Reason"])])[0].partition(". ")[0]


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
