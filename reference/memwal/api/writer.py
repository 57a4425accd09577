"""An open writer of one region, as its users see it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from ..effects import Protocol
from ..ids import Epoch, Generation, RegionId, WalPosition
from ..read.sources import MemoryView
from ..region import writer as writing

if TYPE_CHECKING:
    from .table import Table

T = TypeVar("T")

WAL_BUFFER_ROWS = 100_000
"""Buffered rows at which a writer stores them as a WAL entry by itself."""
MEMTABLE_ROWS = 1_000_000
"""MemTable rows at which a writer flushes it by itself."""
MEMTABLE_ENTRIES = 10_000
"""WAL entries of a MemTable at which a writer flushes it by itself: a put copies the list of them."""


class Writer:
    """An open writer of one region; a context manager that closes it. Not safe to share between threads."""

    def __init__(
        self, table: Table, opened: writing.Writer, durable: bool, wal_buffer_rows: int, memtable_rows: int
    ) -> None:
        self._table, self._writer = table, opened
        self._durable = durable
        self._wal_buffer_rows, self._memtable_rows = wal_buffer_rows, memtable_rows

    def __repr__(self) -> str:
        return f"<memwal.Writer region {self.region_id} epoch {self.epoch}>"

    @property
    def region_id(self) -> RegionId:
        return self._writer.region.region_id

    @property
    def epoch(self) -> Epoch:
        """Epoch of this writer's claim."""
        return self._writer.epoch

    @property
    def position_next(self) -> WalPosition:
        """Position that the next WAL entry will take."""
        return self._writer.position_next

    @property
    def generation(self) -> Generation:
        """Generation of the active MemTable."""
        return self._writer.memtable.generation

    @property
    def rows(self) -> int:
        """Rows in the active MemTable, buffered ones included."""
        return self._writer.memtable.rows

    @property
    def buffered_rows(self) -> int:
        """Rows that are not in the WAL yet."""
        return self._writer.memtable.pending_rows

    def _run(self, coroutine: Protocol[T]) -> T:
        return self._table._run(coroutine)

    def put(self, rows: pa.Table | pa.RecordBatch, *, durable: bool | None = None) -> None:
        """Write rows as one atomic write; ``durable`` waits until they are in the WAL.

        Raises `InvalidArgument` (nothing happened), `Fenced` (another writer owns the region), or the store's failure,
        after which the writer is stopped: the write may or may not surface, whole (AMB-21, 22).
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._run(self._writer.put(table, durable=self._durable if durable is None else durable))
        self._flush_if_full()

    def delete(self, keys: pa.Table, *, durable: bool | None = None) -> None:
        """Delete rows by key (a table of exactly the key columns). Revision R only."""
        self._run(self._writer.delete(keys, durable=self._durable if durable is None else durable))
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if self.rows >= self._memtable_rows or len(self._writer.memtable.stored) >= MEMTABLE_ENTRIES:
            self.flush()
        elif self.buffered_rows >= self._wal_buffer_rows:
            self.flush_wal()

    def flush_wal(self) -> None:
        """Store buffered rows as one WAL entry."""
        self._run(self._writer.flush_wal())

    def flush(self) -> Generation | None:
        """Flush the MemTable into a new generation; None if it has no rows."""
        return self._run(self._writer.flush())

    def memory(self) -> MemoryView:
        """What strong readers in this process may use; rows that are buffered only are visible too (AMB-23)."""
        held = [*self._writer.frozen, self._writer.memtable]
        tables = tuple((m.generation, m.table()) for m in held)
        return MemoryView(self.region_id, self.epoch, tables)

    def close(self) -> None:
        """Store buffered rows and stop; rows that were not flushed stay in the WAL for the next writer."""
        self._run(self._writer.close())

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
