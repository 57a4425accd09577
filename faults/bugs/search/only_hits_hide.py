"""A row that matches is stale only where a newer row of its key matches, too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pyarrow as pa
from memwal.keys import KeySet
from memwal.read.indexed_scan import FreshRows
from memwal.read.nodes import live
from memwal_sim.bugs import Bug


async def _among_hits(plan: FreshRows) -> AsyncIterator[pa.Table]:
    """In place of asking all newer sources for the keys of rows that match."""
    key, keep = list(plan.base.primary_key), plan.child.keep
    names = list(dict.fromkeys([*key, *keep.columns, *plan.columns]))
    base, *above = plan.child.child.inputs
    newer: list[KeySet] = []
    for source in (*above, base):
        async for given in source.rows(names, keep):
            found = keep(given)
            stale = np.zeros(found.num_rows, np.bool_)
            for keys in newer:
                stale |= keys.mask(found.select(key))
            newer.append(KeySet(found.select(key)))
            yield live(found, plan.base, plan.columns, ~stale)


BUG = Bug(
    name="only_hits_hide",
    clause="AMB-99",
    what="A scan by an index applies its filter to each source, and only rows that match hide older ones.",
    why=(
        "A filter below deduplication. The newest row of a key does not match and is not among the hits; its older "
        "row in another source matches, and is returned although it was overwritten."
    ),
    scenario="asked_every_way",
    oracle="a filter equals a scan",
    violated="READ-002",
    replaced={"memwal.read.indexed_scan:FreshRows.stream": _among_hits},
)
