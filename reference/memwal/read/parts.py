"""A source of a plan, with the generation that orders it: -1 is the base table, MemTables count from 1.

It is asked for keys first, by its filter, and for rows only then; what was read once is kept while the plan runs.
Source: MemWAL revisions A and B, "MemTable Collection".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise, paths
from ..clauses import implements
from ..codec import bloom
from ..codec.asked_keys import AskedKeys
from ..codec.pb.lance import table_pb2
from ..effects import Grew, Io, remembered
from ..errors import ArtifactError, NotFound, Unmergeable
from ..ids import Epoch, FragmentId, RegionId
from ..keys import Mask
from ..region.generation_config import CONFIG_EPOCH
from ..region.rows import TOMBSTONE
from ..table import late, read
from ..table.held_pages import PAGES_BYTES
from ..table.late import APART_ROWS, RowChoice, Stage
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.state import TableState, latest
from ..table.stored_file import WHOLE_BYTES
from . import origin
from .fragments import empty, holding
from .generation import in_write_order, mapped_columns, newest_first
from .memtable_part import owner
from .opened import Opened, name_of
from .origin import WrittenBy
from .values import Predicate
from .view import Raced

T = TypeVar("T")

_OPENED_BYTES = 1 << 14
"""About what a generation takes besides what is worked out of its files."""
_TAKEN_BYTES = 1 << 18
"""Taking some rows of a file takes about as long as reading so many bytes of it, with all rows that are in them."""
_TAKEN_FAR_BYTES = 1 << 21
"""The same where requests take long."""
_ADDRESS = pa.field(ROW_ADDRESS, pa.uint64())


class Part(Protocol):
    """One source. Rows come with their address in `ROW_ADDRESS`, and in revision R with the mark of deletes."""

    @property
    def generation(self) -> int:
        """-1 for the base table; it orders the sources of one region."""

    @property
    def region_id(self) -> RegionId | None:
        """None for the base table, which all regions share."""

    @property
    def name(self) -> str:
        """How plans name it."""

    async def may_contain(self, asked: AskedKeys, /) -> Mask:
        """False only where the source has no row of the key; reads no row of one that has a filter."""

    async def fragments(self, predicate: Predicate, /) -> dict[FragmentId, Addresses | None]:
        """Fragments that may have rows for which ``predicate`` over key columns holds, oldest first.

        With the addresses of all rows that may be such ones, if that is told, ascending and in write order.
        """

    async def is_small(self, fragment: FragmentId, /) -> bool:
        """Whether all columns of the fragment are read in about the time of one."""

    async def rows(self, names: Sequence[str], fragments: Sequence[FragmentId] | None = None, /) -> pa.Table:
        """Columns ``names`` of the live rows, in write order; all fragments for None.

        They are of the base table or of `origin.ORIGIN`, here and in `stream`.
        """

    async def prepare(self, names: Sequence[str], fragments: Sequence[FragmentId], few: bool = True, /) -> None:
        """Read ahead what will be asked of ``fragments``, as far as that is kept. ``few``: of some of their rows."""

    async def at(self, names: Sequence[str], addresses: Addresses, /) -> pa.Table:
        """Those of `rows` whose addresses are among ``addresses``, which ascend; in that order."""

    def stream(self, names: Sequence[str], fragment: FragmentId, choice: RowChoice, /) -> AsyncIterator[pa.Table]:
        """The rows of one fragment that ``choice`` wants, in batches: the newest first, each in write order.

        Without their addresses; ``choice`` is shown marks of deletes too.
        """


Which = tuple[RegionId | None, int]
"""A source: its region and its generation."""
Sourced = Sequence[tuple[Part, int]]
"""Of rows of several sources, one after another: which source, and how many rows."""


@dataclass(slots=True, kw_only=True)
class TablePart:
    """The base table, or a flushed generation, which is opened when it is asked for rows."""

    io: Io
    generation: int
    region_id: RegionId | None
    base: TableState
    state: TableState | None = None
    lenient: bool = False
    """A generation that is gone counts as empty: it is merged, or the reading is the literal one (AMB-100)."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of the base -> own column; known once it is opened."""
    known: bloom.DecodedFilter | None = None
    kept: Opened | None = None
    """Of a generation, once it is opened."""
    shared: Hashable = None
    """Under which name this object itself is kept, so that other reads have it too; None: it is of one read."""

    @property
    def name(self) -> str:
        return f"{owner(self.region_id)}[gen={self.generation}]"

    @implements("PLAN-003", "AMB-47")
    async def may_contain(self, asked: AskedKeys) -> Mask:
        if self.region_id is None:
            return np.ones(len(asked), np.bool_)
        if self.known is None:
            own = self.kept.made.get(paths.BLOOM_FILTER) if self.kept is not None else None
            self.known = own if own is not None else await self._key_filter()
        return self.known.might_contain(asked)

    async def _key_filter(self) -> bloom.DecodedFilter:
        name = "key filter", self.io.root, self.base.revision.name
        found = await remembered(self.io, name, self._filter, bloom.size_bytes)
        if self.kept is not None:
            # It is asked for with the table from now on, and not by the stamp of a file of its own.
            self.kept.made[paths.BLOOM_FILTER] = found
        return found

    async def _filter(self) -> bloom.DecodedFilter:
        name = paths.BLOOM_FILTER
        try:
            return bloom.decode(await self.io.get(name), self.base.revision, self.io.path(name))
        except NotFound:
            return bloom.AlwaysPositive()

    async def opened(self) -> TableState:
        """The table; raises `Raced` for a generation that is gone, and `ArtifactError` for columns that do not fit."""
        if self.state is None:
            name = name_of(self.io)
            self.kept = await remembered(self.io, name, self._opened, lambda _: _OPENED_BYTES, by=self._told_by)
            if self.shared is not None:
                await Grew(self.shared, 0, of=name)
            found = self.kept.state
            make = partial(self._mapped_columns, found)
            self.columns = await self.kept.once(("columns of a generation", self.base.path), make, len)
            self.state = found
        elif not self.columns:
            self.columns = {name: name for name in self.state.schema.names}
        return self.state

    async def _opened(self) -> Opened:
        try:
            found = await latest(self.io)
        except NotFound:
            if not self.lenient:
                raise Raced(self.io.root, generation=True) from None
            found = empty(self.base)
        return Opened(state=found, name=name_of(self.io))

    @implements("AMB-50")
    async def _mapped_columns(self, own: TableState) -> Mapping[str, str]:
        try:
            found = mapped_columns(self.io.root, own, self.base)
        except Unmergeable as misfit:
            raise ArtifactError(misfit.clause, self.io.root, str(misfit.fields["reason"])) from misfit
        strict = [field.name for field in self.base.schema if not field.nullable and field.name not in found]
        if strict:
            raise ArtifactError("AMB-50", self.io.root, f"columns {strict} of the base without NULLs are missing")
        return found

    def _told_by(self, opened: Opened) -> Sequence[str]:
        """The manifest of a generation; nothing for one that is gone and counts as empty."""
        return () if opened.state.path == self.base.path else (opened.state.path,)

    async def once(self, what: Hashable, make: Callable[[], Awaitable[T]], size_bytes: Callable[[T], int]) -> T:
        """What ``make`` works out of the files of a generation; kept as long as the generation is."""
        if self.state is None or not self.columns:
            await self.opened()
        return await make() if self.kept is None else await self.kept.once(what, make, size_bytes)

    async def fragments(self, predicate: Predicate) -> dict[FragmentId, Addresses | None]:
        state = await self.opened()
        if not predicate:
            return await self.once("fragments", partial(self._fragments, state, predicate), len)
        return await self._fragments(state, predicate)

    async def _fragments(self, state: TableState, predicate: Predicate) -> dict[FragmentId, Addresses | None]:
        own = {self.columns[name]: values for name, values in predicate.items() if name in self.columns}
        found = await holding(self.io, state, own, own)
        if self.region_id is not None and newest_first(state):
            return dict.fromkeys(sorted(found, reverse=True))
        return found

    async def is_small(self, fragment: FragmentId) -> bool:
        (chosen,) = (each for each in (await self.opened()).fragments if each.id == fragment)
        sizes = [file.file_size_bytes for file in chosen.files]
        return chosen.physical_rows < APART_ROWS and all(sizes) and sum(sizes) <= WHOLE_BYTES

    async def rows(self, names: Sequence[str], fragments: Sequence[FragmentId] | None = None) -> pa.Table:
        state = await self.opened()
        wanted = set(fragments) if fragments is not None else None
        parts = [
            await self._kept_rows(state, fragment, names)
            if await self._keeps(fragment, names, few=False)
            else await self._rows(state, fragment, names)
            for fragment in sorted(state.fragments, key=lambda each: each.id)
            if wanted is None or fragment.id in wanted
        ]
        found = pa.concat_tables([self._schema(state, names).empty_table(), *parts])
        return found if self.region_id is None else in_write_order(found, state)

    async def prepare(self, names: Sequence[str], fragments: Sequence[FragmentId], few: bool = True) -> None:
        state = await self.opened()
        for fragment in (each for each in state.fragments if each.id in fragments):
            if await self._keeps(fragment, names, few=few):
                await self._kept_rows(state, fragment, names)

    async def at(self, names: Sequence[str], addresses: Addresses) -> pa.Table:
        state = await self.opened()
        found = list[pa.Table]()
        homes = addresses >> np.uint64(32)
        for fragment in sorted(state.fragments, key=lambda each: each.id):
            offsets = addresses[homes == fragment.id] & np.uint64(0xFFFFFFFF)
            if len(offsets):
                found.append(await self._taken(state, fragment, names, offsets))
        return pa.concat_tables(found) if found else self._schema(state, names).empty_table()

    async def _taken(
        self, state: TableState, fragment: table_pb2.DataFragment, names: Sequence[str], offsets: Addresses
    ) -> pa.Table:
        """The live rows at ``offsets``."""
        if not await self._keeps(fragment, names, few=True):
            own = self._held(state, names) or state.schema.names[:1]
            return self._mapped(await read.take(self.io, state, fragment, own, offsets), state, names, addressed=True)
        rows = await self._kept_rows(state, fragment, names)
        there = rows.column(ROW_ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF)
        at = np.minimum(np.searchsorted(there, offsets), len(there) - 1)
        return cellwise.at(rows, at[there[at] == offsets] if len(there) else at[:0])

    async def stream(self, names: Sequence[str], fragment: FragmentId, choice: RowChoice) -> AsyncIterator[pa.Table]:
        state = await self.opened()
        (chosen,) = (each for each in state.fragments if each.id == fragment)
        every = choice.columns(names)
        if await self._keeps(chosen, every, few=choice.few):
            kept = await self._kept_rows(state, chosen, every)
            if choice.gone is not None:
                live = await choice.live(self.io, state, chosen)
                kept = cellwise.where(kept, live[kept.column(ROW_ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF)])
            rows = late.among(in_write_order(kept, state), choice, self._schema(state, (), addressed=False).names)
            if rows.num_rows:
                yield rows.select(self._schema(state, names, addressed=False).names)
            return
        # Rows of a generation of an older native writer are stored newest first, from batch to batch and in each.
        turned = self.region_id is not None and newest_first(state)

        def own(stage: Stage) -> Stage:
            def mask(found: pa.Table) -> Mask:
                rows = self._mapped(found, state, stage.columns)
                return stage.mask(in_write_order(rows, state))[::-1] if turned else stage.mask(rows)

            return Stage(held(stage.columns), mask)

        def held(names: Sequence[str]) -> tuple[str, ...]:
            # A column is read even if no wanted one is stored: it says how many rows there are.
            return tuple(self._held(state, names) or state.schema.names[:1])

        choosing = replace(choice, stages=tuple(own(stage) for stage in choice.stages))
        async for found in late.chosen_batches(self.io, state, chosen, held(names), choosing, backwards=not turned):
            rows = self._mapped(found, state, names)
            yield in_write_order(rows, state) if turned else rows

    async def _keeps(self, fragment: table_pb2.DataFragment, names: Sequence[str], *, few: bool) -> bool:
        """Whether columns of a fragment of a generation are kept from read to read. ``few``: some rows are taken.

        They are of a small one, and of one of which rows were taken so often that it cost as much as reading them all.
        """
        if self.kept is None or self.kept.name is None:
            return False
        if await self.is_small(FragmentId(fragment.id)):
            return True
        size = sum(file.file_size_bytes for file in fragment.files)
        if not few or not 0 < size <= PAGES_BYTES:
            return False
        taken = self.kept.made.setdefault(("times taken", fragment.id, tuple(names)), count(1))
        return bool(next(taken) * (_TAKEN_FAR_BYTES if self.io.concurrent else _TAKEN_BYTES) >= size)

    async def _kept_rows(self, state: TableState, fragment: table_pb2.DataFragment, names: Sequence[str]) -> pa.Table:
        """Columns ``names`` of all live rows, as they are stored."""
        wanted = tuple(dict.fromkeys(names))
        what = "rows", fragment.id, wanted
        kept = self.kept.made if self.kept is not None else {}
        if what not in kept:
            for other, rows in tuple(kept.items()):
                match other:
                    case "rows", fragment.id, tuple() as held if set(wanted) <= set(held):
                        # They are kept with more columns, or in another order: these take no more memory.
                        found: pa.Table = kept.setdefault(what, rows.select(self._schema(state, wanted).names))
                        return found

        async def made() -> pa.Table:
            # In one chunk: pyarrow copies several whenever rows are taken of them.
            return (await self._rows(state, fragment, wanted)).combine_chunks()

        return await self.once(what, made, _bytes_of)

    async def _rows(self, state: TableState, fragment: table_pb2.DataFragment, names: Sequence[str]) -> pa.Table:
        own = self._held(state, names) or state.schema.names[:1]
        found = await read.read_fragment(self.io, state, fragment, own, with_row_address=True)
        return self._mapped(found, state, names, addressed=True)

    def _held(self, state: TableState, names: Sequence[str]) -> list[str]:
        """The own columns that hold ``names``, and the mark of deletes."""
        marked = [TOMBSTONE] if TOMBSTONE in state.schema.names else []
        return list(dict.fromkeys([*(self.columns[name] for name in names if name in self.columns), *marked]))

    def _mapped(self, found: pa.Table, state: TableState, names: Sequence[str], *, addressed: bool = False) -> pa.Table:
        """Columns ``names`` of the base of ``found``, its addresses if they are asked for, and the mark of deletes."""
        schema = self._schema(state, names, addressed=addressed)
        held = {**self.columns, ROW_ADDRESS: ROW_ADDRESS, TOMBSTONE: TOMBSTONE}
        values = dict(zip(found.schema.names, found.columns, strict=True))
        epoch = None if self.region_id is None else state.config.get(CONFIG_EPOCH)
        written = WrittenBy(found.num_rows, None if epoch is None else Epoch(int(epoch)), None)
        told = origin.told(self.base, names, self.region_id, self.generation, [written])
        told |= {name: values[own] for name, own in held.items() if own in values}
        columns = [
            told[column.name] if column.name in told else pa.nulls(found.num_rows, column.type) for column in schema
        ]
        rows = pa.table(columns, schema=schema)
        self._check_nulls(rows)
        return rows

    @implements("AMB-50")
    def _check_nulls(self, rows: pa.Table) -> None:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if not column.null_count or name not in self.base.field_ids or self.base.schema.field(name).nullable:
                continue  # there are none, or there may be
            null = column.is_null()
            if TOMBSTONE in rows.schema.names:
                null = pc.and_not(null, rows.column(TOMBSTONE))
            if pc.any(null).as_py():
                raise ArtifactError("AMB-50", self.io.root, f"column {name!r} has NULLs, and the table has none in it")

    def _schema(self, state: TableState, names: Sequence[str], *, addressed: bool = True) -> pa.Schema:
        marked = [pa.field(TOMBSTONE, pa.bool_())] if TOMBSTONE in state.schema.names else []
        plain = [pa.field(name, origin.field_of(self.base, name).type) for name in names]
        return pa.schema([*plain, *([_ADDRESS] if addressed else []), *marked])


def _bytes_of(rows: pa.Table) -> int:
    return int(rows.nbytes)
