"""Garbage collection: what belongs to the table on the driver, each region in a Spark task of its own.

The driver expires table versions and decides on the generations of all regions, over all versions at once. Tasks then
take them out of the region manifests and delete folders, WAL entries and old manifests. The driver ends with the files
of the base table. These are the engine's own three steps, which `memwal.Table.gc` takes one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from memwal.api import GcReport
from memwal.cli import gc_options
from memwal.ids import Milliseconds
from memwal.jobs import collector
from memwal.jobs.collector import Begun, CollectionPlan, Decision, TimeTravel

from ..options import TableOption
from ..place import open_table
from .spread import FAILURES, TABLE, JobDone, TaskDone, Tell, spread, told

if TYPE_CHECKING:
    from memwal import Table
    from pyspark.sql import SparkSession

GRACE_MS = gc_options.duration_ms(gc_options.GRACE)
"""Grace time where the caller says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Collected(JobDone):
    """What a collection did: the tasks, one a region, and one of the table if that failed; and the report of all."""

    report: GcReport
    """What `memwal.Table.gc` returns: all that was done."""

    def __repr__(self) -> str:
        return "\n".join([repr(self.report), *self.errors])


def gc(
    spark: SparkSession,
    path: str,
    *,
    retain_versions: int | None = None,
    retain_age_ms: int | None = None,
    grace_ms: int = GRACE_MS,
    retain_manifests: int = collector.RETAIN_MANIFESTS,
    orphan_age_ms: int = 0,
    time_travel: TimeTravel = "progress",
    dry_run: bool = False,
    sizes: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> Collected:
    """Delete what no retained table version needs, in a task for each region.

    The arguments are those of `memwal.Table.gc`, but that the grace time is ten minutes. A task says ``decisions``, and
    ``waiting`` where the store refused to write the region's manifest: the driver tries that again at the end, when
    files are gone. A region that fails is named, and keeps what it has. Raises InvalidArgument if there is no table.
    """
    place = TableOption(path=path, storage=dict(storage or {}))
    policy = collector.Policy(
        retain_versions=retain_versions,
        retain_age_ms=None if retain_age_ms is None else Milliseconds(retain_age_ms),
        grace_ms=Milliseconds(grace_ms),
        retain_manifests=retain_manifests,
        orphan_age_ms=Milliseconds(orphan_age_ms),
        time_travel=time_travel,
    )
    table = open_table(place)
    ledger = collector.Ledger(dry_run=dry_run, sizes=sizes)
    begun = table._run(collector.begin(table._io, policy, ledger))
    plans = {str(planned.region): planned for planned in begun.plans}

    def work(region: str) -> dict[str, Any]:
        there = open_table(place)
        own = collector.Ledger(dry_run=dry_run, sizes=sizes)
        done = there._run(collector.collect_planned(there._io, plans[region], begun, own))
        return {"decisions": [asdict(decision) for decision in own.decisions], "waiting": not done}

    tasks = spread(spark, list(plans), work, tell)
    found = [(plans[task.item], task.found) for task in tasks if task.found is not None]
    ledger.decisions += [Decision(**one) for _, said in found for one in said["decisions"]]
    waiting = [planned for planned, said in found if said["waiting"]]
    failed = _finished(table, begun, waiting, ledger)
    tasks = tuple(
        replace(task, found=None, error=failed.pop(task.item)) if task.item in failed else task for task in tasks
    )
    tasks += tuple(TaskDone(item=item, found=None, error=error) for item, error in failed.items())
    return Collected(tasks=tasks, report=GcReport(decisions=tuple(ledger.decisions), dry_run=dry_run))


def _finished(
    table: Table, begun: Begun, waiting: Sequence[CollectionPlan], ledger: collector.Ledger
) -> dict[str, str]:
    """Collect what is of the table, and then the regions that wait for room; what of it failed, and with what."""
    failed: dict[str, str] = {}
    try:
        table._run(collector.finish(table._io, begun, (), ledger))
    except FAILURES as error:
        # AMB-98, checks and deletion are two steps: without the record of the first no region's manifest is written.
        return dict.fromkeys([TABLE, *(str(planned.region) for planned in waiting)], told(error))
    for planned in waiting:
        try:
            table._run(collector.collect_waiting(table._io, planned, begun, ledger))
        except FAILURES as error:
            failed[str(planned.region)] = told(error)
    return failed
