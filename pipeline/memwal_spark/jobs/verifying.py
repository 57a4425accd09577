"""Every invariant over a table: each region in a Spark task of its own, and what concerns all regions in the last task.

The driver reads the newest table version. Tasks look at one region each, with its rows; the last one looks at the base
table, and compares keys of different regions. These are the engine's own three steps, which `memwal.verify` takes one
after the other, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memwal.api.place import PROFILE, Place, find, found
from memwal.errors import InvalidArgument, NotFound
from memwal.invariants import Report, runner

from .spread import TABLE, JobDone, Tell, pickled, spread, unpickled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verified(JobDone):
    """What looking at a table found: the tasks, one a region and one for all of the table, and the report."""

    report: Report
    """What `memwal.verify` returns; ``unlooked`` names what a task has failed to look at."""

    def __repr__(self) -> str:
        return repr(self.report)  # which names what a task has failed to look at


def verify(
    spark: SparkSession,
    path: str,
    *,
    fast: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> Verified:
    """Run every invariant over the table, read only, in a task for each region; see `memwal.verify`.

    A task says ``findings``, how many. One that fails is named in the report, which has what the others found, and
    compares the regions that were looked at. A table that changed meanwhile is looked at again if something was found
    or has failed. Raises InvalidArgument if there is no trace of a table.
    """
    options = dict(storage or {})
    place = _place(path, options)
    try:
        for _ in range(runner.ATTEMPTS):
            begun = found(place, runner.begin(place.io, revision=None, fast=fast))
            done = _looked(spark, path, options, begun, tell)
            if done.report.clean or place.run(runner.unchanged(place.io, begun)):
                return done
    except NotFound as missing:
        raise InvalidArgument(f"[MEMWAL_NO_TABLE] there is no table at {path!r}: check the path") from missing
    return replace(done, report=replace(done.report, moved=True))


def _looked(
    spark: SparkSession, path: str, options: dict[str, str], begun: runner.BegunReport, tell: Tell | None
) -> Verified:
    regions = {str(region): region for region in begun.regions}

    def look(name: str) -> dict[str, Any]:
        there = _place(path, options)
        looked = there.run(runner.look_at(there.io, begun, regions[name]))
        return {"findings": len(looked.ledger.findings), "looked": pickled(looked)}

    tasks = spread(spark, list(regions), look, tell)
    every = [task.found["looked"] for task in tasks if task.found is not None]
    failed = {regions[task.item]: task.error for task in tasks if task.error is not None}

    def finish(_: str) -> dict[str, Any]:
        there = _place(path, options)
        report = there.run(runner.finish(there.io, begun, [unpickled(text) for text in every], failed))
        return {"findings": len(report.findings), "report": pickled(report)}

    (last,) = spread(spark, [TABLE], finish, tell)
    if last.found is not None:
        report = unpickled(last.found["report"])
    else:
        unlooked = [*failed.items(), (TABLE, str(last.error))]
        report = runner.without_base(_place(path, options).io, begun, [unpickled(text) for text in every], unlooked)
    told = tuple(
        task if task.found is None else replace(task, found={"findings": task.found["findings"]})
        for task in (*tasks, last)
    )
    return Verified(tasks=told, report=report)


def _place(path: str, options: Mapping[str, str]) -> Place:
    return find(path, options or None, None, None, PROFILE)
