"""The merging read as a stream: one fragment of one source in memory at a time, and the keys that have come.

Source: MemWAL revision A, "Scan Queries" and appendix 3, "DeduplicateExec"; AMB-99, 112.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..revisions import STRICT, Interpretation
from ..table.schema import check_columns
from ..table.state import TableState
from .lookup import live
from .nodes import Deduplicate
from .parts import Part, collect
from .predicates import NOTHING, Predicate
from .pruning import narrowed
from .scan import Keep
from .sources import MemoryView
from .view import Raced, ReadRaced, eventual_view, strong_view


@implements("PLAN-012", "PLAN-026", "AMB-112")
async def stream(
    io: Io,
    *,
    columns: Sequence[str] | None = None,
    keep: Keep | None = None,
    predicate: Predicate = NOTHING,
    version: TableState | None = None,
    memory: Sequence[MemoryView] = (),
    interpretation: Interpretation = STRICT,
) -> AsyncIterator[pa.Table]:
    """What `memwal.read.scan.scan` gives, in parts: each region from its newest source to its oldest, the base last.

    Nothing is read again once a part went out: raises `ReadRaced` if a generation was collected meanwhile.
    """
    view = await (strong_view(io, interpretation) if version is None else eventual_view(io, version))
    names = list(view.base.schema.names if columns is None else columns)
    check_columns(view.base.schema, names)
    chosen, held = await narrowed(io, view, memory, predicate)
    parts = collect(io, chosen, held, interpretation)
    key = view.base.primary_key
    needed = list(view.base.schema.names) if keep else list(dict.fromkeys([*key, *names]))
    base = Deduplicate(key)
    nodes = []
    for sources in parts.regions.values():
        nodes.append((Deduplicate(key), sources))
    nodes.append((base, (parts.base,)))
    try:
        for node, sources in nodes:
            async for rows in node.stream(_backwards(sources, needed)):
                found = live(rows, view.base, needed)
                kept = (keep(found) if keep else found).select(names)
                if kept.num_rows:
                    yield kept
            if node is not base:
                base.seen += node.seen
    except Raced as raced:
        raise ReadRaced(path=raced.path, attempts=1) from None


async def _backwards(sources: Sequence[Part], names: Sequence[str]) -> AsyncIterator[pa.Table]:
    """The fragments of ``sources``, newest source first, the last fragment of each first."""
    for part in sources:
        for fragment in reversed(await part.fragments(NOTHING)):
            yield await part.rows(names, [fragment])
