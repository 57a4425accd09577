"""The plan of a key lookup: the regions of the keys, their sources newest first behind their filters, then the base.

Source: MemWAL revision A, "Point Lookups".
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from .nodes import BloomFilterGuard, CoalesceFirst, Lookup, OfRegion, TakeLast, live
from .parts import Parts, collect
from .pruning import targets
from .query import Query
from .view import View, over


@implements("PLAN-016", "PLAN-017")
async def plan(io: Io, view: View, parts: Parts, keys: pa.Table, columns: Sequence[str]) -> CoalesceFirst:
    """The plan that finds ``keys``, a table of the key columns in the base table's types."""
    key, names = view.base.primary_key, tuple(columns)
    children: list[Lookup] = []
    for region, mask in (await targets(io, view, parts.regions, keys)).items():
        own = keys.filter(pa.array(mask))
        for part in parts.regions[region]:
            children.append(OfRegion(own, BloomFilterGuard(part, TakeLast(part, key, names))))
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

    async def body(view: View) -> tuple[pa.Table, CoalesceFirst]:
        names = query.names(view.base)
        planned = await plan(io, view, collect(io, view, query.memory), keys, names)
        found = await planned.find(keys) if run else keys.slice(0, 0)
        return live(found, view.base, names), planned

    return await over(io, query.version, body)
