"""Ways of reading a table, each stored as Parquet so that it is read once and compared often; and their comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import memwal
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from . import oracle
from .change_log import ChangeLog
from .folder import Folder
from .jobs import tracing
from .progress import PhaseProgress
from .report import AFTER, BASE

_GROUP_ROWS = 65_536


def engine_read(folder: Folder) -> pa.Table:
    """Read the table with the engine; returns the rows that `store` takes."""
    return memwal.open(folder.table).scan()


def store(rows: pa.Table, folder: Folder, name: str) -> None:
    """Store the rows of one reading."""
    target = folder.reading(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target, row_group_size=_GROUP_ROWS)


def spark_read(spark: SparkSession, folder: Folder) -> int:
    """Read the table with Spark through the data source `memwal`, store the rows, return their number."""
    target = str(folder.reading(AFTER))
    spark.read.format("memwal").load(str(folder.table)).write.mode("overwrite").parquet(target)
    return int(spark.read.parquet(target).count())


def base_read(folder: Folder) -> int:
    """Read the base table with pylance, without this engine; store the rows, return their number."""
    import lance

    dataset = lance.dataset(str(folder.table))
    target = folder.reading(BASE)
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with pq.ParquetWriter(target, dataset.schema.remove_metadata()) as writer:
        for batch in dataset.scanner(batch_size=_GROUP_ROWS).to_batches():
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def answer(spark: SparkSession, folder: Folder, facts: ChangeLog, progress: PhaseProgress) -> oracle.Fingerprint:
    """Store the last row of each key of the stored change log; returns their summary."""
    with progress.phase("oracle: last write wins in Spark") as phase:
        expected = _answer(spark, folder, facts, spark.read.parquet(str(folder.log)))
        phase.rows = facts.rows
        return oracle.fingerprint(expected, facts.key)


def compare_all(
    spark: SparkSession,
    folder: Folder,
    facts: ChangeLog,
    summary: oracle.Fingerprint,
    names: Sequence[str],
    progress: PhaseProgress,
    claimed: Callable[[], tracing.Tasks] = dict,
) -> tuple[oracle.OracleComparison, ...]:
    """Compare each stored reading with the `answer`, whose ``summary`` is given.

    ``claimed``: who claimed which epoch, beside those who told it in a report; asked if something differs.
    """
    log = spark.read.parquet(str(folder.log))
    expected = spark.read.parquet(_oracle(folder))
    found = []
    for name in names:
        with progress.phase(f"compare: {name}"):
            found.append(
                oracle.compare(
                    name,
                    expected,
                    spark.read.parquet(str(folder.reading(name))),
                    log=log,
                    key=facts.key,
                    sequence=facts.sequence,
                    expected_fingerprint=summary,
                    places=partial(_places, spark, folder, facts, claimed),
                )
            )
    return tuple(found)


def _places(
    spark: SparkSession,
    folder: Folder,
    facts: ChangeLog,
    claimed: Callable[[], tracing.Tasks],
    keys: Sequence[dict[str, Any]],
) -> list[tuple[str, ...]]:
    """Where the table has rows of each key, and which tasks wrote them."""
    reports = [json.loads(file.read_text()) for file in folder.reports]
    wanted = pa.Table.from_pylist(list(keys), schema=pa.schema([facts.schema.field(name) for name in facts.key]))
    done = tracing.why(spark, str(folder.table), wanted, written={**claimed(), **tracing.tasks_of(reports)})
    failed = tuple(f"{task.item}: {task.error}" for task in done.failed)
    return [(*tracing.lines(history), *failed) for history in done.histories]


def _oracle(folder: Folder) -> str:
    return str(folder.reading("oracle"))


def _answer(spark: SparkSession, folder: Folder, facts: ChangeLog, log: DataFrame) -> DataFrame:
    target = _oracle(folder)
    last = oracle.last_rows(log, facts.key, facts.sequence, delete=facts.delete, beside=facts.beside)
    last.write.mode("overwrite").parquet(target)
    return spark.read.parquet(target)
