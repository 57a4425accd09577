"""The sources of a plan, each with the generation that orders it: -1 is the base table, MemTables count from 1.

A source is asked for keys first, by its filter, and for rows only then; what was read once is kept while the plan runs.
Source: MemWAL revisions A and B, "MemTable Collection".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise, paths
from ..clauses import implements
from ..codec import bloom
from ..codec.pb.lance import table_pb2
from ..codec.region_manifest import RegionManifest
from ..effects import Io, remembered
from ..errors import ArtifactError, Fenced, NotFound, Unmergeable
from ..ids import Epoch, FragmentId, Generation, RegionId
from ..keys import Mask, holds
from ..region import manifest as manifests
from ..region.flush import CONFIG_EPOCH
from ..region.rows import TOMBSTONE, Rows
from ..table import late, read
from ..table.late import APART_ROWS, RowChoice, Stage, agreed
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from ..table.state import TableState, latest
from ..table.stored_file import WHOLE_BYTES
from . import origin
from .fragments import empty, holding
from .generation import in_write_order, mapped_columns, newest_first
from .origin import WrittenBy
from .sources import BASE_GENERATION, HeldIndexes, MemoryView, unmerged
from .tail import Tail, wal_tail
from .values import Predicate
from .view import Raced, View

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

    async def may_contain(self, keys: pa.Table) -> Mask:
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

    async def at(self, names: Sequence[str], addresses: Addresses, /) -> pa.Table:
        """Those of `rows` whose addresses are among ``addresses``, which ascend; in that order."""

    def stream(self, names: Sequence[str], fragment: FragmentId, choice: RowChoice, /) -> AsyncIterator[pa.Table]:
        """The rows of one fragment that ``choice`` wants, in batches: the newest first, each in write order.

        Without their addresses; ``choice`` is shown marks of deletes too.
        """


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

    @property
    def name(self) -> str:
        return f"{_owner(self.region_id)}[gen={self.generation}]"

    @implements("PLAN-003", "AMB-47")
    async def may_contain(self, keys: pa.Table) -> Mask:
        if self.region_id is None:
            return np.ones(keys.num_rows, np.bool_)
        if self.known is None:
            name = "key filter", self.io.root, self.base.revision.name
            self.known = await remembered(self.io, name, self._filter, bloom.size_bytes)
        return self.known.might_contain(keys)

    async def _filter(self) -> bloom.DecodedFilter:
        name = paths.BLOOM_FILTER
        try:
            return bloom.decode(await self.io.get(name), self.base.revision, self.io.path(name))
        except NotFound:
            return bloom.AlwaysPositive()

    async def opened(self) -> TableState:
        """The table; raises `Raced` for a generation that is gone, and `ArtifactError` for columns that do not fit."""
        if self.state is None:
            try:
                found = await latest(self.io)
            except NotFound:
                if not self.lenient:
                    raise Raced(self.io.root, generation=True) from None
                found = empty(self.base)
            of = found.path, self.base.path
            make = partial(self._mapped_columns, found)
            self.columns = await remembered(self.io, ("columns of a generation", *of), make, len, of=of)
            self.state = found
        elif not self.columns:
            self.columns = {name: name for name in self.state.schema.names}
        return self.state

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

    async def fragments(self, predicate: Predicate) -> dict[FragmentId, Addresses | None]:
        state = await self.opened()
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
            await self._rows(state, fragment, names)
            for fragment in sorted(state.fragments, key=lambda each: each.id)
            if wanted is None or fragment.id in wanted
        ]
        found = pa.concat_tables([self._schema(state, names).empty_table(), *parts])
        return found if self.region_id is None else in_write_order(found, state)

    async def at(self, names: Sequence[str], addresses: Addresses) -> pa.Table:
        state = await self.opened()
        own, found = self._held(state, names) or state.schema.names[:1], [self._schema(state, names).empty_table()]
        homes = addresses >> np.uint64(32)
        for fragment in sorted(state.fragments, key=lambda each: each.id):
            offsets = addresses[homes == fragment.id] & np.uint64(0xFFFFFFFF)
            if len(offsets):
                taken = await read.take(self.io, state, fragment, own, offsets)
                found.append(self._addressed(taken, state, names))
        return pa.concat_tables(found)

    async def stream(self, names: Sequence[str], fragment: FragmentId, choice: RowChoice) -> AsyncIterator[pa.Table]:
        state = await self.opened()
        (chosen,) = (each for each in state.fragments if each.id == fragment)
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

    async def _rows(self, state: TableState, fragment: table_pb2.DataFragment, names: Sequence[str]) -> pa.Table:
        own = self._held(state, names)
        found = await read.read_fragment(self.io, state, fragment, own, with_row_address=True)
        return self._addressed(found, state, names)

    def _addressed(self, found: pa.Table, state: TableState, names: Sequence[str]) -> pa.Table:
        rows = self._mapped(found, state, names)
        return rows.append_column(_ADDRESS, found.column(ROW_ADDRESS)).select(self._schema(state, names).names)

    def _held(self, state: TableState, names: Sequence[str]) -> list[str]:
        """The own columns that hold ``names``, and the mark of deletes."""
        marked = [TOMBSTONE] if TOMBSTONE in state.schema.names else []
        return list(dict.fromkeys([*(self.columns[name] for name in names if name in self.columns), *marked]))

    def _mapped(self, found: pa.Table, state: TableState, names: Sequence[str]) -> pa.Table:
        """``found`` with the columns ``names`` of the base, and the mark of deletes."""
        schema = self._schema(state, names, addressed=False)
        held = {**self.columns, TOMBSTONE: TOMBSTONE}
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
        strict = {field.name for field in self.base.schema if not field.nullable}
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            null = column.is_null() if name in strict and column.null_count else None
            if null is not None and TOMBSTONE in rows.schema.names:
                null = pc.and_not(null, rows.column(TOMBSTONE))
            if null is not None and pc.any(null).as_py():
                raise ArtifactError("AMB-50", self.io.root, f"column {name!r} has NULLs, and the table has none in it")

    def _schema(self, state: TableState, names: Sequence[str], *, addressed: bool = True) -> pa.Schema:
        marked = [pa.field(TOMBSTONE, pa.bool_())] if TOMBSTONE in state.schema.names else []
        plain = [pa.field(name, origin.field_of(self.base, name).type) for name in names]
        return pa.schema([*plain, *([_ADDRESS] if addressed else []), *marked])


@dataclass(slots=True, kw_only=True)
class MemTablePart:
    """A MemTable in memory, or what its writer left of it in the WAL, which is read when it is asked for rows."""

    generation: int
    region_id: RegionId
    base: TableState
    view: View
    io: Io
    """The region's folder."""
    table: pa.Table | None = None
    """Its rows; None: they are in the WAL only."""
    epoch: Epoch | None = None
    """Of the writer that lends them."""
    written: tuple[WrittenBy, ...] = ()
    """The entries of rows that were read from the WAL."""
    indexes: HeldIndexes | None = None

    @property
    def name(self) -> str:
        return f"{_owner(self.region_id)}[gen={self.generation}]"

    async def may_contain(self, keys: pa.Table) -> Mask:
        if self.indexes is None or self.indexes.key_filter is None:
            key = list(self.base.primary_key)
            return holds((await self.rows(key)).select(key), keys)
        return self.indexes.key_filter.may_contain(keys)

    async def fragments(self, _predicate: Predicate) -> dict[FragmentId, Addresses | None]:
        return {FragmentId(0): None}

    async def is_small(self, _fragment: FragmentId) -> bool:
        return True

    async def rows(self, names: Sequence[str], _fragments: Sequence[FragmentId] | None = None) -> pa.Table:
        shape = Rows(
            table=self.base.schema,
            key=self.base.primary_key,
            revision=self.base.revision,
            field_ids=tuple(self.base.field_ids.items()),
        )
        if self.table is None:
            tail = await self._tail(shape)
            self.table, self.written = tail.rows, tail.written
        if set(self.base.schema.names) - set(self.table.schema.names):
            raise Raced(f"memory of {self.region_id}", generation=False)  # columns were added: its writer is fenced
        stored = shape.restored(self.table, f"memory of {self.region_id}", narrowed=True)
        marked = [TOMBSTONE] if TOMBSTONE in stored.schema.names else []
        written = self.written or (WrittenBy(stored.num_rows, self.epoch, None),)
        told = origin.told(self.base, names, self.region_id, self.generation, written)
        found = {name: told[name] if name in told else stored.column(name) for name in names}
        found[ROW_ADDRESS] = pa.chunked_array([pa.array(np.arange(stored.num_rows, dtype=np.uint64))])
        return pa.table(found | {name: stored.column(name) for name in marked})

    async def at(self, names: Sequence[str], addresses: Addresses) -> pa.Table:
        return cellwise.at(await self.rows(names), addresses.astype(np.int64))

    async def stream(self, names: Sequence[str], _fragment: FragmentId, choice: RowChoice) -> AsyncIterator[pa.Table]:
        looked_at = [name for stage in choice.stages for name in stage.columns]
        rows = (await self.rows(list(dict.fromkeys([*looked_at, *names])))).drop_columns([ROW_ADDRESS])
        wanted = agreed(rows, [stage.mask for stage in choice.stages])
        if wanted.any():
            marked = {TOMBSTONE} & set(rows.schema.names)
            yield cellwise.where(rows, wanted).select([*names, *marked])

    async def _tail(self, shape: Rows) -> Tail:
        manifest = self.view.manifests[self.region_id]
        tail = await wal_tail(self.io, manifest, shape, self.base.revision, self.view.ends.get(self.region_id))
        if tail is None:
            raise Raced(self.io.path("wal"), generation=False)
        return tail


