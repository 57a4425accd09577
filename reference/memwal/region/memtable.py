"""A MemTable: the rows of one generation in write order, with the WAL entries that hold them.

Source: MemWAL revisions A and B, "MemTable".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..clauses import implements
from ..codec.marks import Mark, joined
from ..errors import EngineBug
from ..ids import FragmentId, Generation, WalPosition
from .log import Log
from .mapping import FragmentMapping, FragmentPlace

if TYPE_CHECKING:
    from ..maintained.base_index import MaintainedIndex
    from ..maintained.memory import MemTableIndexes

SMALL_BYTES = 4096
"""Sizes up to this one are not taken exactly."""


def size_of(rows: pa.Table) -> int:
    """Bytes of ``rows`` in Arrow memory.

    Exact for a slice of something large, which takes time. What has no more than `SMALL_BYTES` together with all that
    it is a slice of counts as that: nothing else of a small put may take longer than its entry.
    """
    whole: int = rows.get_total_buffer_size()
    return whole if whole <= SMALL_BYTES else int(rows.nbytes)


@dataclass(frozen=True, slots=True)
class Extent:
    """A first part of a MemTable."""

    fragments: int = 0
    rows: int = 0
    size_bytes: int = 0
    """Sum of `size_of` each write."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One WAL entry with rows of the MemTable."""

    position: WalPosition
    fragment_start: int
    """Id of its first fragment."""
    fragments: int
    rows: int
    """At least one."""
    size_bytes: int | None
    """Of the object; None where the writer did not store it itself."""


