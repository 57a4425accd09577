"""The columns of a DataFrame in the types of a table where no value changes; else the job names the value."""

from __future__ import annotations

from collections.abc import Sequence

from memwal.errors import InvalidArgument
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

_MICROS = r"\.\d{6}\d*[1-9]"
"""A text with a part of a second that is finer than a microsecond, which Spark's timestamps are."""


def fitted(df: DataFrame, types: st.StructType, beside: Sequence[str] = ()) -> DataFrame:
    """``df`` with exactly the columns of ``types``, in its order and types, and the columns ``beside`` as they are.

    ``types``: the table's columns as Spark has them. Raises InvalidArgument for columns that are missing or that the
    table does not have. A value that does not fit fails the job that reads it, with ``[MEMWAL_CAST]``.
    """
    names = [field.name for field in types]
    missing = [name for name in names if name not in df.columns]
    extra = [name for name in df.columns if name not in names and name not in beside]
    if missing or extra:
        raise InvalidArgument(
            f"[MEMWAL_SCHEMA] the rows must have exactly the columns of the table: missing {missing}, unknown {extra}; "
            "columns that are not to be stored are named with ignore"
        )
    cast = [_as(field.name, df.schema[field.name].dataType, field.dataType).alias(field.name) for field in types]
    return df.select(*cast, *(sf.col(_quoted(name)) for name in beside))


def _as(name: str, given: st.DataType, wanted: st.DataType) -> Column:
    """The column ``name`` as ``wanted``."""
    column = sf.col(_quoted(name))
    if given.simpleString() == wanted.simpleString():
        return column
    if isinstance(given, st.NullType):
        return column.cast(wanted)
    wanted = _nullable(wanted)
    found = column.try_cast(wanted)
    text = isinstance(given, st.StringType)
    same = _text_kept(column, found, wanted) if text else found.cast(_nullable(given)) == column
    told = f"[MEMWAL_CAST] column {name}: a value does not fit {wanted.simpleString()} as it is: "
    shown = sf.coalesce(sf.to_json(sf.struct(column)), sf.lit("")) if _nested(given) else column.cast("string")
    refused = sf.raise_error(sf.concat(sf.lit(told), shown)).cast(wanted)
    return sf.when(column.isNull() | sf.coalesce(same, sf.lit(False)), found).otherwise(refused)


def _text_kept(text: Column, found: Column, wanted: st.DataType) -> Column:
    """Whether what Spark read in a text is all that it says; Spark rounds decimals and cuts times without a word."""
    if isinstance(wanted, st.DecimalType):
        whole = wanted.precision - wanted.scale
        return found == text.try_cast(st.DecimalType(38, 38 - whole))
    if isinstance(wanted, st.DateType):
        return found.cast(st.TimestampNTZType()) == text.try_cast(st.TimestampNTZType())
    if isinstance(wanted, st.TimestampType | st.TimestampNTZType):
        return found.isNotNull() & ~text.rlike(_MICROS)
    return found.isNotNull() if not _nested(wanted) else found.cast("string") == text


def _nested(kind: st.DataType) -> bool:
    return isinstance(kind, st.ArrayType | st.StructType | st.MapType)


def _nullable(kind: st.DataType) -> st.DataType:
    """``kind`` with NULL allowed everywhere in it, as Spark wants it where a cast may fail within."""
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, st.MapType):
        return st.MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    if isinstance(kind, st.StructType):
        return st.StructType([st.StructField(field.name, _nullable(field.dataType), True) for field in kind])
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
