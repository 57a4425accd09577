"""Ways of reading a table, each stored as Parquet so that it is read once and compared often; and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from . import flights, oracle
from .progress import Progress

BEFORE = "merged read, unmerged generations"
AFTER = "merged read, all merged"
BASE = "base table by pylance"

_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Folder:
    """What the job keeps where."""

    root: Path

    @property
    def table(self) -> Path:
        """The MemWAL table."""
        return self.root / "table"

    @property
    def log(self) -> Path:
        """The change log."""
        return self.root / "log.parquet"

    @property
    def written(self) -> Path:
        """What the tasks of the write reported."""
        return self.root / "written.json"

    @property
    def event_log(self) -> Path:
        """Spark's event logs."""
        return self.root / "event-log"

    def reading(self, name: str) -> Path:
        """One reading of the table, or the oracle's answer."""
        return self.root / "readings" / f"{name.replace(' ', '-').replace(',', '')}.parquet"


def merged_read(spark: SparkSession, folder: Folder, name: str) -> int:
    """Read the table through the data source, store the rows, return their number."""
    target = str(folder.reading(name))
    spark.read.format("memwal").load(str(folder.table)).write.mode("overwrite").parquet(target)
    return spark.read.parquet(target).count()


def base_read(folder: Folder) -> int:
    """Read the base table with pylance, which knows nothing of this engine; store the rows, return their number."""
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


def compare_all(
    spark: SparkSession, folder: Folder, names: Mapping[str, int], progress: Progress
) -> tuple[oracle.Comparison, ...]:
    """Compare each stored reading (name -> rows) with the last row of each key of the stored change log."""
    log = spark.read.parquet(str(folder.log))
    with progress.phase("oracle: last write wins in Spark") as phase:
        expected = _answer(spark, folder, log)
        summary = oracle.fingerprint(expected, flights.KEY)
        phase.rows = log.count()
    found = []
    for name, rows in names.items():
        with progress.phase(f"compare: {name}") as phase:
            phase.rows = rows
            found.append(
                oracle.compare(
                    name,
                    expected,
                    spark.read.parquet(str(folder.reading(name))),
                    log=log,
                    key=flights.KEY,
                    sequence=flights.SEQUENCE,
                    expected_fingerprint=summary,
                )
            )
    return tuple(found)


def _answer(spark: SparkSession, folder: Folder, log: DataFrame) -> DataFrame:
    target = str(folder.reading("oracle"))
    oracle.last_rows(log, flights.KEY, flights.SEQUENCE).write.mode("overwrite").parquet(target)
    return spark.read.parquet(target)
