"""A lookup of several keys ends at the first source that has one of them."""

import pyarrow as pa
from memwal import cellwise
from memwal.read.nodes import CoalesceFirst, OfRegion
from memwal_sim.bugs import Bug


async def _first_answer(plan: CoalesceFirst, keys: pa.Table) -> pa.Table:
    """In place of asking older sources for the keys that are left."""
    for child in plan.children:
        wanted = cellwise.where(keys, child.mask) if isinstance(child, OfRegion) else keys
        found = await child.find(wanted)
        if found.num_rows:
            return found
    return keys.slice(0, 0)


BUG = Bug(
    name="first_hit_ends_the_lookup",
    clause="PLAN-029",
    what="A lookup of several keys returns what the first source with any of them has, and asks no older one.",
    why=(
        "Return the first answer that is not empty, as the text says of one key. Of several keys each has a first "
        "answer of its own: those that are in older sources count as absent."
    ),
    scenario="asked_every_way",
    oracle="a lookup equals a scan",
    violated="READ-001",
    replaced={"memwal.read.nodes:CoalesceFirst.find": _first_answer},
)
