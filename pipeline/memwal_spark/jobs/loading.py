"""Write files into a table: Parquet, JSON and CSV, and change logs whose rows say what kind of change they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from memwal.errors import InvalidArgument, check_name
from memwal.region.sequences import LateRows
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StringType

from ..errors import said
from ..options import ReadOptions, TableOption
from ..place import open_table
from ..read import spark_schema
from ..upserting import Upserted, upsert
from .fitting import fitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Format = Literal["parquet", "json", "csv"]

CHANGES: Mapping[str, bool | None] = {
    "insert": False,
    "update_postimage": False,
    "upsert": False,
    "delete": True,
    "update_preimage": None,
}
"""Type of a change, as Delta's feed and ours name it -> whether it deletes its key; None: the row is left out."""

_DELETED = "__memwal_deleted"
_RANK = "__memwal_rank"
_QUOTE, _BACKSLASH = '"', "\\"
ESCAPES = (_QUOTE, _BACKSLASH)
"""What stands before a quote within a quoted text of CSV: a quote, as RFC 4180 has it, or a backslash, as Spark has."""
_EMPTY = "\0memwal: empty\0"
"""What Spark gives for ``""``, which it else gives as NULL, like nothing between two commas."""
_CSV = {"header": "true", "multiLine": "true", "emptyValue": _EMPTY, "mode": "FAILFAST"}
_READ: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "json": {"primitivesAsString": "true", "mode": "FAILFAST"},
    "csv": {**_CSV, "inferSchema": "false"},
}
"""How files of a format are read: texts stay texts, so that only the table's types decide what a value is."""
_INFER: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "json": {"mode": "FAILFAST"},
    "csv": {**_CSV, "inferSchema": "true", "emptyValue": ""},
}


