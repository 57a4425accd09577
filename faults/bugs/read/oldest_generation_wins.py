"""Of several generations the oldest wins."""

from dataclasses import replace
from typing import Any

from memwal.read import collection
from memwal.read.collection import Parts
from memwal_sim.bugs import Bug

_collect = collection.collect


async def _backwards(*arguments: Any) -> Parts:
    """In place of the newest source of each region first."""
    found = await _collect(*arguments)
    return replace(found, regions={region: above[::-1] for region, above in found.regions.items()})


BUG = Bug(
    name="oldest_generation_wins",
    clause="READ-004",
    what="A reader takes the sources of a region from the oldest to the newest, so that the oldest row of a key stays.",
    why="An overwritten value is read until the generations are merged.",
    scenario="one_writer_duplicates",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.read.collection:collect": _backwards},
)
