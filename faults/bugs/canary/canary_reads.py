"""Reads find no row."""

from collections.abc import AsyncIterator

import pyarrow as pa
from memwal.read.merging import Deduplicate
from memwal_sim.bugs import Bug


async def _nothing(node: Deduplicate) -> AsyncIterator[pa.Table]:
    """In place of merging the sources."""
    yield pa.schema([node.base.schema.field(name) for name in node.columns]).empty_table()


BUG = Bug(
    name="canary_reads",
    clause="READ-001",
    what="A read of the table finds no row, whatever is there.",
    why="No exploration that begins with rows and misses this one can be trusted; it runs with those that put none.",
    scenario="two_mergers",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.read.merging:Deduplicate.stream": _nothing},
)
