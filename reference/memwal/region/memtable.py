"""A MemTable: the rows of one generation in write order, with the WAL entries that hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from ..clauses import implements
from ..errors import EngineBug
from ..ids import Generation, WalPosition


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of one WAL entry."""

    position: WalPosition
    rows: pa.Table
    """At least one row."""


@implements("GEN-014", "GEN-015", "GEN-017")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemTable:
    """Rows that no listed generation holds. Immutable; each write gives a new value."""

    generation: Generation
    """Number under which it will be flushed; an identity only within the writer's epoch (AMB-42)."""
    schema: pa.Schema
    stored: tuple[Stored, ...] = ()
    """Rows in the WAL, by position."""
    stored_rows: int = 0
    """Their number, so that a put does not have to count them."""
    pending: tuple[pa.Table, ...] = ()
    """Whole writes that are not in the WAL yet, in order."""
    position_covered: WalPosition | None = None
    """Newest WAL position that this MemTable or an older one covers, barriers included; None before the first."""

    @property
    def rows(self) -> int:
        """Rows, pending included."""
        return self.stored_rows + self.pending_rows

    @property
    def pending_rows(self) -> int:
        return sum(t.num_rows for t in self.pending)

    def table(self) -> pa.Table:
        """All rows in write order, pending included; later rows are newer."""
        return pa.concat_tables([self.schema.empty_table(), *(s.rows for s in self.stored), *self.pending])

    def with_write(self, rows: pa.Table) -> MemTable:
        """After inserting one write: visible at once, not durable."""
        return replace(self, pending=(*self.pending, rows))

    @implements("WAL-028")
    def with_entry(self, position: WalPosition) -> MemTable:
        """After all pending writes were stored as the entry at ``position``."""
        if self.position_covered is not None and position <= self.position_covered:
            raise EngineBug(f"entry {position} after entry {self.position_covered}")
        return self._with_stored(position, pa.concat_tables(self.pending), ())

    def with_replayed(self, position: WalPosition, rows: pa.Table) -> MemTable:
        """After replaying the entry at ``position``; one without rows only advances the position (AMB-20)."""
        if not rows.num_rows:
            return replace(self, position_covered=position)
        return self._with_stored(position, rows, self.pending)

    def _with_stored(self, position: WalPosition, rows: pa.Table, pending: tuple[pa.Table, ...]) -> MemTable:
        return replace(
            self,
            stored=(*self.stored, Stored(position, rows)),
            stored_rows=self.stored_rows + rows.num_rows,
            pending=pending,
            position_covered=position,
        )
