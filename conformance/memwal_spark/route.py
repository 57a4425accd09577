"""Put the rows of each region into one Spark task of their own, in sequence order.

Which region a row belongs to is decided by the table's region spec. Where Spark can compute that natively it does: its
``hash`` is Murmur3 with chained seeds, and one constant as first argument turns its seed 42 into the seed 0 of the
specification. For every other spec the engine computes it, inside Spark, over Arrow batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from memwal.errors import InvalidArgument

from .options import Place
from .place import open_table

if TYPE_CHECKING:
    from memwal import Table

SEED_ZERO = -1693959553
"""The int32 whose Murmur3 hash with seed 42 is 0: as first argument of Spark's ``hash`` it makes the seed 0."""

_REGION = "__memwal_region"
_TASK = "__memwal_task"
_REGIONS_MOST = 10_000
"""Most distinct region values that are given tasks of their own; more would mean a spec that does not group rows."""


def route(df: DataFrame, table: Table | Place | str, *, sequence_by: str, region_column: str | None = None) -> DataFrame:
    """``df`` with one region per partition, each sorted by ``sequence_by``; columns and rows stay as they are.

    ``table``: the open table, or where it is. ``region_column``: for tables without a region spec, the column of
    ``df`` that holds each row's region id. Costs one shuffle; for a spec other than one bucket field also one pass to
    find the distinct region values. Raises InvalidArgument if ``df`` lacks a column that is needed.
    """
    if isinstance(table, str):
        table = Place(path=table)
    if isinstance(table, Place):
        table = open_table(table)
    _require(df, [sequence_by])
    if table.spec is None:
        if region_column is None:
            raise InvalidArgument(
                "[MEMWAL_NO_REGION_COLUMN] the table has no region spec: name the column with each row's region id"
            )
        _require(df, [region_column])
        numbered, tasks = _by_value(df, F.col(region_column))
    else:
        _require(df, table.primary_key)
        numbered, tasks = _by_spec(df, table)
    return numbered.repartitionById(tasks, _TASK).sortWithinPartitions(sequence_by).drop(_TASK)


def native_bucket(df: DataFrame, table: Table) -> Column | None:
    """The bucket of each row, computed by Spark itself; None if the spec or a column's type needs the engine."""
    spec = table.spec
    if spec is None or len(spec.fields) != 1 or not is_bucket(spec.fields[0]):
        return None
    region = spec.fields[0]
    columns = [_native(df, table, name) for name in source_columns(table, region)]
    ...
