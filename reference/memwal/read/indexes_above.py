"""The btrees of all generations over one column as one, so that a comparison is not asked of each of them.

Source: MemWAL revisions A and B, "Indexed Read Plan".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clauses import implements
from ..coroutines import concurrently
from ..effects import Io
from ..table.reuse import Addresses
from .answers import IndexAnswer
from .asking import IndexPart, index_parts, of_generation, of_own_column
from .collection import Above, Parts
from .conditions import Compare, Leaf
from .parts import TablePart
from .scalar_index import Pages
from .together import together
from .wanted import asked

_SPARED = 512
"""To ask the btree of one generation takes about the time of putting so many rows in order."""


@dataclass(frozen=True, slots=True)
class _IndexesAbove:
    """Of those generations whose rows one small btree has all of."""

    nothing: Mapping[str, IndexAnswer]
    """By the folder of a generation its answer where it has no such row."""
    folders: tuple[str, ...]
    pages: Pages
    """Of all of them; the ids are places in `addresses`."""
    addresses: Addresses
    homes: npt.NDArray[np.int32]
    """Of each row the number of its folder."""

    def answers(self, leaf: Compare) -> Mapping[str, IndexAnswer]:
        """What each of them says; nothing where values of the column's type have no such comparison."""
        wanted = asked(leaf, self.pages.values.type)
        if wanted is None:
            return {}
        try:
            found = self.pages.rows(wanted)
        except pa.ArrowNotImplementedError:
            return {}
        homes, addresses = self.homes[found], self.addresses[found]
        order = np.lexsort((addresses, homes))
        homes, addresses = homes[order], addresses[order]
        some, first = np.unique(homes, return_index=True)
        held = dict(self.nothing)
        for home, own in zip(some.tolist(), np.split(addresses, first[1:]), strict=False):
            none = self.nothing[self.folders[home]]
            held[self.folders[home]] = IndexAnswer(own, none.fragments, none.via)
        return held


@dataclass(slots=True)
class OfGenerations:
    """Asks the indexes of generations, in one read; those that are kept as one all at once."""

    parts: Parts
    _told: dict[int, Mapping[str, IndexAnswer]] = field(default_factory=dict)
    """By the identity of a comparison."""

    async def ask(self, part: TablePart, leaf: Leaf) -> IndexAnswer | None:
        """What the indexes of a generation say of its own rows. Raises `Raced` for one that is gone."""
        found = (await self.told(leaf)).get(part.io.root)
        return found if found is not None else await of_generation(part, leaf)

    async def told(self, leaf: Leaf) -> Mapping[str, IndexAnswer]:
        """The answers of the generations that are asked as one, by their folders; each of all rows of its own."""
        if id(leaf) not in self._told:
            self._told[id(leaf)] = await _together(self.parts, leaf) if isinstance(leaf, Compare) else {}
        return self._told[id(leaf)]


@implements("PLAN-011")
async def _together(parts: Parts, leaf: Compare) -> Mapping[str, IndexAnswer]:
    above = await parts.stored()
    if above is None or not above.generations:
        return {}
    what = "indexes above", leaf.column, parts.base.base.path
    found = await together(parts, above, what, partial(_joined, parts.io, above, leaf), _size, spared=_SPARED)
    return {} if found is None else found.answers(leaf)


async def _joined(io: Io, above: Above, leaf: Compare) -> _IndexesAbove | None:
    """None where no generation has such a btree."""
    every = await concurrently(io, [partial(_whole, each, leaf) for each in above.generations])
    held = [(each.io.root, own) for each, own in zip(above.generations, every, strict=True) if own is not None]
    kinds = {own.pages.values.type for _, own in held if own.pages is not None}
    if len(kinds) != 1:
        return None
    pages = [own.pages for _, own in held if own.pages is not None]
    return _IndexesAbove(
        nothing={folder: IndexAnswer(pages[0].ids[:0], own.fragments, own.via) for folder, own in held},
        folders=tuple(folder for folder, _ in held),
        pages=Pages.joined(pages),
        addresses=np.concatenate([each.ids for each in pages]),
        homes=np.repeat(np.arange(len(pages), dtype=np.int32), [len(each.ids) for each in pages]),
    )


async def _whole(part: TablePart, leaf: Compare) -> IndexPart | None:
    """The part of an index that has all rows of a generation, if its pages are at hand."""
    state = await part.opened()
    here = of_own_column(part, leaf)
    if here is None or state.moves:
        return None
    every, found = await index_parts(part, here)
    best = found[0] if found else None
    return best if best is not None and best.pages is not None and best.named == best.fragments == every else None


def _size(joined: _IndexesAbove | None) -> int:
    return 0 if joined is None else int(joined.pages.size_bytes + joined.addresses.nbytes + joined.homes.nbytes)
