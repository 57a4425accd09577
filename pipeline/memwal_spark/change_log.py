"""A stored change log: what its columns are, kept beside it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from memwal.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog:
    """What a stored log is. Each row is a whole row of the table, or deletes its key."""

    name: str
    """For people."""
    key: tuple[str, ...]
    sequence: str
    """Unique per key: the row with the highest one stands."""
    schema: pa.Schema
    """Columns of the table."""
    rows: int
    region_by: tuple[str, ...]
    """Key columns whose hash chooses the region; the first of them alone where a revision hashes one only."""
    delete: str | None = None
    """Column of booleans, not stored: true deletes the key."""
    batch: str | None = None
    """Column, not stored: rows with a lower value are written by an earlier job. None: one job writes all."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns of the log that the table does not have."""
        return tuple(name for name in (self.delete, self.batch) if name is not None)

    def jobs(self, log: DataFrame) -> list[DataFrame]:
        """What each job writes, in their order: rows without the batch's number."""
        if self.batch is None:
            return [log]
        numbers = [
            row[0] for row in log.select(self.batch).distinct().orderBy(self.batch).limit(BATCHES_MOST + 1).collect()
        ]
        if len(numbers) > BATCHES_MOST:
            raise InvalidArgument(
                f"[MEMWAL_BATCHES] column {self.batch} has more than {BATCHES_MOST} values: choose another column"
            )
        return [log.where(log[self.batch] == number).drop(self.batch) for number in numbers]

    def store(self, path: Path) -> None:
        """Keep this beside the log."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "schema"}
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        path.write_text(json.dumps({**fields, "schema": schema}, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> ChangeLog:
        """What `store` kept."""
        fields: dict[str, Any] = json.loads(path.read_text())
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields.pop("schema"))))
        key, region_by = tuple(fields.pop("key")), tuple(fields.pop("region_by"))
        return cls(schema=schema, key=key, region_by=region_by, **fields)
