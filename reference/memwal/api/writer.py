"""An open writer of one region, as its users see it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from ..clauses import implements
from ..effects import Protocol
from ..errors import CloseFailed, InvalidArgument, MemwalError, WriterStopped
from ..ids import Epoch, Generation, Milliseconds, RegionId, WalPosition
from ..keys import among
from ..read.sources import HeldIndexes, MemoryView
from ..region import writer as writing
from ..region.limits import Trigger
from ..region.memtable import MemTable
from .background import Background, Job
from .stepping import Stepped

if TYPE_CHECKING:
    from .table import Table

T = TypeVar("T")

_LENIENCY = 2
"""How many times a WAL limit is reached before a put does what the background thread is late with."""


class Writer:
    """An open writer of one region; a context manager that closes it. Safe to use from several threads.

    With a background, MemTable flushes and the WAL flushes of writes that are not durable run in a thread of their own,
    which starts when there is something to do and ends when that is done; puts go on meanwhile, until the limits of
    frozen MemTables or unflushed bytes are reached. Without one, the put that reaches a limit flushes.

    Who owns what: the state of the region's writer is changed in steps under ``_lock``, except for what `flush_oldest`
    owns. ``_turn`` is held by the one thread that stores WAL entries, ``_flushing`` by the one that flushes a MemTable.
    Both are taken before the lock, and ``_flushing`` never before ``_turn``.
    """

    def __init__(
        self,
        table: Table,
        opened: writing.Writer,
        *,
        durable: bool,
        indexed: bool,
        background: bool,
        others: Iterable[Writer] = (),
    ) -> None:
        """``others``: open writers that may hold none of this one's keys: those of other manual regions."""
        self._table, self._writer = table, opened
        self._others = others
        self._durable, self._indexed = durable, indexed
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._turn = threading.Lock()
        self._flushing = threading.Lock()
        self._sealing = False
        self._closing = False
        name = f"memwal writer of {opened.region.region_id}"
        self._background = Background(self._changed, self._next_job, self._failed, name) if background else None
        self._inherited = bool(opened.frozen) and self._background is None
        if self._background is not None and opened.frozen:
            with self._changed:
                self._background.wake()

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

    @property
    def frozen(self) -> tuple[Generation, ...]:
        """Generations that wait to be flushed, or are being flushed, oldest first."""
        return tuple(memtable.generation for memtable in self._writer.frozen)

    def put(self, rows: pa.Table | pa.RecordBatch, *, durable: bool | None = None, indexed: bool | None = None) -> None:
        """Write rows as one atomic write, which readers of this writer's memory see at once.

        ``durable`` waits until they are in the WAL; otherwise they are stored when a limit is reached, and a crash
        before that loses them. ``indexed`` waits until the maintained indexes of the MemTable hold them; otherwise
        indexed searches may miss them until `refresh_indexes`.

        Raises `InvalidArgument` (nothing happened), `Fenced` (another writer owns the region), or the store's failure,
        after which the writer is stopped: the write may or may not surface, whole (AMB-21, 22). A failure in the
        background raises `WriterStopped` here.
        """
        self._writer.check_open()
        self._write(self._writer.region.rows.upserts(rows), durable, indexed)

    def delete(self, keys: pa.Table, *, durable: bool | None = None, indexed: bool | None = None) -> None:
        """Delete rows by key (a table of exactly the key columns); options as for `put`. Revision R only."""
        self._writer.check_open()
        self._write(self._writer.region.rows.tombstones(keys), durable, indexed)

    @implements("REGION-003", "AMB-56")
    def _check_apart(self, rows: pa.Table) -> None:
        """Raise `InvalidArgument` if an open writer of another manual region holds the key of one of ``rows``."""
        for other in list(self._others):
            if other.region_id == self.region_id:
                continue
            held = other._held(rows.select(list(self._writer.region.rows.key)))
            if held.num_rows:
                reason = f"the key {held.to_pylist()[0]} is in two manual regions: {other.region_id} holds it already"
                raise InvalidArgument(reason, clause="REGION-003")

    def _held(self, keys: pa.Table) -> pa.Table:
        """Those of ``keys`` that are in the memory of this writer; none once it is stopped."""
        with self._lock:
            held = () if self._writer.stopped else self._writer.unflushed()
            asked = [(m, _held_indexes(m, active=m is held[-1]).key_filter) for m in held]
        found = keys.slice(0, 0)
        for memtable, known in asked:
            suspects = keys if known is None else keys.filter(pa.array(known.may_contain(keys)))
            if suspects.num_rows:
                found = pa.concat_tables([found, among(suspects, memtable.table().select(keys.schema.names))])
        return found

    def _write(self, rows: pa.Table, durable: bool | None, indexed: bool | None) -> None:
        self._check_apart(rows)
        durable = self._durable if durable is None else durable
        self._insert(rows)
        if durable:
            self.flush_wal()
        if (self._indexed if indexed is None else indexed) and self._writer.maintains:
            self.refresh_indexes()
        now_ms = self._now()
        if now_ms is not None:
            with self._lock:
                self._writer.start_clocks(now_ms)
        self._keep_limits(durable, now_ms)

    @implements("AMB-41")
    def _insert(self, rows: pa.Table) -> None:
        """Insert once there is room, and nobody is sealing the MemTable.

        Without a background nobody else flushes what recovery found frozen: then that is done here.
        """
        if self._inherited and not self._writer.has_room():
            self._inherited = False
            self._flush_frozen()
        with self._changed:
            while not self._writer.stopped and (self._sealing or not self._writer.has_room()):
                self._changed.wait()
            self._writer.insert(rows)

    @implements("WRITER-010", "WRITER-012", "WRITER-018", "FLUSH-001")
    def _keep_limits(self, durable: bool, now_ms: Milliseconds | None) -> None:
        writer, background = self._writer, self._background
        memtable_due, wal_due = writer.memtable_due(now_ms), None if durable else writer.wal_due(now_ms)
        if background is None:
            if memtable_due is not None or wal_due is not None:
                self._flush_here()
        elif memtable_due is not None:
            self._freeze_if_due()
        elif not durable and (late := writer.wal_due(now_ms, leniency=_LENIENCY)) is not None:
            self._store(late)
        elif wal_due is not None or (now_ms is not None and not background.running):
            with self._changed:
                background.wake()

    def _flush_here(self) -> None:
        with self._turn, self._flushing:
            try:
                self._run(self._writer.keep_limits())
            finally:
                with self._changed:
                    self._changed.notify_all()

    def _now(self) -> Milliseconds | None:
        """The time, where a limit asks for it."""
        return self._table._run(self._writer.region.io.now()) if self._writer.timed else None

    def flush_wal(self) -> None:
        """Store buffered rows in the WAL, as one entry if that is not too large."""
        self._store(None)

    def _store(self, trigger: Trigger | None) -> None:
        with self._turn:
            self._run(self._writer.flush_wal(trigger=trigger))

    def refresh_indexes(self) -> None:
        """Bring the maintained indexes of the MemTable up to date with all its rows."""
        with self._lock:
            self._writer.refresh_indexes()

    def flush(self) -> Generation | None:
        """Flush the MemTable into a new generation, and wait until it and all earlier ones are committed.

        Returns its number; None if it has no rows.
        """
        frozen = self._freeze()
        self._flush_frozen()
        return frozen

    def memory(self) -> MemoryView:
        """What strong readers in this process may use: one table for each MemTable that is not flushed (AMB-117).

        Rows that are buffered only are visible too (AMB-23). Raises `WriterStopped` once the writer is.
        """
        with self._lock:
            held = self._writer.unflushed()
            indexes = {m.generation: _held_indexes(m, active=m is held[-1]) for m in held}
        return MemoryView(self.region_id, self.epoch, tuple((m.generation, m.table()) for m in held), indexes)

    def close(self, *, flush: bool = False) -> None:
        """Store buffered rows, flush the MemTables that are frozen, and stop; the background thread ends.

        Rows of the active MemTable stay in the WAL for the next writer; ``flush`` flushes them too. Whatever failed
        while the writer was open is raised here, again if a call has raised it: the failure itself if it is one, else
        `CloseFailed` with all of them. Closing again does nothing.
        """
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        if self._background is not None:
            self._background.join()
        with suppress(MemwalError):  # kept by `_run_freely`, and raised below with the others
            if not self._writer.stopped:
                self.flush_wal()
                if flush:
                    self._freeze()
                self._flush_frozen()
                self._run(self._writer.close())
        failures = self._writer.failures
        if len(failures) > 1:
            raise CloseFailed(self.region_id, failures)
        if failures:
            raise failures[0]

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. A failure of that never takes the place of the error that ended the block: it becomes a note of it."""
        if error is None:
            self.close()
            return
        try:
            self.close()
        except MemwalError as failure:
            if failure is not error:
                error.add_note(f"closing the writer of region {self.region_id} failed too: {failure}")

    def _run(self, coroutine: Protocol[T]) -> T:
        """Run a coroutine of the writing side, step by step under the lock."""
        return self._run_freely(Stepped(coroutine, self._lock))

    def _run_freely(self, coroutine: Protocol[T]) -> T:
        """Run a coroutine; an interruption stops the writer, since it leaves the coroutine where it was."""
        try:
            return self._table._run(coroutine)
        except BaseException as failure:
            self._failed(failure)
            raise

    def _freeze(self) -> Generation | None:
        """Seal the MemTable and have it flushed."""
        with self._turn:
            return self._seal(None)

    def _freeze_if_due(self) -> None:
        """As `_freeze`, unless another thread did it before this one's turn came."""
        with self._turn:
            trigger = self._writer.memtable_due(self._now())
            if trigger is not None:
                self._seal(trigger)

    def _seal(self, trigger: Trigger | None) -> Generation | None:
        """The caller has the turn. Writes wait meanwhile, or there might always be one more to store before."""
        self._sealing = True
        try:
            return self._run(self._writer.freeze(trigger=trigger))
        finally:
            with self._changed:
                self._sealing = False
                self._changed.notify_all()
                if self._background is not None and self._writer.frozen and not self._closing:
                    self._background.wake()

    def _flush_frozen(self) -> None:
        while self._flush_oldest():
            pass

    def _flush_oldest(self) -> bool:
        with self._flushing:
            try:
                return self._run_freely(self._writer.flush_oldest()) is not None
            finally:
                with self._changed:
                    self._writer.release()
                    self._changed.notify_all()

    def _next_job(self, ended: bool) -> Job | float | None:
        """For the background; the lock is held. Flushes first: they make room."""
        writer, now_ms = self._writer, self._now()
        if writer.stopped or self._closing:
            return None
        if writer.frozen:
            return self._flush_oldest
        if writer.memtable_due(now_ms) is not None:
            return self._freeze_if_due
        if (trigger := writer.wal_due(now_ms)) is not None or (ended and writer.memtable.waiting.rows):
            return partial(self._store, trigger)
        deadline_ms = writer.deadline_ms()
        if deadline_ms is None or now_ms is None or ended:
            return None
        return max(0.001, (deadline_ms - now_ms) / 1000)

    def _failed(self, failure: BaseException) -> None:
        """Keep a failure for the next call; most are there already, since the step that failed has kept them."""
        failures = self._writer.failures
        if failure not in failures and not isinstance(failure, (InvalidArgument, WriterStopped)):
            failures.append(failure)


def _held_indexes(memtable: MemTable, *, active: bool) -> HeldIndexes:
    """What readers may use of the indexes while writes go on: arrays and a filter that only ever gain entries.

    Of a frozen MemTable, whose indexes belong to the flush, only the filter, once it has all keys.
    """
    indexes = memtable.index_up_to_date(maintained=False) if active else memtable.indexes
    if indexes is None or indexes.rows != memtable.rows:
        return HeldIndexes()
    if not active:
        return HeldIndexes(key_filter=indexes.key_filter)
    return HeldIndexes(
        key_filter=indexes.key_filter,
        vectors={name: (index.code, tuple(index.inserted)) for name, index in indexes.vectors.items()},
        rows_indexed=indexes.rows_indexed,
    )
