"""Put the rows of each region into one Spark task of their own, in sequence order.

Which region a row belongs to is decided by the table's region spec. The engine computes it inside Spark, over Arrow
batches, and rows go through the shuffle as Arrow bytes (`memwal_spark.packing`). Where rows stay Spark's own, as those
of `route` do, Spark computes buckets itself and shuffles rows if it can: its ``hash`` is Murmur3 with chained seeds,
and one constant as first argument turns its seed 42 into the seed 0 of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from memwal import cellwise
from memwal.errors import InvalidArgument
from memwal.index import transforms
from memwal.index.transform_table import HASH
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_type

from .errors import sentences
from .options import TableOption
from .packing import PACKED, TASK, Packing, unpacked
from .place import field_names, open_table
from .settling import settle
from .values import as_text

if TYPE_CHECKING:
    from memwal import Table

SEED_ZERO = -1693959553
"""The int32 whose Murmur3 hash with seed 42 is 0: as first argument of Spark's ``hash`` it makes the seed 0."""
BUCKETS = ("bucket", "multi_bucket")
"""Transforms whose region value is a number from 0 to below ``num_buckets``, or NULL."""
TASKS_MOST = 10_000
"""Most distinct region values; more would mean a spec that does not group rows."""

_REGION = "__memwal_region"
_SIGN_BIT_OFF = 0x7FFFFFFF


def route(
    df: DataFrame, table: Table | TableOption | str, *, sequence_by: str, region_column: str | None = None
) -> DataFrame:
    """``df`` with one region per partition, each sorted by ``sequence_by``; columns and rows stay as they are.

    ``table``: the open table, or where it is. ``region_column``: for a table without a region spec, the column of
    ``df`` that holds each row's region id. Costs one shuffle, and, unless the spec is one bucket field, one pass to
    find the distinct region values. A streaming ``df`` comes unsorted, since Spark sorts no streams, and a task may get
    several regions: the streaming sink sorts and divides what it gets. Raises InvalidArgument if ``df`` lacks a column
    that is needed.
    """
    if isinstance(table, str):
        table = TableOption(path=table)
    if isinstance(table, TableOption):
        table = open_table(table)
    buckets = bucket_count(table)
    if df.isStreaming:
        numbered = df.withColumn(_REGION, _region(df, table, sequence_by, region_column))
        return numbered.repartition(*([buckets] if buckets is not None else []), _REGION).drop(_REGION)
    if buckets is not None and _native_bucket(table) is not None:
        # Spark needs no program of Python's for it: rows that go there and back would cost two more.
        numbered = df.withColumn(_REGION, _region(df, table, sequence_by, region_column))
        task = sf.coalesce(sf.col(_REGION), sf.lit(buckets))
        return numbered.repartitionById(_tasks(table, buckets), task).sortWithinPartitions(sequence_by).drop(_REGION)
    packed = gathered(df, table, sequence_by=sequence_by, region_column=region_column)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from unpacked(batches, sequence_by)
        settle()

    return packed.mapInArrow(rows, df.schema)


def gathered(
    df: DataFrame, table: Table, *, sequence_by: str, region_column: str | None, standing_only: bool = False
) -> DataFrame:
    """The rows of ``df``, packed, each region's in a partition of its own; `unpacked` gives them. See `route`.

    ``standing_only``: rows may be left out that another row of their key is above.
    """
    region, buckets = _region(df, table, sequence_by, region_column), bucket_count(table)
    known = _distinct(df.select(region)) if buckets is None else ()
    packing = Packing(
        key=tuple(table.primary_key),
        sequence_by=sequence_by,
        values=None if table.spec is None else _values(table),
        region_column=region_column,
        buckets=buckets,
        known=known,
        standing_only=standing_only,
    )
    tasks = max(1, len(known)) if buckets is None else _tasks(table, buckets)
    return df.mapInArrow(packing.pack, PACKED).repartitionById(tasks, TASK)


def _region(df: DataFrame, table: Table, sequence_by: str, region_column: str | None) -> Column:
    """The region of each row; raises InvalidArgument where nothing says what it is."""
    _require(df, [sequence_by])
    if table.spec is not None:
        return region_of(df, table)
    if region_column is None:
        raise InvalidArgument(
            "[MEMWAL_NO_REGION_COLUMN] the table has no region spec: name the column with each row's region id"
        )
    _require(df, [region_column])
    return sf.col(region_column)


def bucket_count(table: Table) -> int | None:
    """Number of buckets of a spec that is one bucket field; None for any other spec."""
    spec = table.spec
    if spec is None or len(spec.fields) != 1 or spec.fields[0].transform not in BUCKETS:
        return None
    return int(dict(spec.fields[0].parameters)["num_buckets"])


