"""The LSM merging read: newest row per key over base table, generations and memory.

One reader: `scan` is all parts of `stream` together, and both run the nodes that `explain` prints.
Source: MemWAL revisions A and B, "Reader Expectations"; revision A, "Scan Queries" and appendix 3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..ids import RegionId
from ..table.state import TableState
from . import extent, indexed_scan, origin
from .collection import collect
from .filters import RowFilter
from .freshness import Freshness
from .indexed_scan import FreshRows
from .liveness import Liveness
from .merging import Deduplicate, Filtering, Hiding, Scan, Union
from .nodes import watched
from .pruning import left_out, narrowed, that_may_match
from .query import Query
from .sources import MemoryView
from .view import Raced, ReadRaced, View, eventual_view, over, strong_view, too_late

__all__ = ["ReadRaced", "View", "eventual_view", "query", "scan", "stream", "strong_view"]


@implements("PLAN-012", "PLAN-013", "PLAN-015", "PLAN-034", "AMB-99")
async def plan(io: Io, view: View, asked: Query) -> Deduplicate | FreshRows:
    """The plan: the base once, and each source of the regions that are not left out. Nothing of them is read yet."""
    asked.names(view.base)
    chosen, held = await narrowed(io, view, asked.memory, asked.predicate)
    by_index = await indexed_scan.plan(io, chosen, replace(asked, memory=held))
    counts = len(chosen.base.fragments), len(view.base.fragments)
    more = f", fragments={counts[0]} of {counts[1]}" if counts[0] < counts[1] else ""
    found = by_index if by_index is not None else await arranged(io, chosen, replace(asked, memory=held), more=more)
    return watched(found, left_out(view, chosen)) if asked.watched else found


@implements("PLAN-012", "PLAN-013", "AMB-99")
async def arranged(
    io: Io,
    view: View,
    asked: Query,
    answered: Collection[RegionId] | None = None,
    *,
    hiding: Hiding | None = None,
    more: str = "",
) -> Deduplicate:
    """The plan of all that is in ``view``. ``more``: what the plan says of the base.

    ``answered``: the regions whose rows are given; of the others only the keys are read, which hide rows of the base.
    None: all. With some, the base is relied on to have each key once, since others may read the rest of it.
    ``hiding``: has these keys, or gets them together with those of the answered regions.
    """
    names, key = asked.names(view.base), view.base.primary_key
    filtering = Filtering.of(asked, view.base, above=io.interpretation.filter_above_deduplication)
    parts = await collect(io, view, asked.memory)
    scans = {
        region: [Scan(part, tuple(names), filtering) for part in sources]
        for region, sources in parts.regions.items()
        if answered is None or region in answered
    }
    hides = answered is not None and bool(key and view.base.fragments)
    # Keys that a filter leaves out hide rows of the base in a read with another filter.
    kept = hiding if hides and not filtering.first and not filtering.predicate else None
    others = set(parts.regions) - set(answered or ()) if hides and not (kept and kept.keys) else ()
    await parts.open([*scans, *others])
    masks = [Scan(part, (), filtering) for region in others for part in parts.regions[region]]
    union = Union(io, Scan(parts.base, tuple(names), filtering, more), list(scans.values()), masks)
    alone = answered is not None
    spares = key and not alone and filtering.condition is not None and not filtering.first
    live = Liveness(Freshness(io, view, parts)) if spares else None
    return Deduplicate(
        view.base, tuple(names), union, filtering, asked.deletes, unique_base=alone, hiding=kept, live=live
    )


@implements("READ-001", "READ-002", "READ-003", "READ-004", "READ-006", "READ-007", "READ-014", "READ-015", "READ-016")
async def query(io: Io, asked: Query, *, run: bool = True) -> tuple[pa.Table, Deduplicate | FreshRows]:
    """The merged rows, one per key, the newest, in no particular order; and the plan as it ran.

    ``run``: False only plans, and finds nothing.
    Raises as `memwal.read.view.over` does, and `InvalidArgument` for columns that are not there, and for an answer of
    more than ``asked.bytes_exceeded`` allows.
    """

    async def body(view: View) -> tuple[pa.Table, Deduplicate | FreshRows]:
        planned = await plan(io, view, asked)
        if run:
            extent.check_base(view.base, asked)
        parts = await _bounded(planned, asked) if run else []
        shape = pa.schema([origin.field_of(view.base, each) for each in asked.names(view.base)]).remove_metadata()
        return pa.concat_tables([shape.empty_table(), *(rows.replace_schema_metadata(None) for rows in parts)]), planned

    return await over(io, asked.version, body, found=that_may_match(io, asked.predicate))


async def _bounded(planned: Deduplicate | FreshRows, asked: Query) -> list[pa.Table]:
    """The rows of a plan, as many and as large as ``asked`` has them."""
    parts, size_bytes, wanted = list[pa.Table](), 0, asked.rows_most
    async for part in planned.stream():
        parts.append(part if wanted is None else part.slice(0, wanted))
        size_bytes += parts[-1].nbytes
        extent.check(size_bytes, asked)
        wanted = None if wanted is None else wanted - parts[-1].num_rows
        if wanted == 0:
            break
    return parts


async def scan(
    io: Io,
    *,
    columns: Sequence[str] | None = None,
    keep: RowFilter | None = None,
    version: TableState | None = None,
    memory: Sequence[MemoryView] = (),
) -> pa.Table:
    """The rows of `query`."""
    asked = Query(columns=columns, keep=keep, version=version, memory=memory)
    return (await query(io, asked))[0]


@implements("PLAN-026", "AMB-112")
async def stream(io: Io, asked: Query) -> AsyncIterator[pa.Table]:
    """The rows of `query` in parts: each region from its newest source to its oldest, the base last.

    Nothing is read again once rows went out: raises `ReadRaced` if a generation was collected meanwhile, and
    `ArtifactError` if it is lost.
    """

    async def begun(view: View) -> tuple[pa.Table | None, AsyncIterator[pa.Table]]:
        rows = (await plan(io, view, asked)).stream()
        return await _some(rows), rows

    part, rest = await over(io, asked.version, begun, found=that_may_match(io, asked.predicate))
    try:
        while part is not None:
            yield part
            part = await _some(rest)
    except Raced as raced:
        raise await too_late(io, raced, asked.version) from None


async def _some(parts: AsyncIterator[pa.Table]) -> pa.Table | None:
    """The next part that has rows; None at the end."""
    async for part in parts:
        if part.num_rows:
            return part
    return None
