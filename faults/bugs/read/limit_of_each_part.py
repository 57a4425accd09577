"""The limit of a scan is that of each source."""

import pyarrow as pa
from memwal.read import scan
from memwal.read.indexed_scan import FreshRows
from memwal.read.merging import Deduplicate
from memwal.read.query import Query
from memwal_sim.bugs import Bug

_bounded = scan._bounded


async def _each(planned: Deduplicate | FreshRows, asked: Query) -> list[pa.Table]:
    """In place of as many rows as are wanted still."""
    return [part.slice(0, asked.rows_most) for part in await _bounded(planned, Query(columns=asked.columns))]


BUG = Bug(
    name="limit_of_each_part",
    clause="READ-001",
    what="A scan with a limit takes so many rows of each source.",
    why=(
        "Sources are read one by one, and the limit is pushed down to each: nothing bounds their union, so that a "
        "reader gets more rows than it asked for."
    ),
    scenario="asked_every_way",
    oracle="a limit gives as many rows as there are",
    violated="READ-001",
    replaced={"memwal.read.scan:_bounded": _each},
)
