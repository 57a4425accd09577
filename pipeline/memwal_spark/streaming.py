"""The streaming sink: each batch of a query is upserted once, however often Spark gives it.

Spark gives a batch again when a query starts whose checkpoint does not say that it is finished. Its rows may be divided
among other tasks then. So a region's mark of (application, batch) says only that the batch was written there once, and
the sequences say which rows of it are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from memwal import cellwise
from memwal.codec.marks import Mark
from memwal.errors import InvalidArgument
from memwal.index.dividing import divided
from memwal.region.sequences import LateRows
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from .options import STORAGE_PREFIX, TableOption, WriteOptions, for_writing_streams
from .place import open_table
from .route import route, sources_of
from .settling import settle
from .source import AnotherClaim, check, other_claims
from .write import ROUTE, RegionTask, TaskWritten, check_given, check_regions, context

if TYPE_CHECKING:
    from memwal import Table
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of the tasks of a streaming query."""


@dataclass(frozen=True, slots=True)
class BatchPart(WriterCommitMessage):  # type: ignore[misc] # pyspark's own types are not read
    """What one task of a batch wrote."""

    regions: tuple[TaskWritten, ...]


class MemWalStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Upserts by primary key; all rows of a region have to be in one task, which `route` sees to."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument(
                "[MEMWAL_NO_OVERWRITE] a MemWAL write is an upsert and cannot replace a table; use "
                ".outputMode('append') or .outputMode('update')"
            )
        self._options = for_writing_streams(options)
        check(open_table(self._options.place), self._options, schema.fieldNames())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of the batch, region by region; they are in memory at once."""
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return BatchPart(())
        rows, table, task = pa.Table.from_batches(batches), open_table(self._options.place), context()
        mark = _mark(task, self._options)
        check_given(table.primary_key, rows, self._options.sequence_by)
        shares = _by_region(table, rows, self._options)
        done = BatchPart(tuple(RegionTask(self._options).write(table, share, mark) for share in shares))
        settle()
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Every task has succeeded; all rows are durable already.

        Raises `AnotherClaim` if another process has claimed a region since its task, and InvalidArgument if two tasks
        of the batch had rows of one region: with late rows that are kept an older row may have won. The batch comes
        again.
        """
        written = [part for message in messages if isinstance(message, BatchPart) for part in message.regions]
        tasks = Counter(part.region_id for part in written if part.region_id is not None)
        twice = sorted(region for region, count in tasks.items() if count > 1)
        if twice:
            raise InvalidArgument(
                f"[MEMWAL_TWO_TASKS] several tasks of batch {batchId} have rows of region {twice[0]}; {ROUTE}"
            )
        others = other_claims(open_table(self._options.place), written)
        if others:
            raise AnotherClaim(others)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """A task failed for good. What the tasks have put stays, and is late when the batch comes again."""


def _mark(task: TaskContext, options: WriteOptions) -> Mark:
    query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
    if query is None or batch is None:
        raise InvalidArgument(
            f"[MEMWAL_NO_BATCH] Spark has not set {QUERY} and {BATCH}: use this format only in a streaming query"
        )
    return Mark(application=options.application or query, batch=int(batch), partitions=(task.partitionId(),))


def _by_region(table: Table, rows: pa.Table, options: WriteOptions) -> Iterator[pa.Table]:
    """The rows of each region."""
    if table.spec is not None:
        wanted = pa.schema([pa.field(name, table.schema.field(name).type) for name in sources_of(table)])
        values = table.region_values(cellwise.converted(rows, wanted))
        yield from (share for _, share in divided(rows, values).values())
    elif options.region_column is not None:
        regions = rows[options.region_column]
        check_regions(regions)
        yield from (rows.filter(pc.equal(regions, region)) for region in pc.unique(regions))
    else:
        raise InvalidArgument(
            "[MEMWAL_NO_REGION_COLUMN] the table has no region spec, so option regionColumn must name the column "
            "that holds each row's region id"
        )


def upsert_stream(
    df: DataFrame,
    path: str | Path,
    *,
    sequence_by: str,
    checkpoint: str | Path,
    trigger: Mapping[str, object] | None = None,
    query_name: str | None = None,
    late_rows: LateRows = "drop",
    delete_column: str | None = None,
    region_column: str | None = None,
    application: str | None = None,
    flush_every_rows: int | None = None,
    flush_every_entries: int | None = None,
    revision: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a query that upserts the rows of the streaming ``df``, each region in a task of its own; returns it.

    ``checkpoint``: Spark's folder of what the query has done. ``trigger``: as for ``DataStreamWriter.trigger``, for
    example ``{"processingTime": "10 seconds"}`` or ``{"availableNow": True}``. The other arguments are the options of
    ``writeStream.format("memwal")`` in ``docs/spark.md``. Raises InvalidArgument; the query raises what happens later.
    """
    place = TableOption(path=str(path), revision=revision, storage=dict(storage or {}))
    given = {
        "sequenceBy": sequence_by,
        "checkpointLocation": checkpoint,
        "lateRows": late_rows,
        "deleteColumn": delete_column,
        "regionColumn": region_column,
        "txnAppId": application,
        "flushEveryRows": flush_every_rows,
        "flushEveryEntries": flush_every_entries,
        "revision": revision,
        **{f"{STORAGE_PREFIX}{name}": value for name, value in place.storage.items()},
    }
    options = {name: str(value) for name, value in given.items() if value is not None}
    check(open_table(place), for_writing_streams({"path": str(path), **options}), df.columns)
    routed = route(df, place, sequence_by=sequence_by, region_column=region_column)
    writer = routed.writeStream.format("memwal").options(**options)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.start(str(path))
