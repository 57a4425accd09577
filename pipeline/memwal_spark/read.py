"""What Spark tasks do to read a table: the engine's merged read, whole or shared out by region.

One partition is one merged read, and so one consistent state of the table. With more of them each makes a read of
its own and keeps the rows of its share of the regions: every read is right in itself, and a table that is written to
meanwhile may show different moments in different shares.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from memwal import cellwise
from memwal.errors import InvalidArgument
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from .options import ReadOptions
from .place import open_table
from .values import as_text

BATCH_ROWS = 65_536


class Share(InputPartition):  # type: ignore[misc] # pyspark's own types are not read
    """Share number ``index`` of ``count``."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__((index, count))
        self.index, self.count = index, count


def spark_schema(options: ReadOptions) -> StructType:
    """Schema of a read: the table's, or the columns that were asked for, in the order asked for."""
    schema = open_table(options.place).schema
    names = schema.names if options.columns is None else options.columns
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the table has no columns {unknown}; it has {schema.names}")
    plain = pa.schema([schema.field(name).remove_metadata() for name in names])
    return from_arrow_schema(plain)


def read_share(options: ReadOptions, schema: StructType, share: Share) -> Iterator[pa.RecordBatch]:
    """The rows of one share with the columns of ``schema``."""
    table = open_table(options.place)
    names = schema.fieldNames()
    if share.count == 1:
        rows = table.scan(names, consistency=options.consistency)
    elif table.spec is None:
        raise InvalidArgument(
            "[MEMWAL_ONE_PARTITION] the table has no region spec, so its rows cannot be shared out: leave out option "
            "numPartitions"
        )
    else:
        whole = table.scan(list(dict.fromkeys([*names, *table.primary_key])), consistency=options.consistency)
        rows = cellwise.where(whole, _in_share(table.region_values(whole), share))
    wanted = to_arrow_schema(schema, timezone="UTC")
    yield from rows.select(names).cast(wanted).to_batches(max_chunksize=BATCH_ROWS)


def _in_share(values: pa.Table, share: Share) -> pa.Array:
    """Which rows are of the share; every region value has one, whether its region is registered or not."""
    joined = as_text(values)
    distinct = joined.unique().to_pylist()
    mine = [text for text in distinct if zlib.crc32(text.encode()) % share.count == share.index]
    return pc.is_in(joined, value_set=pa.array(mine, joined.type))
