"""Reader and writer behind the data source `memwal`. Both are pickled into the tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument, Outcome
from memwal.region import sequences
from memwal.region.sequences import SequenceBy
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)

from .errors import sentences
from .filters import pushed
from .options import WriteOptions, for_reading, for_writing
from .place import open_table
from .read import ReadPartition, RegionsPartition, list_part, plan, plan_listing, read_part, spark_schema
from .route import bucket_count
from .settling import settle
from .write import RegionTask, TaskWritten

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from memwal import Table
    from pyspark.sql.types import StructType


class MemWalWriter(DataSourceArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Upserts by primary key; each task writes one region."""

    @sentences()
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument(
                "[MEMWAL_NO_OVERWRITE] a MemWAL write is an upsert and cannot replace a table; use .mode('append'), "
                "and create a new table to get rid of the old rows"
            )
        self._options = for_writing(options)
        check(open_table(self._options.place), self._options, schema.fieldNames())

    @sentences()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; see `memwal_spark.write`."""
        done = RegionTask(self._options).run(iterator)
        settle()
        return done

    @sentences()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task has succeeded; all rows are durable already. Writes the report that was asked for.

        Raises `AnotherClaim` if a region was claimed by another process since its task: a second attempt, or another
        job, may have written there meanwhile.
        """
        written = [message for message in messages if isinstance(message, TaskWritten)]
        others = other_claims(open_table(self._options.place), written)
        self._report(messages, complete=not others)
        if others:
            raise AnotherClaim(others)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What the tasks have put stays: each put was durable when it returned."""
        self._report(messages, complete=False)

    def _report(self, messages: list[WriterCommitMessage | None], *, complete: bool) -> None:
        if self._options.report_path is None:
            return
        tasks = [asdict(message) for message in messages if isinstance(message, TaskWritten)]
        content = {"complete": complete, "tasks": sorted(tasks, key=lambda task: task["partition"])}
        Path(self._options.report_path).write_text(json.dumps(content, indent=1))


class AnotherClaim(Outcome):
    """A region has another epoch than the one under which its task wrote: it was claimed since.

    ``others``: of each such region its id, the epoch of the task, and the epoch of the region now.
    """

    SENTENCE = "{reason}"

    def __init__(self, others: Sequence[tuple[str, int, int]]) -> None:
        named = (f"region {region}: written under epoch {ours}, now it is {now}" for region, ours, now in others)
        todo = "run the job again: rows that are stored already are left out"
        super().__init__(
            reason=f"[MEMWAL_ANOTHER_CLAIM] {'; '.join(named)}. Another attempt or job came between; {todo}"
        )
        self.others = tuple(others)


def other_claims(table: Table, written: Sequence[TaskWritten]) -> list[tuple[str, int, int]]:
    """The regions that were claimed again after what was ``written``, with the epoch of the task and the newest one."""
    newest = {str(region.region_id): region.manifest for region in table.regions()}
    found = []
    for region in sorted({task.region_id for task in written if task.region_id is not None}):
        ours = max(task.epoch for task in written if task.region_id == region)
        manifest = newest.get(region)
        if manifest is None or manifest.epoch != ours:
            found.append((region, ours, 0 if manifest is None else int(manifest.epoch)))
    return found


def check(table: Table, options: WriteOptions, columns: list[str]) -> None:
    """Refuse on the driver what every task would refuse."""
    names = table.schema.names
    beside = (options.region_column, options.delete_column)
    extra = [name for name in columns if name not in names and name not in beside]
    missing = [name for name in names if name not in columns]
    if extra or missing:
        raise InvalidArgument(
            f"[MEMWAL_SCHEMA] the rows must have exactly the columns of the table: missing {missing}, unknown {extra}"
        )
    buckets = bucket_count(table)
    if options.regions is not None and options.regions != buckets:
        raise InvalidArgument(
            f"[MEMWAL_REGIONS] option numRegions is {options.regions}, and the table's region spec has "
            + (f"{buckets} buckets" if buckets is not None else "no bucket field of its own")
        )
    named = {
        "sequenceBy": options.sequence_by,
        "regionColumn": options.region_column,
        "deleteColumn": options.delete_column,
    }
    for option, column in named.items():
        if column is not None and column not in columns:
            raise InvalidArgument(f"[MEMWAL_OPTION] option {option} names {column!r}, and the rows have {columns}")
    sequences.checked(SequenceBy(column=options.sequence_by), table.schema, table.primary_key)
    if options.delete_column is not None:
        _check_deletes(table, options)


def _check_deletes(table: Table, options: WriteOptions) -> None:
    """Refuse deletes that the table cannot have: a delete stores the key and the sequence, and NULL in all else."""
    if not table.revision.tombstones:
        raise InvalidArgument(
            f"[MEMWAL_NO_DELETES] option deleteColumn needs revision R, and the table has {table.revision.name}"
        )
    if options.delete_column in table.schema.names:
        raise InvalidArgument(
            f"[MEMWAL_OPTION] option deleteColumn names {options.delete_column!r}, which is a column of the table"
        )
    kept = (*table.primary_key, options.sequence_by)
    strict = [field.name for field in table.schema if field.name not in kept and not field.nullable]
    if strict:
        raise InvalidArgument(
            f"[MEMWAL_NO_DELETES] a delete stores NULL in all columns but key and sequence, and {strict} are NOT NULL: "
            "make these columns nullable, or mark rows as deleted in a column of the table"
        )


class MemWalReader(DataSourceReader):  # type: ignore[misc] # pyspark's own types are not read
    """The merged rows of a table: newest row of each key over base table, generations and WAL."""

    @sentences()
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = for_reading(options)
        self._schema = schema
        self._condition: pc.Expression | None = None

    @sentences()
    def partitions(self) -> list[InputPartition]:
        """Splits of one cut through the table; see `memwal_spark.read`."""
        if self._options.table is not None:
            return list(plan_listing(self._options))
        return list(plan(self._options, self._schema, self._condition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; see `memwal_spark.read`."""
        with sentences():
            if isinstance(partition, RegionsPartition):
                yield from list_part(self._options, self._schema, partition)
                return
            assert isinstance(partition, ReadPartition), "Spark hands out what partitions() gave"
            yield from read_part(self._options, self._schema, partition)


class FilteringReader(MemWalReader):
    """A reader to which Spark hands filters. Spark refuses it where filters are not pushed, so `reader` chooses."""

    @sentences()
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that the engine applies as Spark would; returns the others, for Spark."""
        if self._options.table is not None:
            return filters
        self._condition, left = pushed(filters, open_table(self._options.place).schema)
        return left


PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark's program that pushes filters. It runs only if ``spark.sql.python.filterPushdown.enabled`` is true."""


def reader(options: Mapping[str, str], schema: StructType) -> MemWalReader:
    """The reader that fits the process: one that takes filters in Spark's program that pushes them, else a plain one.

    Spark tells a data source in no other way whether a reader may take filters, and refuses one that may not.
    """
    pushing = PUSHING in sys.modules or getattr(sys.modules["__main__"].__spec__, "name", None) == PUSHING
    return FilteringReader(options, schema) if pushing else MemWalReader(options, schema)


@sentences()
def read_schema(options: Mapping[str, str]) -> StructType:
    """Columns that a read with these options gives."""
    return spark_schema(for_reading(options))
