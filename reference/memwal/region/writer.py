"""The writer of one region: put, WAL flush, MemTable flush, and what happens when any of it fails.

Its steps may be run by several coroutines of one process at a time, with or without one more of its own in the
background; they interleave at their requests, see `memwal.effects`.

Source: MemWAL revisions A and B, "Writer Expectations"; revision A, "Writer Configuration" to "MemTable Flush".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from .. import confirm, paths
from ..clauses import implements
from ..codec import wal
from ..codec.marks import Mark
from ..codec.wal import WalEntry
from ..coroutines import until
from ..effects import Join, Spawn
from ..errors import AlreadyExists, ArtifactError, EngineBug, Fenced, OutcomeUnknown
from ..ids import Generation, Milliseconds, WalPosition
from ..maintained.base_index import MaintainedIndex, refreshed
from . import flush as flushing
from . import manifest as manifests
from .claim import verify_epoch
from .commit import commit_flush
from .limits import Trigger
from .recovery import replay_start
from .sequences import PutResult
from .writer_state import Stopping, WriterState

_LENIENCY = 2
"""How many times a WAL limit is reached before a put does what the background is late with."""


@dataclass(slots=True)
class RegionWriter(WriterState):
    """An open writer: its state, and the steps that change it.

    Entries are stored one after another (AMB-14: one put at a time) by the one that has the ``storing`` turn, and
    generations are written by the one that has ``flushing``; a task that needs both takes ``storing`` first.

    A failure of anything but `InvalidArgument` stops the writer for good (AMB-21): rows that were not acknowledged may
    surface later, whole, or never (AMB-22), and memory is rebuilt from the WAL by opening the region again.
    """

    @implements("WRITER-003", "WRITER-005", "WRITER-006", "WRITER-019", "AMB-23")
    async def put(self, rows: pa.Table, *, durable: bool = True, indexed: bool = True) -> PutResult:
        """Write ``rows`` as one atomic write, visible in memory at once; returns how many, and how many were late.

        ``durable``: it is in the WAL when this returns. ``indexed``: the maintained indexes hold it when this returns.
        Raises `InvalidArgument` (nothing happened), `Fenced`, `WriterStopped`, or the store's failure: then the write
        may or may not surface later, whole (AMB-22), and the writer is stopped.
        """
        self.check_open()
        return await self.write(self.region.rows.upserts(rows), durable, indexed)

    @implements("AMB-89")
    async def delete(self, keys: pa.Table, *, durable: bool = True, indexed: bool = True) -> PutResult:
        """Delete the rows of ``keys`` (key columns only, and the sequence column of a writer that has one).

        Revision R; `InvalidArgument` in A and B (AMB-89).
        """
        self.check_open()
        return await self.write(self.tombstones(keys), durable, indexed)

    @implements("WRITER-010", "WRITER-018", "AMB-41", "AMB-148")
    async def write(self, rows: pa.Table, durable: bool, indexed: bool) -> PutResult:
        """As `put`, of rows that were validated."""
        ready = False
        while not ready:
            # AMB-148, late rows: what is stored is read after the claim, when no other process can write here.
            if self.comparison is not None:
                await self.comparison.ready(self.unflushed, rows)
            # AMB-41, flushes in order: what waits for them is bounded, so that puts wait too.
            await self._room()
            # Another put may have written higher sequences while this one waited.
            ready = self.comparison is None or self.comparison.decides(rows)
        done = self.compare_and_insert(rows)
        # WRITER-003, WRITER-019: the answer of a durable write comes after its entry.
        if durable:
            await self.flush_wal()
        # WRITER-004, the other promise, independent of the first (WRITER-005, all four combinations).
        if indexed and self.maintains:
            self.refresh_indexes()
        now_ms = await self.now()
        self.clocks = self.clocks.started(self.limits, self.memtable.waiting_rows, self.memtable.rows, now_ms)
        await self._keep_limits(now_ms, durable=durable)
        return done

    @implements("AMB-41")
    async def _room(self) -> None:
        """Wait until the MemTable is not being sealed, and frozen MemTables leave room for another write.

        Without a background no other process flushes what recovery found frozen: then that is done here.
        """
        # One that is woken looks again: others may have taken the room meanwhile.
        while not self.stopped and (self.sealing or not self.has_room()):
            if self.sealing or self.background:
                await until(lambda: bool(self.stopped) or (not self.sealing and self.has_room()))
            else:
                await self._flush_frozen()

    async def now(self) -> Milliseconds | None:
        """The time, for the limits that are about time; None where there are none, without a request."""
        return await self.region.io.now() if self.timed else None

    @implements(
        "WAL-001", "WAL-006", "WAL-017", "WAL-021", "WAL-024", "WRITER-010", "AMB-13", "AMB-14", "AMB-18", "AMB-21"
    )
    async def flush_wal(self, *, trigger: Trigger | None = None) -> None:
        """Store all writes that wait as the next WAL entry; several, where one would be larger than `Limits` allow.

        Writes that come while this is under way wait for the next one. Without waiting writes nothing is done.
        ``trigger``: the limit that made it due; then it is noted.
        """
        self.check_open()
        async with self.storing:
            await self._store_waiting(trigger)

    async def _store_waiting(self, trigger: Trigger | None = None) -> None:
        """The caller has the ``storing`` turn."""
        self.check_open()
        # WAL-024, what is written: all that is there now. Writes that come meanwhile wait for the next one.
        wanted = self.memtable.written.fragments
        while self.memtable.handed.fragments < wanted:
            with Stopping(self):
                await self._store_entry()
            if trigger is not None:
                entry = self.memtable.stored[-1]
                await self._note("wal_flushed", position=entry.position, rows=entry.rows, trigger=trigger)

    async def _note(self, event: str, **fields: object) -> None:
        await self.region.io.note(event, region=self.region.region_id, **fields)

    @implements("AMB-149")
    async def finish(self, mark: Mark) -> None:
        """Store what waits, and behind it that the tasks of ``mark`` are finished, in an entry without rows."""
        self.check_open()
        async with self.storing:
            await self._store_waiting()
            with Stopping(self):
                await self._store_entry((mark,))

    async def _store_entry(self, done: tuple[Mark, ...] = ()) -> None:
        """Store the next entry: of writes that wait, or, without rows, of the marks ``done``."""
        if done:
            rows = self.region.rows.schema.empty_table()
        else:
            self.memtable, rows = self.memtable.handing_over(self.limits.entry_bytes)
        if self.clocks.waiting_since_ms is not None and not self.memtable.waiting_rows:
            self.clocks = replace(self.clocks, waiting_since_ms=None)
        entry = WalEntry(epoch=self.epoch, generation=self.memtable.generation, rows=rows)
        if done:
            entry = replace(entry, done=done)
        data = wal.encode(entry, self.region.revision)
        covered = self.memtable.position_covered
        if covered is not None and self.position_next != covered + 1:
            raise EngineBug(f"the next entry is to be put at {self.position_next}, the last one known is at {covered}")
        position = self.position_next
        # WAL-006, exactly one entry: at the next position. Only the literal reading tries others.
        while not await self._store(paths.wal(position, self.region.revision.wal_suffix), data):
            position = WalPosition(position + 1)
        # AMB-25, a stalled append: the position may have been freed, and then a newer claim is there to be found.
        if self.region.wal_collection:
            self.adopt(await verify_epoch(self.region, self.manifest))
        # WAL-028, marked only now: the entry is complete, so that its rows are durable.
        self.memtable = self.memtable.with_entry(position, len(data))
        self.position_next = WalPosition(position + 1)
        if done:
            self.memtable = self.memtable.with_done(done)

    async def _store(self, name: str, data: bytes) -> bool:
        """Store an entry under ``name``; false where the literal reading says to try the next position."""
        io = self.region.io
        # AMB-13, a conditional put? Literally it is a plain one, which replaces a rival's entry.
        if not io.interpretation.conditional_wal_put:
            await io.put(name, data)
            return True
        try:
            if io.interpretation.resolve_unknown_put:
                # AMB-14, no known outcome: the same bytes again, until it is certain that they are there.
                await confirm.create(io, name, data)
            else:
                await io.put_if_absent(name, data)
        except OutcomeUnknown:
            if io.interpretation.resolve_unknown_put:
                raise
            return False
        except AlreadyExists:
            # Another process wrote here: the manifest tells whether a newer claim did, or something is wrong.
            stored = await manifests.require(io, self.region.revision)
            if not io.interpretation.stop_on_taken_position:
                return False
            if stored.epoch > self.epoch:
                raise Fenced(self.region.region_id, self.epoch, stored.epoch) from None
            reason = f"the position is taken, and epoch {self.epoch} still owns the region"
            raise ArtifactError("WAL-006", io.path(name), reason) from None
        return True

    @implements("WAL-018", "FLUSH-026", "AMB-17", "AMB-43", "AMB-45")
    async def freeze(self, *, trigger: Trigger | None = None) -> Generation | None:
        """Seal the MemTable and open the next one; returns the sealed one's generation, or None if it has no rows.

        Buffered rows are stored before, as an entry of their own, so that every entry belongs to one generation and the
        replay pointer can cover exactly that. The sealed one waits for `flush_oldest`. ``trigger``: the limit that made
        it due, None: a caller asked.
        """
        self.check_open()
        async with self.storing:
            return await self._seal(trigger)

    async def freeze_if_due(self) -> None:
        """As `freeze`, unless another process did it before this one's turn came, so that it is not due any more."""
        async with self.storing:
            if (trigger := self.memtable_due(await self.now())) is not None:
                await self._seal(trigger)

    async def _seal(self, trigger: Trigger | None) -> Generation | None:
        """The caller has the ``storing`` turn."""
        self.check_open()
        self.sealing = True
        try:
            with Stopping(self):
                maintained = await self._maintained_next()
            # AMB-17, a boundary inside an entry: there is none, what waits gets an entry before the MemTable is sealed.
            while self.memtable.waiting.fragments:
                await self._store_waiting()
            sealed = self.memtable
            # AMB-45, empty generations: none is made.
            if not sealed.rows:
                return None
            self.refresh_indexes()
            self.frozen = (*self.frozen, sealed)
            self.memtable = sealed.successor(maintained)
            self.clocks = replace(self.clocks, opened_ms=None)
        finally:
            self.sealing = False
        held = sealed.written
        await self._note(
            "frozen", generation=sealed.generation, rows=held.rows, size_bytes=held.size_bytes, trigger=trigger
        )
        await self.tend()
        return sealed.generation

    @implements("AMB-142")
    async def _maintained_next(self) -> tuple[MaintainedIndex, ...] | None:
        """What the MemTable after the active one maintains; None: the same."""
        if self.region.table is None or self.memtable.indexes is None or not self.memtable.rows:
            return None
        return await refreshed(self.region.table, self.memtable.indexes.maintained)

    @implements("FLUSH-001", "FLUSH-003", "FLUSH-004", "FLUSH-013", "FLUSH-015", "WRITER-012", "AMB-41", "AMB-42")
    async def flush_oldest(self) -> Generation | None:
        """Write the oldest frozen MemTable as a generation and commit it; returns its number, None if none is frozen.

        In order: the commit of g needs current_generation = g, so that a failed flush is never overtaken (AMB-41).
        """
        async with self.flushing:
            self.check_open()
            # Those below the current number are listed already, by a commit that was recognised.
            sealed = next((m for m in self.frozen if m.generation >= self.manifest.generation_current), None)
            if sealed is None:
                return None
            covered = sealed.position_covered
            if covered is None or sealed.generation != self.manifest.generation_current:
                oldest = f"the oldest that is not listed is {self.manifest.generation_current}"
                raise EngineBug(f"generation {sealed.generation}, frozen at {covered}, is to be flushed, and {oldest}")
            start = replay_start(self.manifest, self.region.revision)
            with Stopping(self):
                # FLUSH-013, complete before it is named: first the generation, then the manifest that lists it.
                listed = await flushing.write_generation(self.region, self.epoch, sealed, start)
                self.adopt(await commit_flush(self.region, self.epoch, start, listed, covered))
                # What is listed and not known to be would be flushed again, without end.
                if self.manifest.generation_current <= sealed.generation:
                    known = f"version {self.manifest.version} of epoch {self.manifest.epoch}"
                    raise EngineBug(f"generation {sealed.generation} was committed, and the writer knows {known} still")
            return sealed.generation

    async def flush(self, *, trigger: Trigger | None = None) -> Generation | None:
        """Freeze the MemTable and flush all frozen ones; returns its generation, None if it has no rows."""
        frozen = await self.freeze(trigger=trigger)
        await self._flush_frozen()
        return frozen

    async def _flush_frozen(self) -> None:
        while await self.flush_oldest() is not None:
            self.release()

    @implements("WRITER-018", "FLUSH-001")
    async def keep_limits(self) -> None:
        """Do whatever has reached a limit, or have the background do it: what every write ends with."""
        await self._keep_limits(await self.now(), durable=False)

    @implements("WRITER-010", "WRITER-012", "WRITER-018", "FLUSH-001")
    async def _keep_limits(self, now_ms: Milliseconds | None, *, durable: bool) -> None:
        memtable_due, wal_due = self.memtable_due(now_ms), None if durable else self.wal_due(now_ms)
        if memtable_due is not None:
            await self.freeze_if_due()
            if not self.background:
                await self._flush_frozen()
        elif wal_due is not None and not self.background:
            await self.flush_wal(trigger=wal_due)
        # The background is behind: the put does it, or what waits would grow without end.
        elif not durable and (late := self.wal_due(now_ms, leniency=_LENIENCY)) is not None:
            await self.flush_wal(trigger=late)
        elif wal_due is not None or now_ms is not None:
            await self.tend()

    async def tend(self) -> None:
        """Begin the background, if there is to be one that is not under way."""
        if not self.background or self.tending or self.stopped or self.closing:
            return
        self.tending = True
        await self._join_tender()
        if self.closing:
            self.tending = False
        else:
            self.tender = await Spawn(self._tend)

    async def _join_tender(self) -> None:
        """Wait until the background has ended that was begun last. What failed there is kept, and raised here."""
        tender, self.tender = self.tender, None
        if tender is not None:
            await Join(tender)

    async def _tend(self) -> None:
        """The background: does one thing after another while there is any to do, or a time limit to wait for."""
        try:
            with Stopping(self):
                while not self.stopped and not self.closing and await self._do_next():
                    pass
        finally:
            self.tending = False

    async def _do_next(self) -> bool:
        """Do what is due, or wait; false if there is nothing to wait for. Flushes first: they make room."""
        now_ms = await self.now()
        if self.frozen:
            await self.flush_oldest()
            self.release()
        elif self.memtable_due(now_ms) is not None:
            await self.freeze_if_due()
        elif (trigger := self.wal_due(now_ms)) is not None:
            await self.flush_wal(trigger=trigger)
        elif (deadline_ms := self.deadline_ms()) is None or now_ms is None:
            return False
        elif not await until(lambda: self.news(deadline_ms), Milliseconds(max(1, deadline_ms - now_ms))):
            if not self.memtable.waiting_rows:
                return False
            await self.flush_wal()  # the program ends: this is the last thing that is done
        return True

    async def close(self, *, flush: bool = False) -> bool:
        """Store buffered rows, flush the MemTables that are frozen, and stop; the background ends before.

        Rows of the active MemTable stay in the WAL for the next writer; ``flush`` flushes them too. A writer that has
        stopped stays as it is. Closing again does nothing: then it is false.
        """
        if self.closing:
            return False
        self.closing = True
        await self._join_tender()
        if not self.stopped:
            await self.flush_wal()
            if flush:
                await self.freeze()
            await self._flush_frozen()
            if self.memtable.pending_rows:
                raise EngineBug(f"a writer was closed with {self.memtable.pending_rows} rows that are in no entry")
            self.closed = True
        return True
