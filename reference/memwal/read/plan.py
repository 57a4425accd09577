"""Plans as they are shown: which sources a scan, a lookup or a search reads, in which order, and what it leaves out.

Source: MemWAL revision A, "Query Execution"; AMB-99, 112.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..clauses import implements
from ..effects import Io
from ..revisions import STRICT, Interpretation
from ..table.state import TableState
from .nodes import Listed, explain
from .parts import Part, collect
from .predicates import NOTHING, Predicate
from .pruning import narrowed
from .sources import MemoryView
from .view import View, over

__all__ = ["explain", "scan_plan"]


@implements("PLAN-012", "PLAN-013", "PLAN-034", "AMB-99")
async def scan_plan(
    io: Io,
    *,
    filtered: bool = False,
    predicate: Predicate = NOTHING,
    version: TableState | None = None,
    memory: Sequence[MemoryView] = (),
    interpretation: Interpretation = STRICT,
) -> Listed:
    """The plan of `memwal.read.scan.scan`: the base once, and each source of the regions that are not left out.

    ``filtered``: the scan has a filter, which runs above deduplication unless the reading is the literal one.
    """

    async def body(view: View) -> Listed:
        chosen, held = await narrowed(io, view, memory, predicate)
        parts = collect(io, chosen, held, interpretation)
        above = [part for region in parts.regions.values() for part in region]
        below = ", filter=[pushed_down]" if filtered and not interpretation.filter_above_deduplication else ""
        left_out = len(view.base.fragments) - len(chosen.base.fragments)
        skipped = f", fragments={len(chosen.base.fragments)} of {len(view.base.fragments)}" if left_out else ""
        leaves = [_scan(parts.base, skipped + below), *(_scan(part, below) for part in above)]
        key = ", ".join(view.base.primary_key)
        order = f"partition_by=[{key}], order_by=[_gen DESC, _rowaddr DESC]"
        merged = Listed(f"DeduplicateExec: {order}", [Listed("UnionExec", leaves)])
        if filtered and interpretation.filter_above_deduplication:
            return Listed("FilterExec", [merged])
        return merged

    return await over(io, version, interpretation, body)


def _scan(part: Part, more: str) -> Listed:
    return Listed(f"ScanExec: {part.name}{more}")
