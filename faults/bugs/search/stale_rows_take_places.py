"""Superseded rows take places among the k nearest."""

import pyarrow as pa
from memwal import cellwise
from memwal.read.ranking import Candidates, FilterStale, take
from memwal_sim.bugs import Bug


async def _first_k(
    filtering: FilterStale, source: Candidates, k: int, value: str, _worst: float | None = None
) -> pa.Table:
    """In place of asking a source for more until enough rows stay."""
    addresses, values = (await source.rank()).best(0, k)
    key = list(filtering.fresh.view.base.primary_key)
    needed = list(dict.fromkeys([*key, *filtering.columns]))
    rows = await take(source.part, addresses, values, needed, value)
    stale = await filtering.fresh.stale(source.part, rows)
    return cellwise.where(rows, ~stale).select([*filtering.columns, value])


BUG = Bug(
    name="stale_rows_take_places",
    clause="PLAN-021",
    what="A search takes the k nearest rows of each source, and drops those that are superseded afterwards.",
    why="Superseded rows are counted: the answer has fewer than k rows, or farther ones than there are.",
    scenario="asked_every_way",
    oracle="a vector search equals a scan",
    violated="READ-001",
    replaced={"memwal.read.ranking:FilterStale.survivors": _first_k},
)
