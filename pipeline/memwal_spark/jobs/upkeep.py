"""Merge by region, and catch-up by index: what keeps a table small and its reads fast, in Spark's tasks.

The driver only looks which regions have something to merge, or which indexes there are. Tasks commit to the same table:
one that loses a version to another carries its commit over, or begins it again, as any two mergers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import memwal
from memwal.errors import MemwalError, check_name
from memwal.table import coverage

from ..options import TableOption
from ..place import open_table
from .spread import JobDone, Tell, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge(
    spark: SparkSession,
    path: str,
    *,
    regions: Sequence[str] | None = None,
    drain: bool = False,
    replace_rows_of_others: bool = False,
    storage: Mapping[str, str] | None = None,
    tell: Tell | None = None,
) -> JobDone:
    """Merge the flushed generations of each region into the base table, in a task for each region that has some.

    ``regions``: these only. ``drain``: flush what is in the WALs first, under a claim that fences an open writer. A
    task says ``generations`` (numbers), ``rows`` and ``deleted``. Raises InvalidArgument if there is no table, or no
    region of that name.
    """
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

    def work(region: str) -> dict[str, Any]:
        done: list[int] = []

        def listen(event: str, fields: dict[str, object]) -> None:
            if event == "merged":
                done.append(int(str(fields["generation"])))

        opened = memwal.open(place.path, storage_options=place.storage or None, listener=listen)
        try:
            if drain:
                with opened.writer(region) as writer:
                    writer.flush()
            report = opened.merge(region, replace_rows_of_others=replace_rows_of_others)
        except MemwalError as error:
            if done:
                error.add_note(f"generations {done} were merged before that")
            raise
        return {
            "generations": [int(generation) for _, generation in report.merged],
            "rows": report.rows,
            "deleted": report.deleted,
        }

    return JobDone(tasks=spread(spark, wanted, work, tell))


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