def write(
    spark: SparkSession,
    path: str,
    sources: Sequence[str],
    *,
    sequence_by: str,
    format: Format | None = None,  # noqa: A002 - Spark's word
    late_rows: LateRows = "drop",
    delete_column: str | None = None,
    change_type_column: str | None = None,
    region_column: str | None = None,
    ignore: Sequence[str] = (),
    csv_escape: str | None = None,
    txn: tuple[str, int] | None = None,
    flush_every_rows: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> Upserted:
    """Upsert the rows of the files or folders ``sources`` into the table at ``path``, each region in a task of its own.

    ``format``: of the files; None goes by the ending of the first one. ``change_type_column``: the column with a name
    of `CHANGES`, for change logs; it and ``delete_column`` exclude each other. ``ignore``: columns that are not stored.
    ``csv_escape``: one of `ESCAPES`; without it a quote, and values that look as if a backslash was meant are refused.
    The others: as for `memwal_spark.upsert`. Columns get the table's types where no value changes. Raises
    InvalidArgument before anything is written, and what Spark raises for a job that failed: what its other tasks have
    put stays.
    """
    if delete_column is not None and change_type_column is not None:
        raise InvalidArgument("[MEMWAL_OPTION] name a delete column or a change type column, not both")
    place = TableOption(path=path, storage=dict(storage or {}))
    table = open_table(place)
    types = spark_schema(ReadOptions(place=place))
    texts = [field.name for field in types if isinstance(field.dataType, StringType | BinaryType)]
    rows = read(spark, sources, format, texts, csv_escape)
    unknown = [name for name in ignore if name not in rows.columns]
    if unknown:
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the rows have no columns {unknown} to ignore; they have {rows.columns}")
    rows = rows.drop(*ignore)
    if change_type_column is not None:
        rows, delete_column = _changes(rows, change_type_column), _DELETED
    elif delete_column is not None and delete_column in rows.columns:
        rows = rows.withColumn(delete_column, sf.col(f"`{delete_column}`").cast("boolean"))
    beside = [name for name in (delete_column, region_column) if name is not None]
    rows = fitted(rows, types, beside, base64=_format(sources, format) == "json")
    if change_type_column is not None:
        rows = _one_change(rows, [*table.primary_key, sequence_by])
    return upsert(
        rows,
        path,
        sequence_by=sequence_by,
        late_rows=late_rows,
        delete_column=delete_column,
        region_column=region_column,
        txn=txn,
        flush_every_rows=flush_every_rows,
        storage=storage,
    )


def read(
    spark: SparkSession,
    sources: Sequence[str],
    format: Format | None = None,  # noqa: A002 - Spark's word
    texts: Collection[str] = (),
    csv_escape: str | None = None,
) -> DataFrame:
    """The rows of files or folders of one format; JSON and CSV (with a header) as texts.

    ``texts``: columns of CSV in which ``""`` is an empty text; in all others it is NULL. ``csv_escape``: see `write`.
    """
    rows = _load(spark, sources, format, _READ, csv_escape)
    if _format(sources, format) != "csv":
        return rows
    return rows.select(*(_csv_value(name, csv_escape, text=name in texts).alias(name) for name in rows.columns))


def _csv_value(name: str, csv_escape: str | None, *, text: bool) -> Column:
    column = sf.col("`" + name.replace("`", "``") + "`")
    found = sf.when(column != _EMPTY, column).otherwise(sf.when(column.isNotNull() & sf.lit(text), sf.lit("")))
    if csv_escape is not None:
        return found
    told = (
        f"[MEMWAL_CSV] column {name}: a quote comes behind a backslash, as Spark writes it; say with csv_escape "
        "(--csv-escape) what comes before a quote: "
    )
    meant = column.startswith(_QUOTE) & column.contains(_BACKSLASH + _QUOTE)
    return sf.when(meant, sf.raise_error(sf.concat(sf.lit(told), column)).cast("string")).otherwise(found)


def types_in(spark: SparkSession, sources: Sequence[str], format: Format | None = None) -> StructType:  # noqa: A002
    """The columns of the same files in the types that Spark finds for their texts."""
    return _load(spark, sources, format, _INFER, None).schema


def _format(sources: Sequence[str], format: Format | None) -> str:  # noqa: A002 - Spark's word
    if not sources:
        raise InvalidArgument("[MEMWAL_OPTION] name at least one file or folder to write")
    chosen = format or Path(sources[0].rstrip("/")).suffix.removeprefix(".").replace("ndjson", "json")
    if not format and chosen not in get_args(Format):
        raise InvalidArgument(
            f"[MEMWAL_OPTION] {sources[0]!r} does not end with .parquet, .json or .csv: name its format"
        )
    check_name("format", chosen, get_args(Format))
    return chosen


def _load(
    spark: SparkSession,
    sources: Sequence[str],
    format: Format | None,  # noqa: A002 - Spark's word
    ways: Mapping[str, Mapping[str, str]],
    csv_escape: str | None,
) -> DataFrame:
    chosen = _format(sources, format)
    options = dict(ways[chosen])
    if csv_escape is not None:
        check_name("csv_escape", csv_escape, ESCAPES)
    if chosen == "csv":
        options["escape"] = csv_escape or _QUOTE
    try:
        return spark.read.options(**options).format(chosen).load(list(sources))
    except (PySparkException, Py4JError) as refused:
        named = ", ".join(sources)
        raise InvalidArgument(f"[MEMWAL_SOURCE] {named} cannot be read as {chosen}: {said(refused)}") from refused


def _changes(rows: DataFrame, column: str) -> DataFrame:
    """``rows`` without the states before updates, with a column that says whether the row deletes its key."""
    if column not in rows.columns:
        raise InvalidArgument(f"[MEMWAL_SCHEMA] the rows have no column {column!r}; they have {rows.columns}")
    kind = sf.col(f"`{column}`")
    known = ", ".join(CHANGES)
    text = f"[MEMWAL_CHANGE_TYPE] column {column}: there is no type of change (there are {known}): "
    deleted = sf.when(kind.isin([name for name, gone in CHANGES.items() if gone is not False]), sf.lit(True))
    deleted = deleted.when(kind.isin([name for name, gone in CHANGES.items() if gone is False]), sf.lit(False))
    refused = sf.raise_error(sf.concat(sf.lit(text), sf.coalesce(kind.cast("string"), sf.lit("NULL"))))
    left_out = [name for name, gone in CHANGES.items() if gone is None]
    rows = rows.where(~sf.coalesce(kind.isin(left_out), sf.lit(False)))
    return rows.withColumn(_DELETED, deleted.otherwise(refused.cast("boolean"))).drop(column)


def _one_change(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of each key and sequence the row that stays: an overwrite logs a delete and an insert under one version."""
    window = Window.partitionBy(*key).orderBy(_DELETED)
    return rows.withColumn(_RANK, sf.row_number().over(window)).where(sf.col(_RANK) == 1).drop(_RANK)
