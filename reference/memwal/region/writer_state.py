"""What an open writer holds in memory, and what can be told from it or done to it without a request.

Source: MemWAL revisions A and B, "Writer Expectations"; revision A, "Writer Configuration".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..coroutines import Turn
from ..effects import Task
from ..errors import InvalidArgument, OutcomeUnknown, WriterStopped
from ..ids import Epoch, Milliseconds, WalPosition
from . import limits as limiting
from .limits import Clocks, Limits, Trigger
from .memtable import MemTable, size_of
from .region import Region
from .sequences import Comparison, PutResult


@dataclass(slots=True)
class WriterState:
    """The state of an open writer. `memwal.region.writer.RegionWriter` has the steps that make requests.

    All of it is changed between two requests only, so that no coroutine sees another one's step half done.
    """

    region: Region
    """Never changes."""
    limits: Limits
    """Never changes."""
    manifest: RegionManifest
    """The newest manifest that this writer knows; carries its epoch. Set by `adopt` only."""
    memtable: MemTable
    """The active MemTable."""
    position_next: WalPosition
    """Position of the next WAL entry. Changed by the task that has the ``storing`` turn."""
    background: bool = False
    """Whether a coroutine of its own flushes MemTables, and the WAL where writes are not durable, while puts continue.
    It ends where there is nothing to do. Without it, the put that reaches a limit flushes."""
    frozen: tuple[MemTable, ...] = ()
    """Sealed MemTables, oldest first, all their rows in the WAL.

    They stay here, and readable, until `release` finds that the manifest lists their generation (AMB-102).
    """
    comparison: Comparison | None = None
    """With what its rows are compared by their sequence; None: with nothing. Never another one."""
    clocks: Clocks = Clocks()
    """Since when rows wait, and since when the active MemTable has any."""
    storing: Turn = field(default_factory=Turn)
    """Of storing WAL entries."""
    flushing: Turn = field(default_factory=Turn)
    """Of writing a generation and committing it."""
    sealing: bool = False
    """The active MemTable is being sealed: puts wait, or there might always be one more to store before."""
    tending: bool = False
    """The background is under way."""
    tender: Task[None] | None = None
    """The background, as it was begun last."""
    failures: list[BaseException] = field(default_factory=list)
    """What stopped the writer, the first cause first. Only ever appended to."""
    closing: bool = False
    """`close` has been called."""
    closed: bool = False

    @property
    def epoch(self) -> Epoch:
        """Epoch of this writer's claim."""
        return self.manifest.epoch

    @property
    def stopped(self) -> str:
        """Why the writer takes no more calls; empty while it does."""
        if self.failures:
            first = self.failures[0]
            return str(first) or type(first).__name__
        return "closed" if self.closed else ""

    @implements("FENCE-012", "FENCE-013", "AMB-21")
    def check_open(self) -> None:
        """Raise `WriterStopped` naming the first cause, if there is one."""
        if self.stopped:
            raise WriterStopped(self.region.region_id, self.stopped) from (self.failures[0] if self.failures else None)

    @implements("WRITER-009", "WRITER-016", "WRITER-017", "AMB-16")
    def insert(self, rows: pa.Table) -> None:
        """Insert one validated write into the MemTable: visible, neither durable nor indexed. No rows: nothing happens.

        Raises `InvalidArgument` for a write that is larger than a WAL entry may be, which is never split (AMB-16), and
        `WriterStopped` from the moment on at which `close` was called.
        """
        self.check_open()
        if self.closing:  # what comes now might be there too late for the last flush, which `close` has to be sure of
            raise WriterStopped(self.region.region_id, "closed")
        if not rows.num_rows:
            return
        size_bytes = size_of(rows)
        # AMB-16, one write in several entries: never, it would not be atomic.
        if size_bytes > self.limits.entry_bytes:
            reason = f"a write of {size_bytes} bytes is larger than an entry may be ({self.limits.entry_bytes} bytes)"
            raise InvalidArgument(f"{reason}: make several writes of it", clause="AMB-16")
        self.memtable = self.memtable.with_write(rows, size_bytes)

    def tombstones(self, keys: pa.Table) -> pa.Table:
        """The rows that delete ``keys``, which have the sequence column of the writer too, if it has one."""
        sequence = None if self.comparison is None else self.comparison.sequence.column
        return self.region.rows.tombstones(keys, sequence)

    @implements("AMB-148")
    def compare_and_insert(self, rows: pa.Table) -> PutResult:
        """As `insert`, of those of ``rows`` that are not late, if the writer has a sequence column.

        There is no request between comparing and inserting, so that no other write comes between the two.
        """
        if self.comparison is None:
            self.insert(rows)
            return PutResult(rows.num_rows)
        fresh, compared = self.comparison.admitted(rows)
        self.insert(fresh)
        self.comparison.written(fresh, compared)
        late = 0 if compared is None else int(compared.late.sum())
        return PutResult(rows.num_rows - late, late, rows.num_rows - late - fresh.num_rows)

    @property
    def timed(self) -> bool:
        """Whether a time limit runs, so that decisions depend on what time it is."""
        limits, memtable = self.limits, self.memtable
        return (limits.wal_interval_ms is not None and memtable.handed.rows < memtable.written.rows) or (
            limits.memtable_age_ms is not None and memtable.rows > 0
        )

    @property
    def maintains(self) -> bool:
        """Whether the active MemTable has indexes that may be behind its rows."""
        return self.memtable.indexes is not None and bool(self.memtable.indexes.maintained)

    @implements("WRITER-004", "WRITER-007", "WRITER-011", "AMB-116")
    def refresh_indexes(self) -> None:
        """Bring the maintained indexes of the active MemTable up to date with all its rows."""
        self.check_open()
        if self.maintains:
            with Stopping(self):
                self.memtable.index_up_to_date(maintained=True)

    @implements("AMB-102", "AMB-117")
    def unflushed(self) -> tuple[MemTable, ...]:
        """The MemTables that readers in this process may use, oldest first.

        Raises `WriterStopped`: after a failure memory may hold rows that never become durable (AMB-21).
        """
        self.check_open()
        return (*self.frozen, self.memtable)

    @implements("AMB-25", "FENCE-009")
    def adopt(self, stored: RegionManifest) -> None:
        """Know of ``stored``, a manifest of this writer's epoch, if it is newer than the one known.

        Others make such versions too: a collector takes merged generations off the list. Knowing of them saves reading
        them again after every put. It is safe because no version is made from the known one: the commit of a flush goes
        by what is newest then, and refuses a start that has moved. Under one epoch only this writer's own flushes move
        the replay pointer and the generation, so that a version known early says what it is about to learn anyway. Both
        sides of the writer may come late with an older version, so that it never goes back.
        """
        # Another epoch is the business of those who compare it: a writer knows of its own only.
        if stored.epoch == self.epoch and stored.version > self.manifest.version:
            self.manifest = stored

    @implements("FLUSH-026", "AMB-102")
    def release(self) -> None:
        """Forget frozen MemTables whose generation the manifest lists."""
        self.frozen = tuple(m for m in self.frozen if m.generation >= self.manifest.generation_current)

    def wal_due(self, now_ms: Milliseconds | None, *, leniency: int = 1) -> Trigger | None:
        """The limit that makes a WAL flush due now; None if there is none. ``leniency``: so many times each limit."""
        waiting = self.memtable.waiting
        waited_ms = self.clocks.waited_ms(now_ms)
        return limiting.wal_due(
            self.limits,
            rows=waiting.rows // leniency,
            size_bytes=waiting.size_bytes // leniency,
            waited_ms=None if waited_ms is None else Milliseconds(waited_ms // leniency),
        )

    def memtable_due(self, now_ms: Milliseconds | None) -> Trigger | None:
        """The limit that makes a MemTable flush due now; None if there is none."""
        return limiting.memtable_due(
            self.limits,
            rows=self.memtable.rows,
            size_bytes=self.memtable.written.size_bytes,
            entries=len(self.memtable.stored),
            age_ms=self.clocks.age_ms(now_ms),
        )

    def deadline_ms(self) -> Milliseconds | None:
        """When the next time limit is reached, in the time that `Io.now` tells; None if no such limit runs."""
        return self.clocks.deadline_ms(self.limits, self.memtable.waiting_rows, self.memtable.rows)

    def has_room(self) -> bool:
        """Whether a put may continue, rather than wait until a frozen MemTable is flushed."""
        if not self.frozen:
            return True
        frozen = [m for m in self.frozen if m.generation >= self.manifest.generation_current]
        held_bytes = sum(m.written.size_bytes for m in (*frozen, self.memtable))
        return limiting.has_room(self.limits, frozen=len(frozen), size_bytes=held_bytes)

    def news(self, deadline_ms: Milliseconds) -> bool:
        """Whether there is anything that may not wait for ``deadline_ms``."""
        due = self.memtable_due(None) or self.wal_due(None)
        return bool(self.stopped or self.closing or self.frozen or due) or self.deadline_ms() != deadline_ms


@dataclass(slots=True)
class Stopping:
    """Any failure inside stops the writer, an interruption too: what was under way has no known outcome then."""

    writer: WriterState

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        failures = self.writer.failures
        if isinstance(failure, GeneratorExit):
            if not failures:
                failures.append(OutcomeUnknown(self.writer.region.io.root, "a step was begun and abandoned"))
        elif failure is not None and failure not in failures and not isinstance(failure, WriterStopped):
            failures.append(failure)
