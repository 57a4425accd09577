"""Reader and writer behind the data source `memwal`. Both are pickled into the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage

from .options import WriteOptions, for_reading, for_writing
from .place import open_table
from .read import Share, read_share, spark_schema
from .route import bucket_count
from .write import RegionTask, Written

if TYPE_CHECKING:
    import pyarrow as pa
    from memwal import Table
    from pyspark.sql.types import StructType


class MemWalWriter(DataSourceArrowWriter):  # type: ignore[misc] # pyspark's own types are not read
    """Upserts by primary key; each task writes one region."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument(
                "[MEMWAL_NO_OVERWRITE] a MemWAL write is an upsert and cannot replace a table; use .mode('append'), "
                "and create a new table where the old rows are to go"
            )
        self._options = for_writing(options)
        _check(open_table(self._options.place), self._options, schema.fieldNames())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; see `memwal_spark.write`."""
        return RegionTask(self._options).run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task has succeeded; all rows are durable already. Writes the report that was asked for."""
        self._report(messages, complete=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What the tasks have put stays: each put was durable when it returned."""
        self._report(messages, complete=False)

    def _report(self, messages: list[WriterCommitMessage | None], *, complete: bool) -> None:
        if self._options.report_path is None:
            return
        tasks = [asdict(message) for message in messages if isinstance(message, Written)]
        content = {"complete": complete, "tasks": sorted(tasks, key=lambda task: task["partition"])}
        Path(self._options.report_path).write_text(json.dumps(content, indent=1))


def _check(table: Table, options: WriteOptions, columns: list[str]) -> None:
    """Refuse on the driver what every task would refuse."""
    names = table.schema.names
    extra = [name for name in columns if name not in names and name != options.region_column]
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
    for option, column in (("sequenceBy", options.sequence_by), ("regionColumn", options.region_column)):
        if column is not None and column not in columns:
            raise InvalidArgument(f"[MEMWAL_OPTION] option {option} names {column!r}, and the rows have {columns}")


class MemWalReader(DataSourceReader):  # type: ignore[misc] # pyspark's own types are not read
    """The merged rows of a table: newest row of each key over base table, generations and WAL."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = for_reading(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One, unless option numPartitions asks for more."""
        return [Share(index, self._options.partitions) for index in range(self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; see `memwal_spark.read`."""
        assert isinstance(partition, Share), "Spark hands out what partitions() gave"
        return read_share(self._options, self._schema, partition)


def read_schema(options: Mapping[str, str]) -> StructType:
    """Columns that a read with these options gives."""
    return spark_schema(for_reading(options))
