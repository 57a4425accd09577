"""A search does not ask the source just above a hit's own."""

from dataclasses import replace

import pyarrow as pa
from memwal.keys import Mask
from memwal.read.freshness import Freshness
from memwal.read.parts import Part
from memwal_sim.bugs import Bug

_stale = Freshness._stale


async def _all_but_one(fresh: Freshness, part: Part, keys: pa.Table) -> Mask:
    """In place of asking all newer sources for a key."""
    regions = {}
    for region, sources in fresh.parts.regions.items():
        newer = [each for each in sources if each.generation > part.generation]
        regions[region] = tuple(newer[:-1])
    return await _stale(replace(fresh, parts=replace(fresh.parts, regions=regions)), part, keys)


BUG = Bug(
    name="next_newer_source_not_asked",
    clause="READ-004",
    what="A search compares a hit with all newer sources but the next one.",
    why=(
        "A bound that is off by one. A key that was written again in the very next generation is found with its older "
        "value; one that was written again later is not."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal.read.freshness:Freshness._stale": _all_but_one},
)
