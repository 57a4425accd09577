"""Merge and snapshot by region, and catch-up by index: what keeps a table small and its reads fast, in Spark's tasks.

The driver only looks which regions have something to merge, or which indexes there are. Tasks commit to the same table:
one that loses a version to another carries its commit over, or begins it again, as any two mergers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

from memwal.errors import InvalidArgument, check_name
from memwal.index import discovery
from memwal.index import regions as building
from memwal.index.regions import Scanned
from memwal.jobs.defaults import COMMIT_EVERY, COMPACT_OVER
from memwal.jobs.merger import Merged
from memwal.table import coverage

from ..options import TableOption
from ..place import open_table
from .spread import FAILURES, JobDone, Tell, pickled, spread, spread_groups, unpickled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Name = TypeVar("Name", bound=str)


def merge(
    spark: SparkSession,
    path: str,
    *,
    regions: Sequence[str] | None = None,
    drain: bool = False,
    commit_every: int = COMMIT_EVERY,
    compact_over: int = COMPACT_OVER,
    replace_rows_of_others: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> JobDone:
    """Merge the flushed generations of each region into the base table; tasks share the regions that have some.

    ``regions``: these only. ``drain``: flush what is in the WALs first, under a claim that fences an open writer.
    ``commit_every``: most regions in a task, and in one of its commits. ``compact_over``: if the base then has more
    than so many small fragments of one size, the driver rewrites them as one; 0: never. What is said of each region:
    ``generations`` (numbers), ``rows`` and ``deleted``. Raises InvalidArgument if there is no table, or no
    region of that name. An error of the rewriting is raised when all else is done, and leaves what was merged.
    """
    if commit_every < 1:
        raise InvalidArgument(f"[MEMWAL_OPTION] commit_every={commit_every} must be a number of regions, at least 1")
    if compact_over < 0:
        raise InvalidArgument(f"[MEMWAL_OPTION] compact_over={compact_over} must be 0 (never) or more")
    place = TableOption(path=path, storage=dict(storage or {}))
    known = {str(region.region_id): region for region in open_table(place).regions()}
    for name in regions or ():
        check_name("region", name, known)
    wanted = [
        name
        for name, region in known.items()
        if (regions is None or name in regions)
        and region.manifest is not None
        and (drain or any(listed.generation > region.merged for listed in region.manifest.flushed))
    ]

    def work(group: Sequence[str]) -> dict[str, dict[str, Any] | Exception]:
        opened = open_table(place)
        failed: dict[str, Exception] = {}
        for region in group if drain else ():
            try:
                with opened.writer(region) as writer:
                    writer.flush()
            except FAILURES as error:
                failed[region] = error
        done: list[Merged] = []

        def merged(names: Sequence[str]) -> dict[str, Exception]:
            """Merge regions in common commits; what stops all of them may be wrong with one, so each is tried alone."""
            try:
                unmerged = opened._merged(names, None, commit_every, replace_rows_of_others, done)
            except FAILURES as error:
                return {names[0]: error} if len(names) == 1 else reduce(or_, (merged([name]) for name in names))
            return {str(region): failure for region, failure in unmerged.items()}

        flushed = [region for region in group if region not in failed]
        failed |= merged(flushed) if flushed else {}
        found: dict[str, dict[str, Any] | Exception] = {}
        for region in group:
            own = [each for each in done if each.region_id == region]
            generations = [int(each.generation) for each in own]
            failure = failed.get(region)
            if failure is not None and own:
                failure.add_note(f"generations {generations} were merged before that")
            sums = {"rows": sum(each.rows for each in own), "deleted": sum(each.deleted for each in own)}
            found[region] = failure or {"generations": generations, **sums}
        return found

    tasks = spread_groups(spark, _shares(wanted, commit_every, _slots(spark)), work, tell)
    # Tasks that did so would rewrite fragments that another one's commit needs.
    merged = any(task.found and task.found["generations"] for task in tasks)
    return JobDone(tasks=tasks, compacted=open_table(place)._compacted(compact_over) if merged else 0)


def _shares(regions: Sequence[Name], commit_every: int, slots: int) -> list[Sequence[Name]]:
    """The regions of each task: one for each slot of the cluster, or as many as no task is larger than a commit."""
    count = max(min(slots, len(regions)), -(-len(regions) // commit_every))
    return [regions[number::count] for number in range(count)]


def _slots(spark: SparkSession) -> int:
    """Tasks that the cluster runs at once; 1 where the session does not say, as one of Spark Connect."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 1


def snapshot(
    spark: SparkSession,
    path: str,
    *,
    whole: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> JobDone:
    """Rebuild the region snapshot that eventual reads use; tasks share the regions, and the driver commits.

    ``whole``: read every manifest, also those that have not changed since the last snapshot. A task says ``regions``
    (how many it found). If one fails nothing is committed: a snapshot is of all regions. Raises InvalidArgument if
    there is no table.
    """
    place = TableOption(path=path, storage=dict(storage or {}))
    table = open_table(place)
    named = table._run(discovery.folders(table._io))
    shares = {str(number): share for number, share in enumerate(_shares(named, len(named) or 1, _slots(spark)))}

    def work(number: str) -> dict[str, Any]:
        there = open_table(place)
        scanned = there._run(building.scan(there._io, there._state, shares[number], whole=whole))
        return {"regions": len(scanned.rows), "scanned": pickled(scanned)}

    tasks = spread(spark, list(shares), work, tell)
    found: list[Scanned] = [unpickled(task.found.pop("scanned")) for task in tasks if task.found is not None]
    if found and len(found) == len(tasks):
        rows = tuple(row for scanned in found for row in scanned.rows)
        together = Scanned(started=min(scanned.started for scanned in found), rows=rows)
        table._run(building.build_snapshot(table._io, scanned=together))
    return JobDone(tasks=tasks)


def catch_up(
    spark: SparkSession,
    path: str,
    *,
    indexes: Sequence[str] | None = None,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> JobDone:
    """Extend indexes of the base table over what was merged, in a task for each index.

    ``indexes``: these only; else all over columns. A task says ``version_indexed``, ``fragments`` (numbers of those
    that were added), ``caught_up`` (region -> generation) and ``committed``. Raises InvalidArgument if there is no
    table, or no index of that name.
    """
    place = TableOption(path=path, storage=dict(storage or {}))
    known = coverage.index_names(open_table(place)._state)
    for name in indexes or ():
        check_name("index", name, known)

    def work(index: str) -> dict[str, Any]:
        (done,) = open_table(place).catch_up(index).indexes
        return {
            "version_indexed": int(done.version_indexed),
            "fragments": [int(fragment) for fragment in done.fragments],
            "caught_up": {str(region): int(generation) for region, generation in done.credited},
            "committed": done.committed,
        }

    return JobDone(tasks=spread(spark, known if indexes is None else indexes, work, tell))
