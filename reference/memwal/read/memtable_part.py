"""A MemTable as a source: lent by its open writer, or what its writer left of it in the WAL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..codec.asked_keys import AskedKeys
from ..effects import Io
from ..ids import Epoch, FragmentId, RegionId
from ..keys import Mask, holds
from ..region.rows import TOMBSTONE, Rows
from ..table.late import RowChoice, agreed
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.state import TableState
from . import origin
from .origin import WrittenBy
from .sources import HeldIndexes
from .tail import Tail, wal_tail
from .values import Predicate
from .view import Raced, View


@dataclass(slots=True, kw_only=True)
class MemTablePart:
    """A MemTable in memory, or what its writer left of it in the WAL, which is read when it is asked for rows."""

    generation: int
    region_id: RegionId
    base: TableState
    view: View
    io: Io
    """The region's folder."""
    shape: Rows
    """How rows are stored, which is the same for all of a plan."""
    table: pa.Table | None = None
    """Its rows; None: they are in the WAL only."""
    epoch: Epoch | None = None
    """Of the writer that lends them."""
    written: tuple[WrittenBy, ...] = ()
    """The entries of rows that were read from the WAL."""
    indexes: HeldIndexes | None = None
    stored: pa.Table | None = None
    """Its rows as they are stored, once they were asked for."""

    @property
    def name(self) -> str:
        return f"{owner(self.region_id)}[gen={self.generation}]"

    async def may_contain(self, asked: AskedKeys) -> Mask:
        if self.indexes is None or self.indexes.key_filter is None:
            stored = await self._stored()
            if not stored.num_rows:
                return np.zeros(len(asked), np.bool_)
            return holds(stored.select(list(self.base.primary_key)), asked.table)
        return self.indexes.key_filter.may_contain(asked.table)

    async def fragments(self, _predicate: Predicate) -> dict[FragmentId, Addresses | None]:
        return {FragmentId(0): None} if (await self._stored()).num_rows else {}

    async def is_small(self, _fragment: FragmentId) -> bool:
        return True

    async def _stored(self) -> pa.Table:
        """All rows as they are stored."""
        if self.stored is None:
            if self.table is None:
                tail = await self._tail()
                self.table, self.written = tail.rows, tail.written
            if set(self.base.schema.names) - set(self.table.schema.names):
                raise Raced(f"memory of {self.region_id}", generation=False)  # columns were added: its writer is fenced
            self.stored = self.shape.restored(self.table, f"memory of {self.region_id}", narrowed=True)
        return self.stored

    async def prepare(self, _names: Sequence[str], _fragments: Sequence[FragmentId], _few: bool = True) -> None:
        await self._stored()

    async def rows(self, names: Sequence[str], _fragments: Sequence[FragmentId] | None = None) -> pa.Table:
        stored = await self._stored()
        if not stored.num_rows:
            return self._none(stored, names)
        marked = [TOMBSTONE] if TOMBSTONE in stored.schema.names else []
        written = self.written or (WrittenBy(stored.num_rows, self.epoch, None),)
        told = origin.told(self.base, names, self.region_id, self.generation, written)
        found = {name: told[name] if name in told else stored.column(name) for name in names}
        found[ROW_ADDRESS] = pa.chunked_array([cellwise.numbers(np.arange(stored.num_rows, dtype=np.uint64))])
        return pa.table(found | {name: stored.column(name) for name in marked})

    def _none(self, stored: pa.Table, names: Sequence[str]) -> pa.Table:
        """The same where there is no row."""
        own = [pa.field(name, origin.field_of(self.base, name).type) for name in names]
        marked = [stored.schema.field(TOMBSTONE)] if TOMBSTONE in stored.schema.names else []
        return pa.schema([*own, pa.field(ROW_ADDRESS, pa.uint64()), *marked]).empty_table()

    async def at(self, names: Sequence[str], addresses: Addresses) -> pa.Table:
        return cellwise.at(await self.rows(names), addresses.astype(np.int64))

    async def stream(self, names: Sequence[str], _fragment: FragmentId, choice: RowChoice) -> AsyncIterator[pa.Table]:
        looked_at = [name for stage in choice.stages for name in stage.columns]
        rows = (await self.rows(list(dict.fromkeys([*looked_at, *names])))).drop_columns([ROW_ADDRESS])
        wanted = agreed(rows, [stage.mask for stage in choice.stages])
        if wanted.any():
            marked = {TOMBSTONE} & set(rows.schema.names)
            yield cellwise.where(rows, wanted).select([*names, *marked])

    async def _tail(self) -> Tail:
        manifest = self.view.manifests[self.region_id]
        tail = await wal_tail(self.io, manifest, self.shape, self.base.revision, self.view.ends.get(self.region_id))
        if tail is None:
            raise Raced(self.io.path("wal"), generation=False)
        return tail


def owner(region: RegionId | None) -> str:
    """How plans name the region of a source; None: the base table."""
    return "base_table" if region is None else f"region {region[:8]}"
