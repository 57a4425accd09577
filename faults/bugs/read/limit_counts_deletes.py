"""The limit of a scan counts rows that delete their key."""

from dataclasses import replace

import pyarrow as pa
from memwal.read import scan
from memwal.read.indexed_scan import FreshRows
from memwal.read.merging import Deduplicate
from memwal.read.nodes import live
from memwal.read.query import Query
from memwal_sim.bugs import Bug

_bounded = scan._bounded


async def _deletes_too(planned: Deduplicate | FreshRows, asked: Query) -> list[pa.Table]:
    """In place of leaving deletes out first."""
    if not isinstance(planned, Deduplicate) or asked.rows_most is None:
        return await _bounded(planned, asked)
    parts, wanted = list[pa.Table](), asked.rows_most
    marked = replace(planned, deletes=True)
    async for part in marked.stream():
        some = part.slice(0, wanted)
        wanted -= some.num_rows
        parts.append(live(some, planned.base, planned.columns))
        if not wanted:
            break
    return parts


BUG = Bug(
    name="limit_counts_deletes",
    clause="AMB-89",
    what="A scan with a limit ends when it has so many rows, and drops those that delete their key afterwards.",
    why="Deletes are rows of generations. The answer has fewer rows than were asked for, although there are enough.",
    scenario="asked_after_a_delete",
    oracle="a limit gives as many rows as there are",
    violated="READ-001",
    revision="R",
    replaced={"memwal.read.scan:_bounded": _deletes_too},
)
