"""Of several generations the oldest wins."""

from typing import Any

import pyarrow as pa
from memwal.read import scan
from memwal_sim.bugs import Bug

_sources = scan._region_sources


async def _backwards(*arguments: Any) -> list[pa.Table]:
    """In place of the oldest source first."""
    return (await _sources(*arguments))[::-1]


BUG = Bug(
    name="oldest_generation_wins",
    clause="READ-004",
    what=("A reader stacks generations from the newest to the oldest, so that the last row of a key is the oldest."),
    why="An overwritten value is read until the generations are merged.",
    scenario="one_writer_duplicates",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.read.scan:_region_sources": _backwards},
)
