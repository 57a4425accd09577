"""What the driver and the tasks of a Spark read do: plan the engine's merged read once, and stream its splits.

The driver fixes one cut through the table for all partitions, and hands each its share of the fragments of the base and
of the regions (`memwal.Table.plan_read`). A task reads its share and the keys above it, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from memwal.errors import InvalidArgument
from memwal.read.cut import CutGone, Split
from memwal.read.merging import Hiding
from memwal.read.origin import ORIGIN
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from .options import ReadOptions
from .place import open_table
from .settling import settle
from .tables import TABLES, ListedRegion, regions, rows
from .types import batches_in_spark, in_spark

TASKS_MOST = 32
"""Tasks among which the regions are divided that a table of `tables.TABLES` is about, by default."""
_HIDING = Hiding()
"""Of this worker: tasks of one read that it does one after another read the keys above the base once."""


class ReadPartition(InputPartition):  # type: ignore[misc] # pyspark's own types are not read
    """One split of a planned read."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def spark_schema(options: ReadOptions) -> StructType:
    """Schema of a read: the table's, or the columns that were asked for, in the order asked for; of `ORIGIN` too."""
    schema = open_table(options.place).schema
    if options.table is not None:
        return _chosen(TABLES[options.table].schema, options.columns, ())
    return _chosen(schema, options.columns, ORIGIN)


def _chosen(schema: pa.Schema, columns: Sequence[str] | None, told: Iterable[pa.Field]) -> StructType:
    """The ``columns`` of ``schema``, or all; those that rows may have ``told`` only where they are named."""
    more = {field.name: field for field in told}
    known = {**more, **{field.name: field.remove_metadata() for field in schema}}
    names = schema.names if columns is None else columns
    unknown = [name for name in names if name not in known]
    if unknown:
        also = f", and rows tell {list(more)}" if more else ""
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the table has no columns {unknown}; it has {schema.names}{also}")
    return in_spark(pa.schema([known[name] for name in names]))


def plan(options: ReadOptions, schema: StructType, condition: pc.Expression | None) -> Sequence[ReadPartition]:
    """The partitions of a read of the columns of ``schema``: one cut through the table, in splits.

    ``condition``: of the rows; regions and fragments that cannot have such rows are in no partition.
    """
    table, names = open_table(options.place), schema.fieldNames()
    splits = table.plan_read(names, condition, splits=options.partitions, consistency=options.consistency)
    return [ReadPartition(split) for split in splits]


def read_part(options: ReadOptions, schema: StructType, part: ReadPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one partition with the columns of ``schema``."""
    # What a moment or a tag names may be another version by now: the cut says which it was.
    place = replace(options.place, version=part.value.cut.version, timestamp=None, tag=None)
    try:
        yield from batches_in_spark(open_table(place).batches_of(part.value, _HIDING), schema)
    except CutGone as gone:
        raise InvalidArgument(f"[MEMWAL_CUT_GONE] {gone}") from gone
    settle()


class RegionsPartition(InputPartition):  # type: ignore[misc] # pyspark's own types are not read
    """Regions of which a task lists what they consist of."""

    def __init__(self, value: Sequence[ListedRegion]) -> None:
        super().__init__(value)


def plan_listing(options: ReadOptions) -> Sequence[RegionsPartition]:
    """The partitions of a read of `tables.TABLES`: all regions, each in one of them."""
    found = regions(open_table(options.place))
    count = max(1, min(options.partitions or TASKS_MOST, len(found)))
    return [RegionsPartition(found[number::count]) for number in range(count)]


def list_part(options: ReadOptions, schema: StructType, part: RegionsPartition) -> Iterator[pa.RecordBatch]:
    """What the regions of one partition consist of, with the columns of ``schema``."""
    name, place = options.table, options.place
    assert name is not None, "the reader has looked"
    listed = (rows(name, open_table(place), region, place.path, place.storage) for region in part.value)
    yield from batches_in_spark(listed, schema)
