"""What one Spark task does to write its rows: one region, one claim, in sequence order.

A task that Spark runs again claims the region again, with a higher epoch that fences its predecessor, and gives its
rows again from the first. Whatever the other attempt left, and whatever other jobs wrote, is compared by its sequence:
rows that are not higher are late and left out (AMB-148), so that an attempt which comes late, after another one has
written everything, writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from memwal import cellwise
from memwal.codec.marks import Mark, is_done
from memwal.errors import InvalidArgument, LateRow
from memwal.ids import RegionId, region_id
from memwal.keys import last_of_each
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from .options import WriteOptions
from .place import open_table

if TYPE_CHECKING:
    from memwal import Table, Writer

_STORED = "memwal.stored_sequence"
CALL = "memwal.upsert"
"""Application of the marks of a call of `memwal_spark.upsert` whose caller names no batch. Their numbers say nothing of
an order: the task of a call is finished only if its own number is found."""
ROUTE = "give every region a task of its own: df = memwal_spark.route.route(df, path, sequence_by=…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWritten(WriterCommitMessage):  # type: ignore[misc] # pyspark's own types are not read
    """What one successful task wrote."""

    partition: int
    attempt: int
    """0 for the first attempt of the task."""
    task_attempt: int
    """Spark's number for this attempt, unique in the application."""
    region_id: str | None
    """None if the task had no rows."""
    epoch: int
    position: int | None
    """Position of the last WAL entry before this writer closed; None if there is none."""
    rows: int
    """Rows of the task."""
    replaced: int
    """Those of them that were left out, since another one of them, of the same key, has a higher sequence."""
    late: int
    """Those of the others that were left out, since their sequence was not higher than what stood for their key."""
    deleted: int
    """Those of them that deleted their key."""
    puts: int
    generations: int
    """MemTables that this task flushed."""
    skipped: bool
    """The task was finished before, or the batch is older than another one of its application: nothing was read."""
    seconds: float


