"""A search does not look at rows of the base that no index covers."""

from dataclasses import replace

from memwal.effects import Io
from memwal.maintained.base_index import MaintainedIndex
from memwal.read import indexed
from memwal.read.collection import Parts
from memwal.read.gap import IndexedPlan
from memwal.read.indexed import Coverage
from memwal_sim.bugs import Bug

_of_base = indexed.of_base


async def _by_indexes(io: Io, parts: Parts, index: MaintainedIndex | None, plan: IndexedPlan | None) -> Coverage:
    """In place of indexes and a scan of the rest."""
    found = await _of_base(io, parts, index, plan)
    return replace(found, scanned=()) if found.answered else found


BUG = Bug(
    name="lagging_rows_not_scanned",
    clause="PLAN-010",
    what="While an index lags, a search takes what indexes give of the base, and looks at no other of its rows.",
    why="Rows that were merged since the index was built are found before their merge and not after it.",
    scenario="asked_every_way",
    oracle="a text search scores as one table does",
    violated="READ-001",
    replaced={"memwal.read.indexed:of_base": _by_indexes},
)
