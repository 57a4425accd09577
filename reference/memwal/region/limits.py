"""When a writer stores what it has buffered, when it flushes its MemTable, and when it takes no more for now.

The decisions are functions of sizes and times that the caller names; nothing here looks at a clock.
Source: MemWAL revision A, "Writer Configuration" and "Write Operations". Names in the native writer's
options are given for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from ..clauses import implements
from ..errors import InvalidArgument
from ..ids import Milliseconds

Trigger = Literal["rows", "bytes", "entries", "time"]
"""Which limit was reached."""

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one writer. Bytes are those of the rows in Arrow memory; encoded entries are of about that size.

    Raises `InvalidArgument` for a limit that is not a positive whole number, and for one that another makes useless.
    """

    wal_rows: int = 100_000
    """Buffered rows at which they are stored as a WAL entry."""
    wal_bytes: int = 10 * MIB
    """Buffered bytes at which they are stored as a WAL entry; native ``max_wal_buffer_size``."""
    wal_interval_ms: Milliseconds | None = Milliseconds(1000)
    """Age of the oldest buffered row at which it is stored; None: no limit. Native ``max_wal_flush_interval_ms``."""
    entry_bytes: int = 256 * MIB
    """Most bytes in one WAL entry. A larger write is refused; writes are batched up to it and never split (AMB-16)."""
    memtable_rows: int = 1_000_000
    """MemTable rows at which it is flushed; native ``max_memtable_rows``."""
    memtable_bytes: int = 256 * MIB
    """MemTable bytes at which it is flushed; native ``max_memtable_size``."""
    memtable_entries: int = 10_000
    """WAL entries of a MemTable at which it is flushed: replay reads each. Native ``max_memtable_batches``."""
    memtable_age_ms: Milliseconds | None = None
    """Age of a MemTable's first row at which it is flushed; None: no limit."""
    frozen_memtables: int = 4
    """MemTables waiting to be flushed at which puts wait."""
    unflushed_bytes: int = 1024 * MIB
    """Bytes in all MemTables at which puts wait for a flush; native ``max_unflushed_memtable_bytes``."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("wal_interval_ms", "memtable_age_ms"):
                # No time limit at all is a choice; the other limits always hold.
                continue
            if type(value) is not int or value < 1:
                raise InvalidArgument(f"limit {field.name} is {value!r}, not a positive whole number")
        if self.unflushed_bytes < self.memtable_bytes:
            reason = f"limit unflushed_bytes is {self.unflushed_bytes}, below memtable_bytes {self.memtable_bytes}"
            raise InvalidArgument(f"{reason}: a MemTable could never be full")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Since when time limits run; None: not measured, or nothing to measure."""

    waiting_since_ms: Milliseconds | None = None
    """When the oldest write that waits for a WAL flush came."""
    opened_ms: Milliseconds | None = None
    """When the active MemTable got its first rows."""

    def started(self, limits: Limits, waiting: int, rows: int, now_ms: Milliseconds | None) -> Clocks:
        """After noting the time for those time limits that run, unless it is noted already.

        ``waiting``: rows that wait for a WAL flush; ``rows``: those of the MemTable; ``now_ms``: None if none runs.
        """
        started = self
        if now_ms is not None and waiting and limits.wal_interval_ms is not None and self.waiting_since_ms is None:
            started = replace(started, waiting_since_ms=now_ms)
        if now_ms is not None and rows and limits.memtable_age_ms is not None and self.opened_ms is None:
            started = replace(started, opened_ms=now_ms)
        return started

    def waited_ms(self, now_ms: Milliseconds | None) -> Milliseconds | None:
        """How long the oldest write has waited."""
        return _between(self.waiting_since_ms, now_ms)

    def age_ms(self, now_ms: Milliseconds | None) -> Milliseconds | None:
        """How old the first rows of the MemTable are."""
        return _between(self.opened_ms, now_ms)

    def deadline_ms(self, limits: Limits, waiting: int, rows: int) -> Milliseconds | None:
        """When the next time limit is reached; None if none runs. ``waiting``, ``rows``: as for `started`."""
        ends = []
        if limits.wal_interval_ms is not None and self.waiting_since_ms is not None and waiting:
            ends.append(Milliseconds(self.waiting_since_ms + limits.wal_interval_ms))
        if limits.memtable_age_ms is not None and self.opened_ms is not None and rows:
            ends.append(Milliseconds(self.opened_ms + limits.memtable_age_ms))
        return min(ends, default=None)


@implements("WRITER-018")
def wal_due(limits: Limits, *, rows: int, size_bytes: int, waited_ms: Milliseconds | None) -> Trigger | None:
    """The limit that makes a WAL flush due; None if there is none.

    ``rows``, ``size_bytes``: buffered so far. ``waited_ms``: since the oldest of them came; None: not measured. A clock
    that went back (a negative time) counts as a time long enough.
    """
    if rows >= limits.wal_rows:
        return "rows"
    if size_bytes >= limits.wal_bytes:
        return "bytes"
    return "time" if rows and _elapsed(waited_ms, limits.wal_interval_ms) else None


@implements("FLUSH-001", "WRITER-012")
def memtable_due(
    limits: Limits, *, rows: int, size_bytes: int, entries: int, age_ms: Milliseconds | None
) -> Trigger | None:
    """The limit that makes a MemTable flush due; None if there is none. ``age_ms``: as in `wal_due`, of its first row.

    A MemTable without rows is never flushed (AMB-45).
    """
    if not rows:
        return None
    if rows >= limits.memtable_rows:
        return "rows"
    if size_bytes >= limits.memtable_bytes:
        return "bytes"
    if entries >= limits.memtable_entries:
        return "entries"
    return "time" if _elapsed(age_ms, limits.memtable_age_ms) else None


def has_room(limits: Limits, *, frozen: int, size_bytes: int) -> bool:
    """Whether a put may continue. ``frozen``: MemTables that wait for a flush; ``size_bytes``: with the active one.

    Without a frozen one there is always room: no flush could make any.
    """
    return not frozen or (frozen < limits.frozen_memtables and size_bytes < limits.unflushed_bytes)


def _elapsed(waited_ms: Milliseconds | None, limit_ms: Milliseconds | None) -> bool:
    return waited_ms is not None and limit_ms is not None and not 0 <= waited_ms < limit_ms


def _between(then_ms: Milliseconds | None, now_ms: Milliseconds | None) -> Milliseconds | None:
    return None if then_ms is None or now_ms is None else Milliseconds(now_ms - then_ms)
