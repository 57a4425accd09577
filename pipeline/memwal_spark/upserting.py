"""One call that routes a DataFrame's rows to their regions and writes them.

The tasks are those of ``format("memwal")``. They give back what they did as rows, so that nothing has to be on the
driver's machine, which under Spark Connect is another one.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from memwal.codec.marks import Mark
from memwal.errors import InvalidArgument
from memwal.region.sequences import LateRows
from memwal.words import counted

from .errors import plain_errors, sentences
from .options import STORAGE_PREFIX, for_writing
from .packing import GIVEN, unpacked
from .place import open_table
from .route import gathered
from .settling import settle
from .source import AnotherClaim, check, other_claims
from .write import CALL, RegionTask, TaskWritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DONE = "done"
_RANDOM_BITS = 20
"""Of the number of a call; what is above them is its time in steps of a millisecond."""


@dataclass(frozen=True, slots=True, repr=False)
class Upserted:
    """What a write did."""

    tasks: tuple[Mapping[str, Any], ...]
    """Of each task what `memwal_spark.write.TaskWritten` says, by partition."""

    def __repr__(self) -> str:
        before = f"{self.finished_before} of {counted(len(self.tasks), 'task')} wrote nothing"
        regions = counted(sum(task["region_id"] is not None for task in self.tasks), "region")
        return (
            f"{counted(self.rows, 'row')} into {regions}: {self.replaced:,} replaced, {self.late:,} late, "
            f"{counted(self.deleted, 'delete')}, {counted(self.generations, 'generation')} flushed"
            + (f"; {before}, since they were finished before" if self.finished_before else "")
        )

    @property
    def rows(self) -> int:
        """Rows that came."""
        return sum(task["rows"] for task in self.tasks)

    @property
    def replaced(self) -> int:
        """Those that were left out, since a row of their key that came with them has a higher sequence."""
        return sum(task["replaced"] for task in self.tasks)

    @property
    def late(self) -> int:
        """Those of the others that were left out, since their sequence was not higher than what stood for their key."""
        return sum(task["late"] for task in self.tasks)

    @property
    def deleted(self) -> int:
        """Those that deleted their key."""
        return sum(task["deleted"] for task in self.tasks)

    @property
    def skipped(self) -> bool:
        """Whether every task with rows was finished before, or the batch older than another of its application."""
        wrote = any(task["region_id"] for task in self.tasks)
        return self.finished_before > 0 and not wrote

    @property
    def finished_before(self) -> int:
        """Tasks that wrote nothing: their batch, or a later one of its application, was finished in their region.

        By an earlier run of the batch, or by another attempt of the same task.
        """
        return sum(task["skipped"] for task in self.tasks)

    @property
    def generations(self) -> int:
        """MemTables that were flushed."""
        return sum(task["generations"] for task in self.tasks)


def upsert(
    df: DataFrame,
    path: str | Path,
    *,
    sequence_by: str,
    late_rows: LateRows = "drop",
    delete_column: str | None = None,
    region_column: str | None = None,
    txn: tuple[str, int] | None = None,
    flush_every_rows: int | None = None,
    revision: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> Upserted:
    """Upsert the rows of ``df`` by the table's primary key, each region in a task of its own; returns what was done.

    The arguments are the options of ``format("memwal")`` in ``docs/spark.md``; ``txn``: application and number of a
    batch, from 0 on, that is written once (under ``spark.speculation`` a call without one is a batch of its own);
    ``storage``: options of the object store, which this process has to reach as the tasks do. Raises InvalidArgument
    before any task, `PySparkException` with our sentence for what failed in one (`memwal_spark.plain_errors`), and
    `AnotherClaim` if a region was claimed by another process since its task.
    """
    given = {
        "path": path,
        "sequenceBy": sequence_by,
        "lateRows": late_rows,
        "deleteColumn": delete_column,
        "regionColumn": region_column,
        "flushEveryRows": flush_every_rows,
        "revision": revision,
        **{f"{STORAGE_PREFIX}{name}": value for name, value in (storage or {}).items()},
    }
    options = for_writing({name: str(value) for name, value in given.items() if value is not None})
    options = replace(options, batch=batch_of(txn, speculates=speculates(df)))
    table = open_table(options.place)
    check(table, options, df.columns)
    # Each row is compared, or written, under the other two.
    standing_only = options.late_rows == "drop"
    key = tuple(table.primary_key) if standing_only else ()

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given: list[int] = []

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                given.extend(batch.column(GIVEN).to_pylist())
                yield batch

        with sentences():
            done = RegionTask(options).run(unpacked(counted(), sequence_by, key=key))
        if not done.skipped:
            done = replace(done, rows=sum(given), replaced=done.replaced + sum(given) - done.rows)
        settle()
        yield pa.RecordBatch.from_pydict({_DONE: [json.dumps(asdict(done))]})

    with plain_errors():
        packed = gathered(df, table, sequence_by=sequence_by, region_column=region_column, standing_only=standing_only)
        found = [json.loads(row[_DONE]) for row in packed.mapInArrow(task, f"{_DONE} string").collect()]
    tasks = sorted(found, key=lambda each: each["partition"])
    others = other_claims(table, [TaskWritten(**each) for each in tasks])
    if others:
        raise AnotherClaim(others)
    return Upserted(tuple(tasks))


def speculates(df: DataFrame) -> bool:
    """Whether Spark may run a second attempt of a task beside the first."""
    return (df.sparkSession.conf.get("spark.speculation", "false") or "").lower() == "true"


def batch_of(txn: tuple[str, int] | None, *, speculates: bool) -> tuple[str, int] | None:
    """Under which application and number the tasks are marked as finished; None: they are not."""
    if txn is None:
        return (CALL, _number_of_call()) if speculates else None
    if txn[0] == CALL:
        raise InvalidArgument(
            f"[MEMWAL_OPTION] {CALL!r} is reserved for calls without a batch: choose another name for the application"
        )
    named = Mark(application=txn[0], batch=txn[1], partitions=())
    return named.application, named.batch


def _number_of_call() -> int:
    """A number that no other call has, and that is higher than those of earlier calls while the clock advances.

    A region keeps the highest one only. Where the clock goes back it may lose the mark of this call, and a copy of a
    task that comes late fails the job then, as it does without any mark.
    """
    return time.time_ns() >> _RANDOM_BITS << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
