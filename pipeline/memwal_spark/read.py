"""What the driver and the tasks of a Spark read do: plan the engine's merged read once, and stream its splits.

The driver fixes one cut through the table for all partitions, and hands each its share of the fragments of the base and
of the regions (`memwal.Table.plan_read`). A task reads its share and the keys above it, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from memwal.errors import InvalidArgument
from memwal.read.cut import CutGone, Split
from memwal.read.origin import ORIGIN
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from .options import ReadOptions
from .place import open_table

BATCH_ROWS = 65_536


class ReadPartition(InputPartition):  # type: ignore[misc] # pyspark's own types are not read
    """One split of a planned read."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def spark_schema(options: ReadOptions) -> StructType:
    """Schema of a read: the table's, or the columns that were asked for, in the order asked for; of `ORIGIN` too."""
    schema = open_table(options.place).schema
    names = schema.names if options.columns is None else options.columns
    known = {field.name: field.remove_metadata() for field in (*ORIGIN, *schema)}
    unknown = [name for name in names if name not in known]
    if unknown:
        told = f"it has {schema.names}, and rows tell {ORIGIN.names}"
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the table has no columns {unknown}; {told}")
    return from_arrow_schema(pa.schema([known[name] for name in names]))


def plan(options: ReadOptions, schema: StructType, condition: pc.Expression | None) -> Sequence[ReadPartition]:
    """The partitions of a read of the columns of ``schema``: one cut through the table, in splits.

    ``condition``: of the rows; regions and fragments that cannot have such rows are in no partition.
    """
    table, names = open_table(options.place), schema.fieldNames()
    splits = table.plan_read(names, condition, splits=options.partitions, consistency=options.consistency)
    return [ReadPartition(split) for split in splits]


def read_part(options: ReadOptions, schema: StructType, part: ReadPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one partition with the columns of ``schema``."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    # What a moment or a tag names may be another version by now: the cut says which it was.
    place = replace(options.place, version=part.value.cut.version, timestamp=None, tag=None)
    try:
        for rows in open_table(place).batches_of(part.value):
            yield from rows.cast(wanted).to_batches(max_chunksize=BATCH_ROWS)
    except CutGone as gone:
        raise InvalidArgument(f"[MEMWAL_CUT_GONE] {gone}") from gone
