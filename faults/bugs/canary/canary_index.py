"""An index counts as covering the whole table."""

from memwal.ids import FragmentId
from memwal.table.coverage import fragment_ids
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


def _everything(state: TableState, _name: str) -> frozenset[FragmentId]:
    """In place of the fragments that an index covers."""
    return fragment_ids(state)


BUG = Bug(
    name="canary_index",
    clause="CATCHUP-010",
    what="An index of the base table counts as covering every row, whatever it was built over.",
    why="Searches ask the index alone and miss all rows that were merged since. No exploration of indexes may miss it.",
    scenario="indexer_and_merger",
    oracle="a search equals a scan",
    violated="READ-001",
    replaced={"memwal.table.coverage:covered": _everything},
)