@dataclass(frozen=True, slots=True)
class Parts:
    """All sources of a query."""

    base: TablePart
    regions: Mapping[RegionId, tuple[Part, ...]]
    """Sources of each region above the base, newest first."""


@implements("PLAN-001", "PLAN-002", "PLAN-034", "AMB-88", "AMB-102", "AMB-104", "AMB-117", "AMB-118", "AMB-140")
def collect(io: Io, view: View, memory: Sequence[MemoryView]) -> Parts:
    """The sources of ``view`` and of the ``memory`` of open writers. Raises `Fenced` for memory of an older epoch."""
    base = TablePart(io=io, generation=BASE_GENERATION, region_id=None, base=view.base, state=view.base)
    held = {each.region_id: each for each in memory}
    found: dict[RegionId, tuple[Part, ...]] = {}
    for region in sorted({*view.manifests, *held}):
        manifest = view.manifests.get(region)
        above: list[Part] = [*_stored(io, view, region, manifest), *_held(io, view, region, manifest, held.get(region))]
        if above:
            found[region] = tuple(reversed(above))
    return Parts(base, found)


def _stored(io: Io, view: View, region: RegionId, manifest: RegionManifest | None) -> list[TablePart]:
    merged = view.base.mem_wal.progress(region)
    # AMB-118, merged generations: they are in the base, where others may have changed their rows since.
    floor = merged if io.interpretation.merged_out_of_resolution else Generation(0)
    return [
        TablePart(
            io=manifests.folder(io, region).child(listed.path),
            generation=listed.generation,
            region_id=region,
            base=view.base,
            # AMB-100, a generation that cannot be opened: only a merged one may be missing.
            lenient=not io.interpretation.skip_only_merged or listed.generation <= merged,
        )
        for listed in (unmerged(manifest, floor) if manifest is not None else ())
    ]


