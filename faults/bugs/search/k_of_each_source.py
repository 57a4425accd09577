"""A search gives the k nearest rows of each source."""

import numpy as np
import pyarrow as pa
from memwal import cellwise
from memwal.read.ranking import GlobalLimit
from memwal_sim.bugs import Bug


async def _all(limit: GlobalLimit) -> pa.Table:
    """In place of the k nearest of all sources together."""
    sort = limit.child
    found = pa.concat_tables(
        [await sort.child.survivors(source, limit.k, sort.value) for source in sort.child.union.inputs]
    )
    values = found.column(sort.value).to_numpy()
    return cellwise.at(found, np.argsort(-values if sort.greatest else values, kind="stable"))


BUG = Bug(
    name="k_of_each_source",
    clause="PLAN-021",
    what="A search limits each source to k rows, and their union to nothing.",
    why="Who asks for the nearest row gets one of the base, one of each generation, and one of the WAL.",
    scenario="asked_every_way",
    oracle="a vector search equals a scan",
    violated="READ-002",
    replaced={"memwal.read.ranking:GlobalLimit.run": _all},
)