def region_of(df: DataFrame, table: Table) -> Column:
    """The region of each row of ``df``: the bucket (int) for a spec of one bucket field, else its values as text."""
    assert table.spec is not None, "the caller has looked"
    sources = sources_of(table)
    _require(df, sources)
    if not sources:
        return sf.lit("")
    native = _native_bucket(table)
    return _engine_region(table, sources) if native is None else native


def sources_of(table: Table) -> list[str]:
    """Columns that the region spec looks at, without repetition, in its order."""
    names = field_names(table)
    fields = table.spec.fields if table.spec is not None else ()
    return list(dict.fromkeys(names[i] for field in fields for i in field.source_ids if i in names))


def _tasks(table: Table, buckets: int) -> int:
    """One for each bucket, and one where rows may have none: in the textbook profile, where every source is NULL."""
    nullable = all(table.schema.field(name).nullable for name in sources_of(table))
    return buckets + (nullable and not table.revision.null_bucket)


def _native_bucket(table: Table) -> Column | None:
    """The bucket computed by Spark alone; None if the spec is not one bucket field, or Spark hashes other bytes."""
    buckets = bucket_count(table)
    if table.spec is None or buckets is None:
        return None
    region = table.spec.fields[0]
    profile = dict(region.parameters).get(HASH, table.revision.hash_profile)
    names = field_names(table)
    hashed = []
    for source in region.source_ids:
        if source not in names:
            return None
        name = names[source]
        kind = table.schema.field(name).type
        shape = next((shape for accepts, shape in _NATIVE[profile].items() if accepts(kind)), None)
        if shape is None:
            return None
        hashed.append(shape(sf.col(name).cast(from_arrow_type(kind))))
    murmur = sf.hash(sf.lit(SEED_ZERO), *hashed)
    unknown = reduce(and_, (column.isNull() for column in hashed))
    if profile == "R":
        return sf.when(unknown, 0).otherwise(murmur.bitwiseAND(_SIGN_BIT_OFF) % buckets)
    return sf.when(~unknown, sf.abs(murmur.cast("bigint")) % buckets).cast("int")


def _values(table: Table) -> Callable[[pa.Table], pa.Table]:
    """What computes the region values of rows, in a worker of Spark's, which opens no table for it."""
    spec, revision = table.spec, table.revision
    assert spec is not None, "the caller has looked"
    names = field_names(table)
    schema = pa.schema([pa.field(name, table.schema.field(name).type) for name in sources_of(table)])

    def values(rows: pa.Table) -> pa.Table:
        try:
            sources = cellwise.converted(rows, schema)
        except InvalidArgument as failure:
            raise InvalidArgument(f"[MEMWAL_SCHEMA] the rows do not fit the table: {failure}") from failure
        return transforms.evaluate(spec, sources, names, revision=revision)

    return values


def _engine_region(table: Table, sources: Sequence[str]) -> Column:
    """The region computed by the engine's own transforms, over Arrow batches in Spark's Python workers."""
    values, as_bucket = _values(table), bucket_count(table) is not None

    def region(*columns: pa.Array) -> pa.Array:
        with sentences():
            found = values(pa.table(list(columns), names=sources))
        settle()
        return found.column(0).combine_chunks() if as_bucket else as_text(found)

    return sf.arrow_udf(region, "int" if as_bucket else "string")(*sources)


def _distinct(regions: DataFrame) -> tuple[str, ...]:
    """The values of the only column of ``regions``."""
    found = [row[0] for row in regions.distinct().limit(TASKS_MOST + 1).collect()]
    if None in found:
        raise InvalidArgument("[MEMWAL_NULL_REGION] some rows have no region id: give each row one")
    if len(found) > TASKS_MOST:
        raise InvalidArgument(
            f"[MEMWAL_TOO_MANY_REGIONS] the rows have more than {TASKS_MOST} region values: use fewer buckets, or "
            "write in parts"
        )
    return tuple(sorted(found))


def _require(df: DataFrame, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in df.columns]
    if missing:
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the rows lack the columns {missing}; they have {df.columns}")


def _is_micros(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us"


def _widened(column: Column) -> Column:
    return column.cast("bigint")


def _as_is(column: Column) -> Column:
    return column


_Shape = Callable[[Column], Column]
_Accepts = Callable[[pa.DataType], bool]

_NATIVE: Mapping[str, Mapping[_Accepts, _Shape]] = {
    "textbook": {
        pa.types.is_signed_integer: _widened,
        pa.types.is_boolean: lambda column: column.cast("int").cast("bigint"),
        pa.types.is_date32: lambda column: sf.unix_date(column).cast("bigint"),
        _is_micros: _as_is,
    },
    "R": {
        pa.types.is_signed_integer: _as_is,
        pa.types.is_boolean: _as_is,
        pa.types.is_date32: _as_is,
        _is_micros: _as_is,
        pa.types.is_string: _as_is,
    },
}
"""Hash profile -> (column types that Spark's ``hash`` treats alike -> what is handed to it)."""
