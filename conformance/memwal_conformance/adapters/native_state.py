"""What the adapter of the native package keeps between messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa

from memwal_conformance import cells
from memwal_conformance.adapters.native_store import TableStore
from memwal_conformance.protocol import AdapterError, Json


@dataclass(slots=True)
class NativeWriter:
    """An open writer of the package."""

    table: str
    shard_id: str
    epoch: int
    schema: pa.Schema
    """Of the table."""
    native: Any
    """The package's writer, closed or not."""
    limits: Json
    """Of its MemTable, as the package names them."""


@dataclass(slots=True)
class NativeState:
    """What the adapter keeps between messages."""

    append_only: bool = False
    storage: dict[str, str] = field(default_factory=dict)
    writers: dict[str, NativeWriter] = field(default_factory=dict)
    readers: dict[str, Any] = field(default_factory=dict)
    """Handle -> URL of the table and the open dataset."""
    rows: Callable[[pa.Table], cells.Rows] = cells.to_rows
    """The form of rows in answers."""
    handles: int = 0

    def handle(self, kind: str) -> str:
        self.handles += 1
        return f"{kind}-{self.handles}"

    def dataset(self, table: str) -> Any:
        return lance.dataset(table, storage_options=self.storage or None)

    def store(self, table: str) -> TableStore:
        """What the package does not tell of a table."""
        return TableStore(table, self.storage)

    def writer(self, handle: str) -> NativeWriter:
        if handle not in self.writers:
            raise AdapterError("invalid_argument", f"no writer is open under the handle {handle!r}")
        return self.writers[handle]

    def reader(self, params: Json) -> tuple[str, Any]:
        if params["reader"] not in self.readers:
            raise AdapterError("invalid_argument", f"no reader is open under the handle {params['reader']!r}")
        table, dataset = self.readers[params["reader"]]
        return table, dataset
