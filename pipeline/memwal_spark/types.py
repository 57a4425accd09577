"""The types of a table's columns as Spark has them, and rows in these types.

Spark has no unsigned numbers, no half floats and no dates with a time. Such a column is read in the narrowest type of
Spark's that has all of its values. A value that Spark cannot hold, such as a part of a microsecond, is an error and
never another value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from memwal import cellwise
from memwal.errors import InvalidArgument
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

BATCH_ROWS = 65_536
"""Most rows of a batch that Spark is given."""
_WIDENED: Mapping[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_DIGITS_MOST = 38


def in_spark(schema: pa.Schema) -> StructType:
    """``schema`` in Spark's types. Raises InvalidArgument, which names the column, for a type that Spark has not."""
    return StructType([StructField(field.name, _kind(field), field.nullable) for field in schema])


def batches_in_spark(parts: Iterable[pa.Table], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The columns of ``schema`` of all rows, in its types. Raises InvalidArgument, which names the column."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    for rows in parts:
        columns = [_cast(rows.column(field.name), field) for field in wanted]
        yield from pa.table(columns, schema=wanted).to_batches(max_chunksize=BATCH_ROWS)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return cellwise.cast(column, field.type)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"[MEMWAL_TYPE] column {field.name} has a value that does not fit Spark's "
            f"{from_arrow_type(field.type).simpleString()}: {error}. Read the other columns with option columns"
        ) from error


def _kind(field: pa.Field) -> DataType:
    try:
        return from_arrow_type(_widened(field.type))
    except PySparkTypeError as error:
        raise InvalidArgument(
            f"[MEMWAL_TYPE] column {field.name} has type {field.type}, which Spark does not have: read the other "
            "columns, with option columns"
        ) from error


def _widened(kind: pa.DataType) -> pa.DataType:
    """``kind``, and the types within, as Spark knows them. Raises PySparkTypeError."""
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return pa.struct([field.with_type(_widened(field.type)) for field in fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_widened(kind.value_type)))
    if pa.types.is_decimal(kind):
        # Spark has no negative scale: hundreds are whole numbers.
        digits = kind.precision - min(0, kind.scale)
        if digits > _DIGITS_MOST:
            raise PySparkTypeError(f"{kind} has more than {_DIGITS_MOST} digits")
        return pa.decimal128(digits, max(0, kind.scale))
    if pa.types.is_time32(kind):
        return pa.time64("us")
    return _WIDENED.get(kind, kind)
