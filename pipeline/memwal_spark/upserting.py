"""One call that routes a DataFrame's rows to their regions and writes them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwal.region.sequences import LateRows

from .errors import plain_errors
from .options import STORAGE_PREFIX, TableOption
from .route import route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Upserted:
    """What a write did."""

    tasks: tuple[Mapping[str, Any], ...]
    """Of each task what `memwal_spark.write.TaskWritten` says, by partition."""

    @property
    def rows(self) -> int:
        """Rows that came."""
        return sum(task["rows"] for task in self.tasks)

    @property
    def late(self) -> int:
        """Those that were left out, since their sequence was not higher than what stood for their key."""
        return sum(task["late"] for task in self.tasks)

    @property
    def deleted(self) -> int:
        """Those that deleted their key."""
        return sum(task["deleted"] for task in self.tasks)

    @property
    def skipped(self) -> bool:
        """Whether every task was finished before, or the batch older than another of its application."""
        return bool(self.tasks) and all(task["skipped"] or not task["region_id"] for task in self.tasks)

    @property
    def generations(self) -> int:
        """MemTables that were flushed."""
        return sum(task["generations"] for task in self.tasks)


def upsert(
    df: DataFrame,
    path: str | Path,
    *,
    sequence_by: str,
    late_rows: LateRows = "drop",
    delete_column: str | None = None,
    region_column: str | None = None,
    txn: tuple[str, int] | None = None,
    flush_every_rows: int | None = None,
    revision: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> Upserted:
    """Upsert the rows of ``df`` by the table's primary key, each region in a task of its own; returns what was done.

    The arguments are the options of ``format("memwal")`` in ``docs/spark.md``; ``txn``: txnAppId and txnVersion;
    ``storage``: options of the object store. The driver's machine has to be this one, since the report is a file of its
    own. Raises `PySparkException` with our sentence (`memwal_spark.plain_errors`), or what Spark raises by itself.
    """
    place = TableOption(path=str(path), revision=revision, storage=dict(storage or {}))
    with plain_errors():
        routed = route(df, place, sequence_by=sequence_by, region_column=region_column)
    given = {
        "sequenceBy": sequence_by,
        "lateRows": late_rows,
        "deleteColumn": delete_column,
        "regionColumn": region_column,
        "txnAppId": None if txn is None else txn[0],
        "txnVersion": None if txn is None else txn[1],
        "flushEveryRows": flush_every_rows,
        "revision": revision,
        **{f"{STORAGE_PREFIX}{name}": value for name, value in place.storage.items()},
    }
    with plain_errors(), tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = {name: str(value) for name, value in given.items() if value is not None}
        routed.write.format("memwal").options(**options, reportPath=str(report)).mode("append").save(str(path))
        return Upserted(tuple(json.loads(report.read_text("utf-8"))["tasks"]))
