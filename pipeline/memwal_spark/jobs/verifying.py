"""Every invariant over a table: each region in a Spark task of its own, and what is of all of them in the last task.

The driver reads the newest table version. Tasks look at one region each, with its rows; the last one looks at the base
table, and compares keys of different regions. These are the engine's own three steps, which `memwal.verify` takes one
after the other, so that both say the same.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memwal.api.place import PROFILE, Place, find, found
from memwal.drive import _no_listener
from memwal.errors import InvalidArgument, NotFound
from memwal.invariants import Report, runner

from .spread import JobDone, Tell, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "the table"
"""Name of the last task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified(JobDone):
    """What looking at a table found: the tasks, one a region and one for all of the table, and the report."""

    report: Report | None
    """What `memwal.verify` returns; None if a task failed, since then nobody knows of the whole."""


def verify(
    spark: SparkSession,
    path: str,
    *,
    fast: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> Verified:
    """Run every invariant over the table, read only, in a task for each region; see `memwal.verify`.

    A task says ``findings``, how many. A table that changed meanwhile is looked at again if something was found. Raises
    InvalidArgument if there is no trace of a table.
    """
    options = dict(storage or {})
    place = _place(path, options)
    try:
        for _ in range(runner.ATTEMPTS):
            begun = found(place, runner.begin(place.io, revision=None, fast=fast))
            done = _looked(spark, path, options, begun, tell)
            if done.report is None or done.report.clean or place.run(runner.unchanged(place.io, begun)):
                return done
    except NotFound as missing:
        raise InvalidArgument(f"[MEMWAL_NO_TABLE] there is no table at {path!r}: check the path") from missing
    assert done.report is not None, "a failed task has ended the loop"
    return replace(done, report=replace(done.report, moved=True))


def _looked(
    spark: SparkSession, path: str, options: dict[str, str], begun: runner.BegunReport, tell: Tell | None
) -> Verified:
    regions = {str(region): region for region in begun.regions}

    def look(name: str) -> dict[str, Any]:
        there = _place(path, options)
        looked = there.run(runner.look_at(there.io, begun, regions[name]))
        return {"findings": len(looked.ledger.findings), "looked": _text(looked)}

    tasks = spread(spark, list(regions), look, tell)
    every = [task.found["looked"] for task in tasks if task.found is not None]

    def finish(_: str) -> dict[str, Any]:
        there = _place(path, options)
        report = there.run(runner.finish(there.io, begun, [_value(text) for text in every]))
        return {"findings": len(report.findings), "report": _text(report)}

    if len(every) == len(tasks):
        tasks += spread(spark, [TABLE], finish, tell)
    last = tasks[-1].found if tasks and tasks[-1].item == TABLE else None
    told = tuple(
        task if task.found is None else replace(task, found={"findings": task.found["findings"]}) for task in tasks
    )
    return Verified(tasks=told, report=_value(last["report"]) if last is not None else None)


def _place(path: str, options: Mapping[str, str]) -> Place:
    return find(path, options or None, None, _no_listener, PROFILE)


def _text(value: object) -> str:
    """A value of the engine's as a text that JSON can have."""
    return base64.b64encode(pickle.dumps(value)).decode()


def _value(text: str) -> Any:
    """The value of a `_text` that a task of the same job wrote."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301
