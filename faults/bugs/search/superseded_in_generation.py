"""A search in a flushed generation finds rows that were written again."""

import numpy as np
from memwal.read.freshness import Freshness
from memwal.read.parts import Part
from memwal.table.read import ROW_ADDRESS
from memwal.table.reuse import Addresses
from memwal_sim.bugs import Bug


async def _every_row(fresh: Freshness, part: Part) -> Addresses:
    """In place of the last row of each key."""
    rows = await part.rows(list(fresh.view.base.primary_key))
    return np.sort(rows.column(ROW_ADDRESS).to_numpy())


BUG = Bug(
    name="superseded_in_generation",
    clause="READ-005",
    what="A search takes every hit of a generation's index, also of rows whose key comes again in that generation.",
    why=(
        "Revisions A and B leave older rows of a key in a generation and in its index: a search has to know "
        "that the last row of a key counts."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal.read.freshness:Freshness.newest": _every_row},
)
