"""What a region has stored of each key's sequence: its writer reads it once, and compares its own rows (AMB-148)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from .. import cellwise
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..ids import RegionId
from ..index import regions
from ..index.opening import Members
from ..keys import Mask
from ..region import manifest as manifests
from ..region.sequences import comparable
from ..table.coverage import fragment_ids
from ..table.late import Stage
from ..table.owners import owners
from ..table.state import TableState
from .collection import collect
from .fragments import restricted
from .merging import Deduplicate
from .query import Query
from .scan import plan
from .sources import MemoryView
from .view import View, over

WORTH_ASKING_ROWS = 1 << 18
"""Rows of a base for which it is asked which fragments are another region's, by the transactions that made them; and
whether sequences are higher than all stored ones, before any key is read."""


@implements("AMB-148")
async def stored_sequences(
    io: Io, by: str, memory: MemoryView, of_region: Members | None, *, keys: bool
) -> pa.Table | pa.Scalar:
    """Key and ``by`` of the newest row of each key in the region of ``memory``, in base, generations and memory.

    Without ``keys``, and where that saves reading many, the highest ``by`` of all rows in the places where they are: no
    key has a higher one. It is NULL if there is none.

    Rows that delete their key are among them until they are merged (R): then nothing is known of it any more. Where the
    base has several rows of one key, the newest comes last.
    ``memory``: what the region's writer holds. ``of_region``: leaves out the base's rows of other regions.
    Raises as `memwal.read.view.over` does, and `Fenced` if there is a newer claim.
    """

    async def body(view: View) -> pa.Table | pa.Scalar:
        narrowed, mixed = await _narrowed(io, view, memory.region_id)
        if not keys and _rows(narrowed) >= WORTH_ASKING_ROWS:
            return await _highest(io, narrowed, by, memory)
        key = list(view.base.primary_key)
        names = [*key, by]
        planned = await plan(io, narrowed, Query(columns=names, memory=[memory], deletes=True))
        shape = pa.schema([pa.field(name, view.base.schema.field(name).type) for name in names])
        assert isinstance(planned, Deduplicate), "no index answers a query without a filter"
        # Of a key that the base has twice (AMB-105) both rows come, the older one first.
        planned = replace(planned, unique_base=True)
        if mixed and of_region is not None:
            # First of all: the rows of other regions are most of such a base.
            own_keys = Stage(tuple(key), partial(_members, of_region=of_region))
            planned = replace(planned, filtering=replace(planned.filtering, first=True, likely=own_keys))
        parts = [rows async for rows in planned.stream()]
        oldest_first = [cellwise.under(part, shape) for part in reversed(parts)]
        return pa.concat_tables([shape.empty_table(), *oldest_first])

    async def own(base: TableState) -> tuple[dict[RegionId, RegionManifest], int]:
        folder = manifests.folder(io, memory.region_id)
        found = await manifests.latest(folder, base.revision, collected=base.collects_manifests)
        return ({} if found is None else {memory.region_id: found}), 0

    return await over(io, None, body, found=own)


async def _highest(io: Io, view: View, by: str, memory: MemoryView) -> pa.Scalar:
    """The highest ``by`` of all rows in ``view`` and ``memory``, replaced and deleted ones too; NULL: there is none."""
    parts = await collect(io, view, [memory])
    found: pa.Scalar | None = None
    for part in (parts.base, *(each for sources in parts.regions.values() for each in sources)):
        for fragment in await part.fragments({}):
            most = pc.max(comparable((await part.rows([by], [fragment])).column(by)))
            if found is None or not found.is_valid or (most.is_valid and pc.greater(most, found).as_py()):
                found = most
    return pa.scalar(None) if found is None else found


def _rows(view: View) -> int:
    return sum(fragment.physical_rows for fragment in view.base.fragments)


def _members(rows: pa.Table, of_region: Members) -> Mask:
    found: Mask = of_region(rows).to_numpy()
    return found


async def _narrowed(io: Io, view: View, region: RegionId) -> tuple[View, bool]:
    """``view`` without the base's fragments that merges of other regions made, where that is worth asking.

    And whether what is left of the base may have rows of other regions all the same. Regions of other specs do not
    count: their keys may be this region's today.
    """
    base = view.base
    if _rows(view) < WORTH_ASKING_ROWS:
        return view, True
    specs = {row.region_id: row.spec_id for row in await regions.known(io, base)}
    if region not in specs:
        return view, True
    made = await owners(io, base, base.fragments)
    others = {n for n, owner in made.items() if owner != region and specs.get(owner) == specs[region]}
    left = fragment_ids(base) - others
    return replace(view, base=restricted(base, left)), any(made.get(number) != region for number in left)
