"""The plan of a key lookup: the regions of the keys, their sources newest first behind their filters, then the base.

Source: MemWAL revision A, "Point Lookups".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..coroutines import concurrently
from ..effects import Io
from ..ids import RegionId, TableVersion
from ..index import regions
from ..index.snapshot import RegionRow
from ..keys import Mask
from ..table.state import TableState
from .collection import Parts, collect
from .nodes import BloomFilterGuard, CoalesceFirst, Hashing, Lookup, OfRegion, TakeLast, live, watched
from .pruning import registered, targets
from .query import Query
from .view import View, over


@implements("PLAN-016", "PLAN-017")
def plan(base: TableState, masks: Mapping[RegionId, Mask], parts: Parts, columns: Sequence[str]) -> CoalesceFirst:
    """The plan that finds keys, a table of the key columns in the base table's types. ``masks``: of `targets`."""
    key, names = base.primary_key, tuple(columns)
    children: list[Lookup] = []
    hashing = Hashing()
    for region, mask in masks.items():
        for part in parts.regions.get(region, ()):
            children.append(OfRegion(mask, BloomFilterGuard(part, TakeLast(part, key, names), hashing)))
    children.append(TakeLast(parts.base, key, names))
    return CoalesceFirst(key, children)


@implements("PLAN-020", "AMB-111")
async def lookup(
    io: Io,
    keys: pa.Table,
    query: Query,
    *,
    run: bool = True,
) -> tuple[pa.Table, CoalesceFirst]:
    """The newest rows of ``keys``, those that exist, in no particular order; and the plan as it ran.

    ``run``: False only plans, and finds nothing.
    Raises as `memwal.read.view.over` does, and `InvalidArgument` for columns that are not there.
    """
    known: dict[TableVersion, Mapping[RegionId, RegionRow]] = {}
    masks: dict[TableVersion, Mapping[RegionId, Mask]] = {}

    async def asked(base: TableState) -> tuple[Mapping[RegionId, RegionManifest], int]:
        # PLAN-016, the region of the key: the manifests of others are not looked at. Values of a region never change.
        known[base.version] = await registered(io, base, live=True)
        among = await regions.folders(io)
        asked_for = masks[base.version] = targets(base, known[base.version], among, keys)
        return await regions.discover(io, base.revision, asked_for), len(among) - len(asked_for)

    async def body(view: View) -> tuple[pa.Table, CoalesceFirst]:
        names = query.names(view.base)
        parts = await collect(io, view, query.memory)
        # Regions may have been registered since: then more of them are known not to have the keys.
        if view.base.version not in known:
            known[view.base.version] = await registered(io, view.base, live=view.live)
        of_keys = masks.get(view.base.version, {})
        if not parts.regions.keys() <= of_keys.keys():
            of_keys = targets(view.base, known[view.base.version], parts.regions, keys)
        planned = plan(view.base, of_keys, parts, names)
        if query.watched:
            watched(planned, {"regions_pruned": view.passed_by} if view.live else {})
        if run and io.concurrent:
            await concurrently(io, [partial(child.prepare, keys) for child in planned.children[:-1]])
        found = await planned.find(keys) if run else keys.slice(0, 0)
        return live(found, view.base, names), planned

    return await over(io, query.version, body, found=asked)
