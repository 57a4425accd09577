"""Filters that Spark pushes into a read, as conditions of the engine.

The engine applies them above deduplication, and leaves out regions and fragments that cannot match. What is not pushed
Spark applies itself. A filter is pushed only where both say the same of every value: not on floating numbers, whose NaN
Spark orders and equates, and not on parts of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

Condition: TypeAlias = pc.Expression
_Compared = Callable[[Condition, pa.Scalar], Condition]

_COMPARISONS: Mapping[type, _Compared] = {
    spark.EqualTo: lambda column, value: column == value,
    spark.GreaterThan: lambda column, value: column > value,
    spark.GreaterThanOrEqual: lambda column, value: column >= value,
    spark.LessThan: lambda column, value: column < value,
    spark.LessThanOrEqual: lambda column, value: column <= value,
}
_TEXTS: Mapping[type, Callable[[Condition, str], Condition]] = {
    spark.StringStartsWith: pc.starts_with,
    spark.StringEndsWith: pc.ends_with,
    spark.StringContains: pc.match_substring,
}
_KINDS = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_date32, pa.types.is_decimal)
"""Types of columns whose values Spark and Arrow compare alike."""


def pushed(filters: Iterable[spark.Filter], schema: pa.Schema) -> tuple[Condition | None, list[spark.Filter]]:
    """One condition for all filters that can be pushed (None: there are none), and the other filters."""
    conditions: list[Condition] = []
    left = []
    for each in filters:
        condition = _condition(each, schema)
        if condition is None:
            left.append(each)
        else:
            conditions.append(condition)
    return (reduce(and_, conditions) if conditions else None), left


def _condition(asked: spark.Filter, schema: pa.Schema) -> Condition | None:
    """The condition of one filter; None for one that Spark has to apply."""
    if isinstance(asked, spark.Not):
        inner = _condition(asked.child, schema)
        if inner is None or isinstance(asked.child, spark.Not):
            return None
        # Of NULL nothing is known, and so nothing of its negation; Arrow says of IN that NULL is not in the list.
        known = isinstance(asked.child, spark.EqualNullSafe | spark.IsNull | spark.IsNotNull)
        return ~inner if known else ~inner & pc.field(asked.child.attribute[0]).is_valid()
    if len(asked.attribute) != 1 or asked.attribute[0] not in schema.names:
        return None
    column, kind = pc.field(asked.attribute[0]), schema.field(asked.attribute[0]).type
    if isinstance(asked, spark.IsNull):
        return column.is_null()
    if isinstance(asked, spark.IsNotNull):
        return column.is_valid()
    if not any(fits(kind) for fits in _KINDS):
        return None
    return _of_values(asked, column, kind)


def _of_values(asked: spark.Filter, column: Condition, kind: pa.DataType) -> Condition | None:
    if type(asked) in _TEXTS:
        return _TEXTS[type(asked)](column, asked.value) if pa.types.is_string(kind) else None
    if isinstance(asked, spark.In):
        values = [_scalar(value, kind) for value in asked.value]
        known = [value.as_py() for value in values if value is not None]
        return column.isin(pa.array(known, kind)) if len(known) == len(values) else None
    value = _scalar(asked.value, kind)
    if value is None:
        return None
    if isinstance(asked, spark.EqualNullSafe):
        return column.is_valid() & (column == value)
    return _COMPARISONS[type(asked)](column, value) if type(asked) in _COMPARISONS else None


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """``value`` as the column's type; None for NULL, and for what does not fit it unchanged."""
    if not isinstance(value, int | str | date | Decimal):
        return None
    try:
        found = pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return found if found.as_py() == value else None
