"""Which rows of a source a merged table would have: those that no later row supersedes and that are not deleted.

Indexes hold superseded and deleted rows as long as they are not built anew. Of the base table, whose keys are many,
one pass over its keys tells which of its rows the keys of the newer sources supersede.
Source: MemWAL revision A, "Full-Text Search Queries"; AMB-110.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from ..clauses import implements
from ..effects import remembered
from ..ids import RegionId
from ..keys import Mask
from ..seen import Seen
from ..table.read import ROW_ADDRESS, deleted_offsets
from ..table.reuse import Addresses
from .freshness import Freshness
from .parts import Part, TablePart
from .values import NOTHING

T = TypeVar("T")


@dataclass(slots=True)
class Liveness:
    """What became of the rows of each source; what was asked once is kept."""

    fresh: Freshness
    _dead: dict[tuple[RegionId | None, int], Addresses] = field(default_factory=dict)
    """Addresses of the rows that do not count, ascending."""

    @implements("AMB-110")
    async def of(self, part: Part, addresses: Addresses) -> Mask:
        """Which of the rows at ``addresses`` of a source count. For an approximate search all do."""
        live = np.ones(len(addresses), np.bool_)
        if self.fresh.approximate:
            return live
        dead = await self.dead(part)
        if not len(dead) or not len(addresses):
            return live
        order = None if bool((addresses[1:] >= addresses[:-1]).all()) else np.argsort(addresses)
        at = np.minimum(np.searchsorted(addresses, dead, sorter=order), len(addresses) - 1)
        places = at if order is None else order[at]
        live[places[addresses[places] == dead]] = False
        return live

    async def dead(self, part: Part) -> Addresses:
        """Addresses of the rows of a source that do not count, ascending."""
        which = part.region_id, part.generation
        if which not in self._dead:
            self._dead[which] = await self.kept(part, ("superseded rows",), partial(self._made, part), _size)
        return self._dead[which]

    async def kept(
        self,
        part: Part,
        what: tuple[Hashable, ...],
        make: Callable[[], Awaitable[T]],
        size_bytes: Callable[[T], int],
        *,
        of: Sequence[str] = (),
    ) -> T:
        """What ``make`` works out of a source and of which of its rows count, under the name ``what``.

        It is kept while the source and the generations above it are the same: they do not change. What is in memory or
        in the WAL does. ``of``: full names of files of the base table that it is made of, too.
        """
        above = await self.fresh.parts.above(part.region_id)
        if above is None or not isinstance(part, TablePart):
            return await make()
        base = self.fresh.view.base
        name = (*what, part.io.root, base.primary_key, self.fresh.approximate)
        told_by = above.told_by
        if part.region_id is None:
            name, told_by = (*name, base.path, above.names), (base.path, *above.told_by, *of)
        else:
            name = (*name, above.names[: above.names.index(part.io.root)])
        return await remembered(part.io, name, make, size_bytes, by=lambda _: told_by)

    async def _newer(self, part: Part) -> list[Part]:
        """The sources whose rows supersede those of ``part``, without MemTables that have no rows."""
        regions = self.fresh.parts.regions
        # A newer row of the key supersedes one of the base whichever region it is in: that is what its merge does.
        above = [each for name in (regions if part.region_id is None else (part.region_id,)) for each in regions[name]]
        newer = [each for each in above if each.generation > part.generation]
        return [each for each in newer if isinstance(each, TablePart) or await each.fragments(NOTHING)]

    async def _made(self, part: Part) -> Addresses:
        newer = await self._newer(part)
        await self.fresh.open(keys=not self.fresh.approximate)
        return np.sort(np.concatenate([await self._superseded(part, newer), await _deleted(part)]))

    async def _superseded(self, part: Part, newer: Sequence[Part]) -> Addresses:
        key = list(self.fresh.view.base.primary_key)
        found = [np.empty(0, np.uint64)]
        if part.region_id is not None:
            rows = await part.rows(key)
            found.append(rows.column(ROW_ADDRESS).to_numpy()[await self.fresh.stale(part, rows)])
        elif newer:
            seen = Seen()
            for each in newer:
                seen.add((await each.rows(key)).select(key))
            for fragment in await part.fragments(NOTHING):  # one after another: the keys of all are many
                rows = await part.rows(key, [fragment])
                found.append(rows.column(ROW_ADDRESS).to_numpy()[seen.mask(rows.select(key))])
        return np.concatenate(found)


def _size(addresses: Addresses) -> int:
    return int(addresses.nbytes)


async def _deleted(part: Part) -> Addresses:
    """Rows that the deletion files of a table list."""
    if not isinstance(part, TablePart):
        return np.empty(0, np.uint64)
    state = await part.opened()
    found = [np.empty(0, np.uint64)]
    for fragment in state.fragments:
        offsets = await deleted_offsets(part.io, fragment, state)
        found.append((np.uint64(fragment.id) << np.uint64(32)) + offsets.astype(np.uint64))
    return np.concatenate(found)