def _held(
    io: Io, view: View, region: RegionId, manifest: RegionManifest | None, memory: MemoryView | None
) -> list[MemTablePart]:
    current = manifest.generation_current if manifest is not None else Generation(0)
    tables: Sequence[tuple[Generation, pa.Table | None]] = ()
    if memory is not None:
        # AMB-140, a fenced writer's memory: what its successor has acknowledged is not in it.
        if manifest is not None and memory.epoch < manifest.epoch:
            raise Fenced(region, memory.epoch, manifest.epoch)
        # AMB-102, memory and a stale view: what the manifest lists is read from its generation, and not twice.
        tables = [(generation, table) for generation, table in memory.tables if generation >= current]
    elif view.live and manifest is not None:
        # AMB-141, the WAL instead of memory: nobody lent the writer's, so that its durable rows are read there.
        tables = [(current, None)]
    return [
        MemTablePart(
            generation=generation,
            region_id=region,
            base=view.base,
            view=view,
            io=manifests.folder(io, region),
            table=table,
            epoch=memory.epoch if memory is not None else None,
            indexes=memory.indexes.get(generation) if memory is not None else None,
        )
        for generation, table in tables
    ]


def _owner(region: RegionId | None) -> str:
    return "base_table" if region is None else f"region {region[:8]}"