@implements("GEN-014", "GEN-015", "GEN-017", "FLUSH-018")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemTable:
    """Rows that no listed generation holds. Immutable; each step gives a new value, in constant time.

    ``durable`` is a part of ``handed``, and that of ``written``: fragments are handed to the WAL in order and whole.
    """

    generation: Generation
    """Number under which it will be flushed; an identity only within the writer's epoch (AMB-42)."""
    schema: pa.Schema
    fragments: Log[pa.Table] = Log()
    """Whole writes in order, none empty; ids are places in it."""
    written: Extent = Extent()
    """All of it."""
    handed: Extent = Extent()
    """What is in the WAL, and what is being stored there now."""
    durable: Extent = Extent()
    """What is in the WAL."""
    stored: Log[StoredEntry] = Log()
    """The WAL entries that hold the durable part, by position."""
    position_covered: WalPosition | None = None
    """Newest WAL position that this MemTable or an older one covers, barriers included; None before the first."""
    filled: frozenset[str] = frozenset()
    """Columns that some of its rows did not have when they were stored, and that are NULL in these (AMB-50)."""
    done: tuple[Mark, ...] = ()
    """Tasks that its entries say are finished (AMB-149)."""
    indexes: MemTableIndexes | None = None
    """Indexes over its rows, if the writer keeps them. The one part that changes in place: see `index_up_to_date`."""

    @property
    def rows(self) -> int:
        """Rows, buffered ones included."""
        return self.written.rows

    @property
    def pending_rows(self) -> int:
        """Rows that are not in the WAL."""
        return self.written.rows - self.durable.rows

    @property
    def waiting_rows(self) -> int:
        """Rows that were not yet given to the WAL."""
        return self.written.rows - self.handed.rows

    @property
    def waiting(self) -> Extent:
        """Extent of what was not yet given to the WAL."""
        return _between(self.handed, self.written)

    def table(self) -> pa.Table:
        """All rows in write order, buffered ones included; later rows are newer."""
        return pa.concat_tables([self.schema.empty_table(), *self.fragments])

    @implements("WRITER-009", "WRITER-016", "WRITER-017")
    def with_write(self, rows: pa.Table, size_bytes: int) -> MemTable:
        """After inserting one write of ``size_bytes``: visible at once, not durable."""
        before = self.written
        written = Extent(before.fragments + 1, before.rows + rows.num_rows, before.size_bytes + size_bytes)
        return self._with(fragments=self.fragments.appended(rows), written=written)

    @implements("WAL-024", "AMB-16", "AMB-18")
    def handing_over(self, entry_bytes: int) -> tuple[MemTable, pa.Table]:
        """After handing the next entry to the WAL; and its rows.

        The entry takes the waiting writes, whole and in order, as many as fit in ``entry_bytes`` and at least one.
        """
        # WAL-007, strictly in order: one entry at a time is under way.
        if self.handed != self.durable:
            raise EngineBug("an entry of this MemTable is being stored already")
        waiting = self.waiting
        if not waiting.fragments:
            raise EngineBug("no write waits for the WAL")
        writes = self.fragments[self.handed.fragments :]
        if waiting.size_bytes <= entry_bytes:
            return self._with(handed=self.written), pa.concat_tables(writes)
        taken, rows, size_bytes = 0, 0, 0
        for write in writes:
            # AMB-16, one write is never split: the first one goes whatever its size.
            if taken and size_bytes + size_of(write) > entry_bytes:
                break
            taken, rows, size_bytes = taken + 1, rows + write.num_rows, size_bytes + size_of(write)
        start = self.handed
        handed = Extent(start.fragments + taken, start.rows + rows, start.size_bytes + size_bytes)
        return self._with(handed=handed), pa.concat_tables(writes[:taken])

    def _with(
        self,
        *,
        fragments: Log[pa.Table] | None = None,
        written: Extent | None = None,
        handed: Extent | None = None,
        durable: Extent | None = None,
        stored: Log[StoredEntry] | None = None,
        position_covered: WalPosition | None = None,
    ) -> MemTable:
        """As `dataclasses.replace` of what a put changes, in half the time. None: as it is."""
        return MemTable(
            generation=self.generation,
            schema=self.schema,
            fragments=self.fragments if fragments is None else fragments,
            written=written or self.written,
            handed=handed or self.handed,
            durable=durable or self.durable,
            stored=self.stored if stored is None else stored,
            position_covered=self.position_covered if position_covered is None else position_covered,
            filled=self.filled,
            done=self.done,
            indexes=self.indexes,
        )

    @implements("WAL-028", "FLUSH-022")
    def with_entry(self, position: WalPosition, size_bytes: int | None = None) -> MemTable:
        """After what was handed over was stored as the entry at ``position``, an object of ``size_bytes``."""
        self._check_follows(position)
        taken = _between(self.durable, self.handed)
        if not taken.fragments:
            return replace(self, position_covered=position)
        entry = StoredEntry(position, self.durable.fragments, taken.fragments, taken.rows, size_bytes)
        return self._with(durable=self.handed, stored=self.stored.appended(entry), position_covered=position)

    @implements("AMB-149")
    def with_done(self, done: tuple[Mark, ...]) -> MemTable:
        """After an entry that says that the tasks of ``done`` are finished."""
        return replace(self, done=joined([*self.done, *done])) if done else self

    def _check_follows(self, position: WalPosition) -> None:
        if self.position_covered is not None and position <= self.position_covered:
            raise EngineBug(f"entry {position} after entry {self.position_covered}")

    @implements("WRITER-014", "FLUSH-021")
    def with_replayed(
        self,
        position: WalPosition,
        rows: pa.Table,
        size_bytes: int | None = None,
        *,
        filled: frozenset[str] = frozenset(),
    ) -> MemTable:
        """After replaying the entry at ``position``: one fragment, or none without rows (AMB-20)."""
        if not rows.num_rows:
            self._check_follows(position)
            return replace(self, position_covered=position)
        inserted = self.with_write(rows, size_of(rows))
        inserted = replace(inserted, handed=inserted.written, filled=self.filled | filled)
        return inserted.with_entry(position, size_bytes)

    @implements("FLUSH-026")
    def successor(self, maintained: Sequence[MaintainedIndex] | None = None) -> MemTable:
        """The next MemTable, without rows. ``maintained``: its indexes; None: the same ones."""
        return MemTable(
            generation=Generation(self.generation + 1),
            schema=self.schema,
            position_covered=self.position_covered,
            indexes=self.indexes.successor(maintained) if self.indexes is not None else None,
        )

    @implements("FLUSH-017", "FLUSH-020", "FLUSH-021", "AMB-19")
    def mapping(self) -> FragmentMapping:
        """Where the durable fragments are in the WAL, and in the generation flushed from them (A)."""
        places = []
        for entry in self.stored:
            row_start = 0
            for ordinal in range(entry.fragments):
                fragment = FragmentId(entry.fragment_start + ordinal)
                rows = self.fragments[fragment].num_rows
                places.append(FragmentPlace(fragment, entry.position, ordinal, row_start, rows))
                row_start += rows
        return FragmentMapping(tuple(places))

    @implements("WRITER-007", "WRITER-011", "AMB-116")
    def index_up_to_date(self, *, maintained: bool) -> MemTableIndexes | None:
        """The indexes, with every row in the key filter, and with ``maintained`` in the maintained indexes too.

        Not to be called by two threads at once.
        """
        if self.indexes is None:
            return None
        missing = self.written.rows - self.indexes.rows
        first = len(self.fragments)
        while missing > 0:
            first -= 1
            missing -= self.fragments[first].num_rows
        if missing:
            raise EngineBug("the indexes end inside a write")
        if first < len(self.fragments):
            self.indexes.insert(pa.concat_tables(self.fragments[first:]), indexed=maintained)
        elif maintained:
            self.indexes.refresh()
        return self.indexes


def _between(less: Extent, more: Extent) -> Extent:
    return Extent(more.fragments - less.fragments, more.rows - less.rows, more.size_bytes - less.size_bytes)
