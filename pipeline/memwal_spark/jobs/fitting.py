"""The columns of a DataFrame in the types of a table where no value changes; else the job names the value."""

from __future__ import annotations

from collections.abc import Sequence

from memwal.errors import InvalidArgument
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

_MICROS = r"\.\d{6}\d*[1-9]"
"""A text with a part of a second that is finer than a microsecond, which Spark's timestamps are."""
_ZONE = r":[0-9:.]*\s*[A-Za-z+-]"
"""A text with a time zone, which a column of times without one would lose."""


def fitted(df: DataFrame, types: st.StructType, beside: Sequence[str] = (), *, base64: bool = False) -> DataFrame:
    """``df`` with exactly the columns of ``types``, in its order and types, and the columns ``beside`` as they are.

    ``types``: the table's columns as Spark has them. ``base64``: bytes come as texts in Base64, as JSON has them; else
    a text stands for its own bytes. Raises InvalidArgument for columns that are missing, and for columns or fields of
    them that the table does not have. A value that does not fit fails the job that reads it, with ``[MEMWAL_CAST]``.
    """
    names = [field.name for field in types]
    missing = [name for name in names if name not in df.columns]
    extra = [name for name in df.columns if name not in names and name not in beside]
    if missing or extra:
        raise InvalidArgument(
            f"[MEMWAL_SCHEMA] the rows must have exactly the columns of the table: missing {missing}, unknown {extra}; "
            "name columns that should not be stored with ignore"
        )
    cast = [
        _as(field.name, sf.col(_quoted(field.name)), df.schema[field.name].dataType, field.dataType, base64=base64)
        for field in types
    ]
    named = [column.alias(name) for name, column in zip(names, cast, strict=True)]
    return df.select(*named, *(sf.col(_quoted(name)) for name in beside))


def _as(name: str, column: Column, given: st.DataType, wanted: st.DataType, *, base64: bool) -> Column:
    """The ``column`` as ``wanted``; ``name``: of it, or of a place within."""
    wanted = _nullable(wanted)
    if given.simpleString() == wanted.simpleString():
        return column
    if isinstance(given, st.NullType):
        return column.cast(wanted)
    if isinstance(given, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner = (given.elementType, wanted.elementType)
        return sf.transform(column, lambda item: _as(f"{name}.item", item, *inner, base64=base64))
    if isinstance(given, st.StructType) and isinstance(wanted, st.StructType):
        return _struct(name, column, given, wanted, base64=base64)
    told = f"[MEMWAL_CAST] column {name}: a value does not fit {wanted.simpleString()} as it is: "
    shown = sf.coalesce(sf.to_json(sf.struct(column)), sf.lit("")) if _nested(given) else column.cast("string")
    refused = sf.raise_error(sf.concat(sf.lit(told), shown)).cast(wanted)
    if _nested(given) or _nested(wanted) or isinstance(wanted, st.NullType):
        # One is a list or a struct, and the other is not: only NULL is both.
        return sf.when(column.isNotNull(), refused)
    text = isinstance(given, st.StringType)
    coded = text and base64 and isinstance(wanted, st.BinaryType)
    found = sf.try_to_binary(column, sf.lit("base64")) if coded else column.try_cast(wanted)
    same = _text_kept(column, found, wanted) if text else found.cast(_nullable(given)) == column
    return sf.when(column.isNull() | sf.coalesce(same, sf.lit(False)), found).otherwise(refused)


def _struct(name: str, column: Column, given: st.StructType, wanted: st.StructType, *, base64: bool) -> Column:
    """A struct, field by field; NULL for a field that it lacks."""
    extra = [field for field in given.fieldNames() if field not in wanted.fieldNames()]
    if extra:
        raise InvalidArgument(
            f"[MEMWAL_SCHEMA] column {name} of the rows has fields that the table does not have: {extra}"
        )
    fields = []
    for field in wanted:
        if field.name in given.fieldNames():
            kinds = (given[field.name].dataType, field.dataType)
            found = _as(f"{name}.{field.name}", column.getField(field.name), *kinds, base64=base64)
        else:
            found = sf.lit(None).cast(field.dataType)
        fields.append(found.alias(field.name))
    return sf.when(column.isNotNull(), sf.struct(*fields))


def _text_kept(text: Column, found: Column, wanted: st.DataType) -> Column:
    """Whether what Spark read in a text is all that it says; Spark rounds decimals, and cuts times, without a word."""
    if isinstance(wanted, st.DecimalType):
        whole = wanted.precision - wanted.scale
        return found == text.try_cast(st.DecimalType(38, 38 - whole))
    if isinstance(wanted, st.DateType):
        return found.cast(st.TimestampNTZType()) == text.try_cast(st.TimestampNTZType())
    if isinstance(wanted, st.TimestampNTZType):
        return found.isNotNull() & ~text.rlike(_MICROS) & ~text.rlike(_ZONE)
    if isinstance(wanted, st.TimestampType):
        return found.isNotNull() & ~text.rlike(_MICROS)
    return found.isNotNull()


def _nested(kind: st.DataType) -> bool:
    return isinstance(kind, st.ArrayType | st.StructType | st.MapType)


def _nullable(kind: st.DataType) -> st.DataType:
    """``kind`` with NULL allowed everywhere in it, as Spark wants it where a cast may fail within."""
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, st.StructType):
        return st.StructType([st.StructField(field.name, _nullable(field.dataType), True) for field in kind])
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
