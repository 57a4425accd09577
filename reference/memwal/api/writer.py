"""An open writer of one region, as its users see it."""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from ..arguments import checked_methods
from ..clauses import implements
from ..codec.marks import Mark
from ..drive import Threads
from ..effects import Protocol
from ..errors import CloseFailed, InvalidArgument, MemwalError, WriterStopped
from ..ids import Epoch, Generation, RegionId, WalPosition
from ..jobs import marks
from ..keys import among
from ..read import sources
from ..region import writer as writing
from ..region.memtable import MemTable
from ..region.sequences import PutResult
from .place import Place

T = TypeVar("T")


@checked_methods
class Writer:
    """An open writer of one region; a context manager that closes it. Safe to use from several threads.

    With a background, MemTable flushes and the WAL flushes of writes that are not durable run in a thread of their own,
    which starts when there is something to do and ends when that is done; puts continue meanwhile, until the limits of
    frozen MemTables or unflushed bytes are reached. Without one, the put that reaches a limit flushes.

    Each call runs a coroutine of `memwal.region.writer`, which decides everything; calls of several threads and the
    background interleave at their requests.
    """

    def __init__(
        self,
        place: Place,
        opened: writing.RegionWriter,
        *,
        durable: bool,
        indexed: bool,
        background: bool,
        others: Collection[Writer] = (),
    ) -> None:
        """``others``: open writers that may hold none of this one's keys: those of other manual regions."""
        self._writer, self._place = opened, place
        self._others = others
        self._durable, self._indexed = durable, indexed
        self._threads = Threads(place.store, place.listener, f"memwal writer of {opened.region.region_id}")
        opened.background = background
        if opened.frozen:
            self._run(opened.tend())

    def _run(self, coroutine: Protocol[T]) -> T:
        with self._place.named():
            return self._threads.run(coroutine)

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
    def entries(self) -> int:
        """WAL entries of the active MemTable: what the next writer reads again, if it is not flushed before."""
        return len(self._writer.memtable.stored)

    @property
    def buffered_rows(self) -> int:
        """Rows that are not in the WAL yet."""
        return self._writer.memtable.pending_rows

    @property
    def frozen(self) -> tuple[Generation, ...]:
        """Generations that wait to be flushed, or are being flushed, oldest first."""
        return tuple(memtable.generation for memtable in self._writer.frozen)

    def put(
        self, rows: pa.Table | pa.RecordBatch, *, durable: bool | None = None, indexed: bool | None = None
    ) -> PutResult:
        """Write rows as one atomic write, which readers of this writer's memory see at once.

        Returns how many, and how many were late: a writer with ``sequence_by`` leaves those out (AMB-148).

        ``durable`` waits until they are in the WAL; otherwise they are stored when a limit is reached, and a crash
        before that loses them. ``indexed`` waits until the maintained indexes of the MemTable hold them; otherwise
        searches look at them one by one until `refresh_indexes`.

        Raises `InvalidArgument` (nothing happened), `Fenced` (another writer owns the region), or the store's failure,
        after which the writer is stopped: the write may or may not surface, whole (AMB-21, 22). A failure in the
        background raises `WriterStopped` here.
        """
        self._writer.check_open()
        return self._write(self._writer.region.rows.upserts(rows), durable, indexed)

    def delete(self, keys: pa.Table, *, durable: bool | None = None, indexed: bool | None = None) -> PutResult:
        """Delete rows by key; options and answer as for `put`. Revision R only.

        ``keys``: a table of exactly the key columns, and of the sequence column for a writer with ``sequence_by``.
        """
        self._writer.check_open()
        return self._write(self._writer.tombstones(keys), durable, indexed)

    @implements("REGION-003", "AMB-56")
    def _check_apart(self, rows: pa.Table) -> None:
        """Raise `InvalidArgument` if an open writer of another manual region holds the key of one of ``rows``."""
        # This one is among them: mostly it is the only one, which takes less time to see than to go through.
        for other in list(self._others) if len(self._others) > 1 else ():
            if other.region_id == self.region_id:
                continue
            held = other._held(rows.select(list(self._writer.region.rows.key)))
            if held.num_rows:
                reason = f"the key {held.to_pylist()[0]} is in two manual regions: {other.region_id} holds it already"
                raise InvalidArgument(reason, clause="REGION-003")

    def _held(self, keys: pa.Table) -> pa.Table:
        """Those of ``keys`` that are in the memory of this writer; none once it is stopped."""
        with self._threads.changed:
            held = () if self._writer.stopped else self._writer.unflushed()
            asked = [(m, _held_indexes(m, active=m is held[-1]).key_filter) for m in held]
        found = keys.slice(0, 0)
        for memtable, known in asked:
            suspects = keys if known is None else keys.filter(pa.array(known.may_contain(keys)))
            if suspects.num_rows:
                found = pa.concat_tables([found, among(suspects, memtable.table().select(keys.schema.names))])
        return found

    def _write(self, rows: pa.Table, durable: bool | None, indexed: bool | None) -> PutResult:
        self._check_apart(rows)
        durable = self._durable if durable is None else durable
        indexed = self._indexed if indexed is None else indexed
        return self._run(self._writer.write(rows, durable, indexed))

    def finish(self, application: str, batch: int, partition: int) -> None:
        """Store buffered rows, and behind them that the task ``partition`` of ``batch`` is finished; see `done`."""
        self._run(self._writer.finish(Mark(application=application, batch=batch, partitions=(partition,))))

    def done(self) -> tuple[Mark, ...]:
        """Of each application the newest batch with finished tasks in this region, wherever that stands (AMB-149)."""
        held = [mark for memtable in self._writer.unflushed() for mark in memtable.done]
        return self._run(marks.done(self._place.io, self._writer.region, held))

    def flush_wal(self) -> None:
        """Store buffered rows in the WAL, as one entry if that is not too large."""
        self._run(self._writer.flush_wal())

    def refresh_indexes(self) -> None:
        """Bring the maintained indexes of the MemTable up to date with all its rows."""
        with self._threads.changed:
            self._writer.refresh_indexes()

    def flush(self) -> Generation | None:
        """Flush the MemTable into a new generation, and wait until it and all earlier ones are committed.

        Returns its number; None if it has no rows.
        """
        return self._run(self._writer.flush())

    def memory(self) -> sources.MemoryView:
        """What strong readers in this process may use: one table for each MemTable that is not flushed (AMB-117).

        Rows that are buffered only are visible too (AMB-23). Raises `WriterStopped` once the writer is.
        """
        with self._threads.changed:
            held = self._writer.unflushed()
            indexes = {m.generation: _held_indexes(m, active=m is held[-1]) for m in held}
        return sources.MemoryView(self.region_id, self.epoch, tuple((m.generation, m.table()) for m in held), indexes)

    def close(self, *, flush: bool = False) -> None:
        """Store buffered rows, flush the MemTables that are frozen, and stop; the background thread ends.

        Rows of the active MemTable stay in the WAL for the next writer; ``flush`` flushes them too. Whatever failed
        while the writer was open is raised here, again if a call has raised it: the failure itself if it is one, else
        `CloseFailed` with all of them. Closing again does nothing.
        """
        failures = self._writer.failures
        try:
            if not self._run(self._writer.close(flush=flush)):
                return
        except BaseException as failure:
            if failure not in failures and not isinstance(failure, WriterStopped):
                raise
        with self._place.named():
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


def _held_indexes(memtable: MemTable, *, active: bool) -> sources.HeldIndexes:
    """What readers may use of the indexes while writes continue: arrays and a filter that only ever gain entries.

    Of a frozen MemTable, whose indexes belong to the flush, only the filter, once it has all keys.
    """
    indexes = memtable.index_up_to_date(maintained=False) if active else memtable.indexes
    if indexes is None or indexes.rows != memtable.rows:
        return sources.HeldIndexes()
    if not active:
        return sources.HeldIndexes(key_filter=indexes.key_filter)
    return sources.HeldIndexes(
        key_filter=indexes.key_filter,
        vectors={name: (index.code, tuple(index.inserted)) for name, index in indexes.vectors.items()},
        scalars={
            each.name: (each.column, indexes.scalars[each.name].held())
            for each in indexes.maintained
            if each.name in indexes.scalars
        },
        texts=dict(indexes.texts),
        rows_indexed=indexes.rows_indexed,
    )
