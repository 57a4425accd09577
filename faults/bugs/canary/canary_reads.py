"""Reads find no row."""

from typing import Any

import pyarrow as pa
from memwal.effects import Io
from memwal.read.scan import View
from memwal_sim.bugs import Bug


async def _nothing(_io: Io, view: View, *_: Any) -> pa.Table:
    """In place of merging the sources."""
    return view.base.schema.empty_table()


BUG = Bug(
    name="canary_reads",
    clause="READ-001",
    what="A read of the table finds no row, whatever is there.",
    why="No exploration that begins with rows and misses this one can be trusted; it runs with those that put none.",
    scenario="two_mergers",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.read.scan:_merged": _nothing},
)
