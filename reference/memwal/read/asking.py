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
from ..effects import Io
from ..ids import FragmentId
from ..maintained.scalar import Between
from ..region import manifest as manifests
from ..table.coverage import fragment_ids, named_fragments, segments
from ..table.state import TableState
from . import gap, scalar_index
from .answers import IndexAnswer, joined, within
from .conditions import Compare, Leaf
from .indexed import in_base
from .parts import MemTablePart, Parts, TablePart
from .sources import MemoryView
from .view import View
from .wanted import TooMany, fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBase:
    """Asks the base table, its own indexes first, and those of merged generations for what these do not cover."""

    io: Io
    view: View
    parts: Parts
    memory: Sequence[MemoryView]
    most: int
    """Most rows that somebody wants from one comparison."""
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
        return replace(told, addresses=told.addresses[within(told.addresses, known)], fragments=known)


@implements("PLAN-011")
async def of_generation(part: TablePart, leaf: Leaf) -> IndexAnswer | None:
    """What the indexes of a generation say of its own rows. Raises `Raced` for one that is gone."""
    state = await part.opened()
    column = part.columns.get(leaf.column)
    if column is None:
        return None  # it was added since, and is NULL in all rows
    here, left, found = replace(leaf, column=column), fragment_ids(state), []
    for name in scalar_index.fitting(state, here):
        found.append(await _of_index(part.io, state, name, here, left))
        left -= found[-1].fragments
    told = joined(found)
    return told if told.fragments or (found and not left) else None


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
            found.append(IndexAnswer(rows[within(rows, named)], named, (f"index [{name}]",)))
    return joined(found)
