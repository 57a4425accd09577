"""Asking the indexes of each source for a comparison: of the base table, of generations, of MemTables.

What no index of the base covers is asked of the generations that it came from, as far as the gap plan uses them.
Source: MemWAL revisions A and B, "Indexed Read Plan".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from ..clauses import implements
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..ids import FragmentId
from ..maintained.scalar import Between
from ..region import manifest as manifests
from ..table import reuse
from ..table.coverage import fragment_ids, named_fragments, segments
from ..table.state import TableState
from . import gap, scalar_index
from .answers import IndexAnswer, joined
from .collection import Parts
from .conditions import Compare, Leaf
from .indexed import in_base
from .memtable_part import MemTablePart
from .parts import TablePart
from .scalar_index import Pages
from .sources import MemoryView
from .view import View
from .wanted import TooMany, fitted

_PART_BYTES = 1 << 10
"""About what a part of an index takes besides its pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBase:
    """Asks the base table, its own indexes first, and those of merged generations for what these do not cover."""

    io: Io
    view: View
    parts: Parts
    memory: Sequence[MemoryView]
    most: int
    """Most rows that are wanted from one comparison."""
    _plans: dict[str, gap.IndexedPlan] = field(default_factory=dict)

    @implements("PLAN-010", "PLAN-011", "AMB-113")
    async def ask(self, leaf: Leaf) -> IndexAnswer | None:
        base, found = self.view.base, []
        left = fragment_ids(base)
        try:
            for name in scalar_index.fitting(base, leaf):
                own = await _of_index(self.io, base, name, leaf, left, self.most)
                left -= own.fragments
                merged = await self._of_gap(name, leaf, left) if left and own.fragments else None
                found += [own, *([merged] if merged is not None else [])]
                left -= merged.fragments if merged is not None else frozenset()
        except TooMany:
            return None
        told = joined(found)
        return told if told.fragments and len(told.addresses) <= self.most else None

    @implements("CATCHUP-010", "AMB-88", "AMB-113")
    async def _of_gap(self, name: str, leaf: Leaf, left: frozenset[FragmentId]) -> IndexAnswer | None:
        """What generations between the index ``name`` and merge progress say of base fragments among ``left``."""
        if name not in self._plans:
            self._plans[name] = await gap.plan(self.io, self.view, name, memory=self.memory)
        found, unknown = [], set[FragmentId]()
        for region in self._plans[name].regions:
            for used in region.gap:
                folder = manifests.folder(self.io, region.region_id).child(used.path)
                generation = TablePart(
                    io=folder, generation=used.generation, region_id=region.region_id, base=self.view.base
                )
                told = await of_generation(generation, leaf)
                if told is None or told.fragments != fragment_ids(await generation.opened()):
                    unknown |= used.fragments  # all that made a fragment have to answer for it
                    continue
                there, here = await in_base(
                    self.parts.base, generation, used.fragments & left, self.view.base.primary_key
                )
                own = here[np.isin(there, told.addresses)]
                found.append(IndexAnswer(np.sort(own), used.fragments & left, (f"gen={used.generation} index",)))
        if not found:
            return None
        told = joined(found)
        known = told.fragments - unknown
        return replace(told, addresses=told.addresses[reuse.within(told.addresses, known)], fragments=known)


@implements("PLAN-011")
async def of_generation(part: TablePart, leaf: Leaf) -> IndexAnswer | None:
    """What the indexes of a generation say of its own rows. Raises `Raced` for one that is gone."""
    state = await part.opened()
    here = of_own_column(part, leaf)
    if here is None:
        return None  # it was added since, and is NULL in all rows
    every, parts = await index_parts(part, here)
    left, found = every, list[IndexAnswer]()
    for each in parts:
        if not left:
            break
        named = each.fragments & left
        rows = await scalar_index.rows(part.io, state, each.entry, here, pages=each.pages) if named else None
        if rows is not None:
            kept = rows if named == each.named else rows[reuse.within(rows, named)]
            found.append(IndexAnswer(kept, named, each.via))
            left -= named
    told = joined(found)
    return told if told.fragments or (parts and not left) else None


def of_own_column(part: TablePart, leaf: Leaf) -> Leaf | None:
    """``leaf`` as it asks an opened generation, whose column may have another name; None for a column it lacks."""
    column = part.columns.get(leaf.column)
    if column is None:
        return None
    return leaf if column == leaf.column else replace(leaf, column=column)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One part of an index of a generation that may answer a comparison."""

    entry: table_pb2.IndexMetadata
    named: frozenset[FragmentId]
    """Of all fragments that it names."""
    fragments: frozenset[FragmentId]
    """Those that the generation has."""
    pages: Pages | None
    """Those of a small btree."""
    via: tuple[str, ...]
    """How plans name it."""


async def index_parts(part: TablePart, leaf: Leaf) -> tuple[frozenset[FragmentId], tuple[IndexPart, ...]]:
    """The fragments of a generation, and the parts of its indexes that may answer, the best first.

    ``leaf``: of `of_own_column`.
    """
    state = await part.opened()

    async def made() -> tuple[frozenset[FragmentId], tuple[IndexPart, ...]]:
        every, found = fragment_ids(state), []
        for name in scalar_index.fitting(state, leaf):
            for entry in segments(state, name):
                named = named_fragments(state, entry)
                pages = await scalar_index.pages_of(part.io, state, entry)
                found.append(IndexPart(entry, named, named & every, pages, (f"index [{name}]",)))
        return every, tuple(found)

    return await part.once(("indexes", leaf.column, type(leaf)), made, _size)


def _size(made: tuple[frozenset[FragmentId], tuple[IndexPart, ...]]) -> int:
    return sum(_PART_BYTES + (each.pages.size_bytes if each.pages is not None else 0) for each in made[1])


@implements("WRITER-022", "WRITER-024")
async def of_memtable(part: MemTablePart, leaf: Leaf) -> IndexAnswer | None:
    """What the ordered and bitmap structures of a MemTable say of its rows; those that they lack may all match."""
    if part.indexes is None or part.table is None or not isinstance(leaf, Compare):
        return None
    column = part.base.schema.field(leaf.column).type
    wanted = fitted(leaf.values, column.value_type if pa.types.is_dictionary(column) else column)
    for name, (indexed, index) in sorted(part.indexes.scalars.items()):
        if indexed != leaf.column or wanted is None:
            continue  # an index over another column
        codes = wanted.codes
        found = index.between(codes) if isinstance(codes, Between) else chain.from_iterable(map(index.equal, codes))
        rows = np.fromiter(found, np.uint64)
        later = np.arange(part.indexes.rows_indexed, part.table.num_rows, dtype=np.uint64)
        known = np.unique(np.concatenate([rows[rows < part.indexes.rows_indexed], later]))
        return IndexAnswer(known, frozenset([FragmentId(0)]), (f"memory index [{name}]",))
    return None


async def _of_index(
    io: Io, state: TableState, name: str, leaf: Leaf, among: Collection[FragmentId], most: int | None = None
) -> IndexAnswer:
    """What the parts of one index say of fragments ``among``. Raises `TooMany`."""
    found = []
    for entry in segments(state, name):
        named = named_fragments(state, entry) & frozenset(among)
        rows = await scalar_index.rows(io, state, entry, leaf, most) if named else None
        if rows is not None:
            found.append(IndexAnswer(rows[reuse.within(rows, named)], named, (f"index [{name}]",)))
    return joined(found)
