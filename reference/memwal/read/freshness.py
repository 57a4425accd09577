"""Which rows of a source a newer generation of their region supersedes, by its filter and by its keys.

Source: MemWAL revision A, "Vector Search Queries" and appendix 3, "FilterStaleExec".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..codec.asked_keys import AskedKeys
from ..coroutines import Turn, concurrently
from ..effects import Io
from ..ids import RegionId
from ..index.snapshot import RegionRow
from ..keys import KeySet, Mask, last_of_each
from ..table.read import ROW_ADDRESS
from ..table.reuse import Addresses
from .collection import Parts
from .keys_above import keys_above
from .parts import Part, Sourced, TablePart, Which
from .pruning import registered, targets
from .view import View


@implements("PLAN-003")
@dataclass(slots=True)
class Freshness:
    """Which rows of which source are superseded; what was asked once is kept."""

    io: Io
    view: View
    parts: Parts
    approximate: bool = False
    """A filter's "perhaps" counts as yes, as the text has it; else keys decide (AMB-107)."""
    _own: dict[Which, tuple[KeySet, Addresses]] = field(default_factory=dict)
    _known: Mapping[RegionId, RegionRow] | None = None
    _opening: Turn = field(default_factory=Turn)
    _is_open: bool = False

    @property
    def text(self) -> str:
        """How plans say that superseded rows are dropped."""
        names = [part.name for parts in self.parts.regions.values() for part in parts]
        return f"FilterStaleExec: bloom_filters=[{', '.join(f'bf[{name}]' for name in names)}]"

    async def open(self, *, keys: bool = False) -> None:
        """Read the filters of all sources above the base, with their ``keys`` too, where that is done at once."""
        if not self.io.concurrent or self._is_open:
            return
        none = AskedKeys(self.view.base.schema.empty_table().select(list(self.view.base.primary_key)))

        async def opened(part: Part) -> None:
            if keys:
                await self.keys(part)
            await part.may_contain(none)

        async with self._opening:  # others that need them wait, and do not read them too
            if not self._is_open:
                every = chain.from_iterable(self.parts.regions.values())
                await concurrently(self.io, [partial(opened, part) for part in every])
            self._is_open = True

    async def newest(self, part: Part) -> Addresses:
        """Addresses of the last row of each key in one source above the base, ascending."""
        return (await self.keys(part))[1]

    async def stale(self, part: Part, rows: pa.Table) -> Mask:
        """`stale_among` of rows of one source."""
        return await self.stale_among([(part, rows.num_rows)], rows)

    async def stale_among(self, sources: Sourced, rows: pa.Table) -> Mask:
        """Which of ``rows`` are not the newest of their key: a newer generation of their region has it too.

        Rows have their key columns, and those above the base their address: there the last row of a key counts. The
        base has one of each.
        ``sources``: of the rows; the base alone, or any above it.
        """
        found = np.zeros(rows.num_rows, np.bool_)
        if not len(found):
            return found
        keys = rows.select(list(self.view.base.primary_key))
        asked = ~found
        known = await keys_above(self.parts, keys.schema.names) if not self.approximate else None
        if known is not None and not any(column.null_count for column in keys.columns):
            found, asked = known.stale(sources, rows, keys)
        at = 0
        for part, count in sources:
            places = at + np.flatnonzero(asked[at : at + count])
            if len(places):
                found[places] = await self._stale(
                    part, rows if len(places) == len(found) else cellwise.at(rows, places)
                )
            at += count
        return found

    @implements("PLAN-022", "PLAN-030", "PLAN-031", "AMB-107", "AMB-108", "AMB-109")
    async def _stale(self, part: Part, rows: pa.Table) -> Mask:
        """The same of rows of one source, which others may have, too."""
        await self.open()
        keys = rows.select(list(self.view.base.primary_key))
        hashed = AskedKeys(keys)
        found = np.zeros(keys.num_rows, np.bool_)
        if part.region_id is not None:
            # AMB-109, stale rows inside a generation: only the last row of each key may be found.
            newest = await self.newest(part)
            addresses = rows.column(ROW_ADDRESS).to_numpy()
            found |= newest[np.minimum(np.searchsorted(newest, addresses), len(newest) - 1)] != addresses
            masks = {part.region_id: np.ones(keys.num_rows, np.bool_)}
        else:
            base = self.view.base
            if self._known is None:
                self._known = await registered(self.io, base, live=self.view.live) if self.parts.regions else {}
            masks = dict(targets(base, self._known, self.parts.regions, keys))
        for region, mask in masks.items():
            wanted = (mask & ~found).nonzero()[0]
            asked = hashed.at(wanted)
            for newer in self.parts.regions[region]:
                if newer.generation <= part.generation or not len(wanted):
                    break  # the newest come first
                has = await self._has(newer, asked)
                if has.any():
                    found[wanted] = has
                    wanted = wanted[~has]
                    asked = hashed.at(wanted)
        return found

    async def _has(self, part: Part, asked: AskedKeys) -> Mask:
        if isinstance(part, TablePart) and self.io.remembers:
            await part.opened()  # its filter is kept with the rest of it
        perhaps = await part.may_contain(asked)
        # AMB-107, false positives: the keys themselves decide, unless the caller takes the filter's word.
        if perhaps.any() and not self.approximate:
            perhaps[perhaps] = (await self.keys(part))[0].mask(asked.at(np.flatnonzero(perhaps)).table)
        return perhaps

    async def keys(self, part: Part) -> tuple[KeySet, Addresses]:
        """The keys of a source above the base, and the addresses of the last row of each, ascending."""
        which = part.region_id, part.generation
        if which not in self._own:
            self._own[which] = await self._keys(part)
        return self._own[which]

    async def _keys(self, part: Part) -> tuple[KeySet, Addresses]:
        key = self.view.base.primary_key

        async def made() -> tuple[KeySet, Addresses]:
            rows = await part.rows(key)
            if not rows.num_rows:
                return KeySet(rows.select(key)), np.empty(0, np.uint64)
            newest = last_of_each(rows, list(key)).column(ROW_ADDRESS).to_numpy()
            return KeySet(rows.select(key)), np.sort(newest)

        if not isinstance(part, TablePart):
            return await made()
        await part.opened()
        return await part.once(("keys", tuple(part.columns[name] for name in key)), made, _keys_bytes)


def _keys_bytes(held: tuple[KeySet, Addresses]) -> int:
    return held[0].size_bytes + held[1].nbytes
