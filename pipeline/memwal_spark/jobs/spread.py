"""Work on several things, each in a Spark task of its own: what fails is told, and does not stop the others."""

from __future__ import annotations

import base64
import json
import pickle
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from memwal.errors import MemwalError
from memwal.words import counted, grid

from ..settling import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work = Callable[[str], dict[str, Any]]
"""What a task does with the thing of that name: plain data, as JSON has it."""
GroupWork = Callable[[Sequence[str]], Mapping[str, dict[str, Any] | Exception]]
"""What a task does with several things at once: by name plain data, or what the engine raised for it."""
Tell = Callable[[int, int], None]
"""Gets the tasks that are done, and how many there are."""

TABLE = "the table"
"""How a job names what it does that is not of one region."""
FAILURES = (MemwalError, pa.ArrowException)
"""What ends the work on one thing, and not the job."""

HOT_TIMES = 4.0
"""A region is hot with at least so many times the rows of the median region that had some."""
HOT_AMONG = 4
"""Fewest regions with rows that are compared."""

_RESULT = "item string, done string, error string"
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """What one task did."""

    item: str
    found: dict[str, Any] | None
    """What the work returned; None if it failed."""
    error: str | None
    """Kind and text of what the engine raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hot:
    """A region with far more rows than the others of its job."""

    region: str
    rows: int
    times: float
    """Its rows by those of the median region."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobDone:
    """What a job did, task by task."""

    tasks: tuple[TaskDone, ...]
    compacted: int = 0
    """Small fragments of the base table that a merge then rewrote as fewer."""

    def __repr__(self) -> str:
        lines = [f"{counted(len(self.tasks) - len(self.failed), 'task')} done, {len(self.failed)} failed"]
        columns = list(dict.fromkeys(name for task in self.tasks for name in task.found or {}))
        cells = [(task.item, *(_cell((task.found or {}).get(name, "-")) for name in columns)) for task in self.tasks]
        lines += [grid(("task", *columns), cells)] if cells else []
        return "\n".join([*lines, *self.errors])

    @property
    def errors(self) -> tuple[str, ...]:
        """A line for each task that failed."""
        return tuple(f"failed: {task.item}: {task.error}" for task in self.failed)

    @property
    def failed(self) -> tuple[TaskDone, ...]:
        """The tasks that ended with an error; the others are done all the same."""
        return tuple(task for task in self.tasks if task.error is not None)

    @property
    def hot(self) -> tuple[Hot, ...]:
        """Regions of a merge with far more rows than the others, those with the most first."""
        rows = {task.item: int(task.found["rows"]) for task in self.tasks if task.found and task.found.get("rows")}
        if len(rows) < HOT_AMONG:
            return ()
        median = statistics.median(rows.values())
        found = [Hot(region=region, rows=count, times=count / median) for region, count in rows.items()]
        return tuple(sorted((one for one in found if one.times >= HOT_TIMES), key=lambda one: -one.rows))

    def total(self, name: str) -> int:
        """Sum of the number ``name`` over the tasks that did their work."""
        return sum(int(task.found[name]) for task in self.tasks if task.found is not None)


def _cell(value: object) -> object:
    """A value of a task in a table: how many there are of what is several."""
    return len(value) if isinstance(value, list | tuple | dict) else value


def spread(spark: SparkSession, items: Sequence[str], work: Work, tell: Tell | None = None) -> tuple[TaskDone, ...]:
    """Do ``work`` with each of ``items`` in a task of its own; returns what each did, in their order.

    What the engine raises on purpose ends its own task only, and is returned. Anything else is an error of the program
    or of the machine: Spark tries the task again, and then fails the job. ``work`` may therefore run twice.
    """

    def alone(group: Sequence[str]) -> dict[str, dict[str, Any] | Exception]:
        (item,) = group
        return {item: work(item)}

    return spread_groups(spark, [[item] for item in items], alone, tell)


def spread_groups(
    spark: SparkSession, groups: Sequence[Sequence[str]], work: GroupWork, tell: Tell | None = None
) -> tuple[TaskDone, ...]:
    """As `spread`, with a task for each of ``groups``, none of which is empty; returns what was done with each thing.

    What ``work`` raises itself has failed for all of its group.
    """
    named = [list(group) for group in groups]
    if not named:
        return ()

    def tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row for number in batch["id"].to_pylist() for row in _attempted(named[number], work)]
            settle()
            yield pa.RecordBatch.from_pylist(
                rows, pa.schema([("item", pa.string()), ("done", pa.string()), ("error", pa.string())])
            )

    frame = spark.range(0, len(named), 1, len(named)).mapInArrow(tasks, _RESULT)
    with _watched(spark, len(named), tell):
        rows = {row["item"]: row for row in frame.collect()}
    return tuple(
        TaskDone(item=item, found=json.loads(row["done"]) if row["done"] else None, error=row["error"])
        for item, row in ((item, rows[item]) for group in named for item in group)
    )


def _attempted(group: Sequence[str], work: GroupWork) -> list[dict[str, str | None]]:
    found: Mapping[str, dict[str, Any] | Exception]
    try:
        found = work(group)
    except FAILURES as error:
        found = dict.fromkeys(group, error)
    return [_row(item, done) for item, done in found.items()]


def _row(item: str, done: dict[str, Any] | Exception) -> dict[str, str | None]:
    if not isinstance(done, Exception):
        return {"item": item, "done": json.dumps(done), "error": None}
    return {"item": item, "done": None, "error": told(done)}


def pickled(value: object) -> str:
    """A value of the engine's as a text that JSON can have."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpickled(text: str) -> Any:
    """The value of a text that a task of the same job got from `pickled`."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301


def told(error: Exception) -> str:
    """Kind and text of ``error``, and its notes."""
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


@contextmanager
def _watched(spark: SparkSession, count: int, tell: Tell | None) -> Iterator[None]:
    """Tell how far Spark's tasks are while the body runs. A session of Spark Connect does not say."""
    context = getattr(spark, "_sc", None)
    if tell is None or context is None:
        yield
        return
    stop, tracker = threading.Event(), context.statusTracker()

    def look() -> None:
        while not stop.wait(_LOOK_S):
            stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
            tell(sum(stage.numCompletedTasks for stage in stages if stage is not None), count)

    watching = threading.Thread(target=look, name="progress", daemon=True)
    watching.start()
    try:
        yield
    finally:
        stop.set()
        watching.join()