class RegionTask:
    """Writes the rows of one task. Use once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._last: pa.Scalar | None = None
        self._values: dict[str, object] = {}
        self._rows = self._replaced = self._late = self._deleted = 0
        self._puts = self._generations = self._unflushed = 0

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Put every batch durably, flushing the MemTable now and then; the rest stays in the WAL.

        Raises InvalidArgument for rows out of sequence or of two regions, or the engine's `Outcome`.
        """
        started = time.monotonic()
        table = open_table(self._options.place)
        filled = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return self._written(None, started)
        region, mark = self._region(table, first), self._mark()
        # Looked for without a claim first, so that an attempt that comes late does not fence, or fail, the job.
        if mark is not None and _marked(table.done(region), mark):
            return self._written(None, started, skipped=True)
        with self._open(table, region) as writer:
            if mark is not None and _marked(writer.done(), mark):
                return self._written(None, started, skipped=True)
            self._put(table, writer, first)
            for rows in filled:
                self._put(table, writer, rows)
            if mark is not None:
                writer.finish(mark.application, mark.batch, mark.partitions[0])
        return self._written(writer, started)

    def _open(self, table: Table, region: RegionId) -> AbstractContextManager[Writer]:
        """Claim the region, for as long as the context is open."""
        return table.writer(region, sequence_by=self._options.sequence_by, late_rows=self._options.late_rows)

    def write(self, table: Table, rows: pa.Table, mark: Mark) -> TaskWritten:
        """Put all of ``rows``, which are of one region and come in any order, and behind them the ``mark``.

        The mark is no more than a hint: a task that finds it, or that of a later batch, looks whether the rows are
        stored, and only then claims nothing. So what is left of a batch is written, however it was divided among tasks.
        """
        started = time.monotonic()
        rows = rows.take(pc.sort_indices(rows, [(self._options.sequence_by, "ascending")]))
        region = self._region(table, rows)
        if _marked(table.done(region), mark) and self._all_stored(table, rows):
            return self._written(None, started, skipped=True)
        with self._open(table, region) as writer:
            self._put(table, writer, rows)
            writer.finish(mark.application, mark.batch, mark.partitions[0])
            if writer.rows >= self._options.flush_rows or writer.entries >= self._options.flush_entries:
                self._generations += writer.flush() is not None
        return self._written(writer, started)

    def _all_stored(self, table: Table, rows: pa.Table) -> bool:
        """Whether for the key of each of ``rows`` a row stands whose sequence is not lower.

        Nothing stands for a key that is deleted: then the answer is no, and the writer compares.
        """
        key, by = list(table.primary_key), self._options.sequence_by
        wanted = pa.schema([pa.field(name, table.schema.field(name).type) for name in dict.fromkeys([*key, by])])
        last = cellwise.converted(last_of_each(rows, table.primary_key), wanted)
        stored = table.get(last.select(key), columns=[*key, by]).rename_columns([*key, _STORED])
        pairs = last.join(stored, keys=key)
        return bool(pc.all(pc.fill_null(pc.greater_equal(pairs[_STORED], pairs[by]), False)).as_py())

    def _mark(self) -> Mark | None:
        if self._options.batch is None:
            return None
        application, batch = self._options.batch
        return Mark(application=application, batch=batch, partitions=(context().partitionId(),))

    def _region(self, table: Table, first: pa.Table) -> RegionId:
        column = self._options.region_column
        check_given(table.primary_key, first, self._options.sequence_by)
        if table.spec is not None:
            self._values = table.region_values(self._stored(table, first.slice(0, 1))).to_pylist()[0]
            return table.register_region(self._values)
        if column is None:
            raise InvalidArgument(
                "[MEMWAL_NO_REGION_COLUMN] the table has no region spec, so option regionColumn must name the column "
                "that holds each row's region id"
            )
        return _named(first[column])

    def _put(self, table: Table, writer: Writer, rows: pa.Table) -> None:
        check_given(table.primary_key, rows, self._options.sequence_by)
        self._check_order(rows)
        self._check_region(writer, rows)
        given = rows.num_rows
        if self._options.delete_column is not None:
            # Deletes and upserts are two writes: of a key that has both here the last one counts.
            rows = last_of_each(rows, table.primary_key)
            self._replaced += given - rows.num_rows
        gone = self._gone(rows)
        stored = self._stored(table, rows if gone is None else rows.filter(pc.invert(gone)))
        try:
            done = writer.put(stored, durable=True)
            self._replaced += done.replaced
            self._late += done.late
            if gone is not None and pc.any(gone).as_py():
                self._delete(table, writer, rows.filter(gone))
        except LateRow:
            raise
        except InvalidArgument as refused:
            if table.spec is None or all(v == self._values for v in table.region_values(stored).to_pylist()):
                raise
            raise InvalidArgument(f"[MEMWAL_TWO_REGIONS] {refused}; {ROUTE}") from refused
        self._rows += given
        self._puts += 1
        self._unflushed += given
        if self._unflushed >= self._options.flush_rows:
            self._generations += writer.flush() is not None
            self._unflushed = 0

    def _gone(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which of ``rows`` delete their key; None without a delete column. NULL does not."""
        if self._options.delete_column is None:
            return None
        return pc.fill_null(rows[self._options.delete_column], False)

    def _delete(self, table: Table, writer: Writer, rows: pa.Table) -> None:
        names = [*table.primary_key, self._options.sequence_by]
        wanted = pa.schema([pa.field(name, table.schema.field(name).type) for name in names])
        done = writer.delete(cellwise.converted(rows, wanted), durable=True)
        self._late += done.late
        self._deleted += done.rows

    def _check_order(self, rows: pa.Table) -> None:
        sequence = rows[self._options.sequence_by]
        before = sequence[0] if self._last is None else self._last
        ordered = pa.concat_arrays([pa.array([before], sequence.type), *sequence.chunks])
        falls = pc.less(ordered.slice(1), ordered.slice(0, len(ordered) - 1))
        if pc.any(falls).as_py():
            at = pc.index(falls, True).as_py()
            raise InvalidArgument(
                f"[MEMWAL_OUT_OF_SEQUENCE] {self._options.sequence_by} falls from {ordered[at]} to {ordered[at + 1]} "
                f"within a task, so an older row would win; {ROUTE}"
            )
        self._last = sequence[-1]

    def _check_region(self, writer: Writer, rows: pa.Table) -> None:
        """For manual regions; under a region spec the engine's writer refuses foreign rows by itself."""
        column = self._options.region_column
        if column is None:
            return
        other = pc.fill_null(pc.not_equal(rows[column], pa.scalar(str(writer.region_id))), True)
        if pc.any(other).as_py():
            found = rows[column].filter(other)[0]
            raise InvalidArgument(
                f"[MEMWAL_TWO_REGIONS] a task has rows of regions {writer.region_id} and {found}; {ROUTE}"
            )

    def _stored(self, table: Table, rows: pa.Table) -> pa.Table:
        """``rows`` with the table's columns and types; NULLs are the engine's to refuse."""
        wanted = pa.schema([pa.field(column.name, column.type) for column in table.schema])
        try:
            return cellwise.converted(rows, wanted)
        except InvalidArgument as failure:
            raise InvalidArgument(f"[MEMWAL_SCHEMA] the rows do not fit the table: {failure}") from failure

    def _written(self, writer: Writer | None, started: float, *, skipped: bool = False) -> TaskWritten:
        task = context()
        return TaskWritten(
            partition=task.partitionId(),
            attempt=task.attemptNumber(),
            task_attempt=task.taskAttemptId(),
            region_id=None if writer is None else str(writer.region_id),
            epoch=0 if writer is None else int(writer.epoch),
            position=None if writer is None else int(writer.position_next) - 1,
            rows=self._rows,
            replaced=self._replaced,
            late=self._late,
            deleted=self._deleted,
            puts=self._puts,
            generations=self._generations,
            skipped=skipped,
            seconds=time.monotonic() - started,
        )


def _named(regions: pa.ChunkedArray) -> RegionId:
    """The region that the first row names."""
    check_regions(regions)
    text = str(regions[0].as_py())
    try:
        return region_id(text)
    except ValueError as error:
        raise InvalidArgument(f"[MEMWAL_NO_REGION_ID] a row has the region id {text!r}: {error}") from error


def check_regions(regions: pa.ChunkedArray) -> None:
    """Refuse rows that name no region."""
    if regions.null_count:
        raise InvalidArgument("[MEMWAL_NULL_REGION] some rows have no region id: give each row one")


def check_given(key: Iterable[str], rows: pa.Table, sequence_by: str) -> None:
    """Refuse rows without a key or a sequence; a key that is NULL would seem to be of another region."""
    for name in key:
        if rows[name].null_count:
            raise InvalidArgument(f"[MEMWAL_NULL_KEY] key column {name} has NULLs")
    if rows[sequence_by].null_count:
        raise InvalidArgument(f"[MEMWAL_NULL_SEQUENCE] column {sequence_by} has NULLs")


def _marked(marks: Iterable[Mark], wanted: Mark) -> bool:
    """Whether some task of the batch of ``wanted`` is finished, or of a later one of its application."""
    if wanted.application == CALL:
        return any((mark.application, mark.batch) == (CALL, wanted.batch) for mark in marks)
    return is_done(marks, replace(wanted, partitions=()))


def context() -> TaskContext:
    """Of the task that this process runs."""
    task = TaskContext.get()
    assert task is not None, "a task always has a context"
    return task
