"""A search takes the row of a merged key for the merged row."""

from collections.abc import Sequence

from memwal.ids import FragmentId
from memwal.read import indexed
from memwal.read.parts import TablePart
from memwal.table.coverage import fragment_ids
from memwal.table.reuse import Addresses
from memwal_sim.bugs import Bug

_in_base = indexed.in_base


async def _anywhere(
    base: TablePart, generation: TablePart, _fragments: frozenset[FragmentId], key: Sequence[str]
) -> tuple[Addresses, Addresses]:
    """In place of looking for the rows of a generation in the fragments that its merge made."""
    return await _in_base(base, generation, fragment_ids(base.base), key)


BUG = Bug(
    name="gap_hits_not_checked",
    clause="AMB-88",
    what=(
        "While an index lags, a search takes a hit of a merged generation for the row that the base table has of its "
        "key, wherever that is."
    ),
    why=(
        "A row that was merged and then replaced in the base table is still in its generation and in the index there, "
        "until it is collected: a search for the old value gives the new row."
    ),
    scenario="lagging_index",
    oracle="a search equals a scan",
    violated="READ-002",
    unseen="run with every case, also at the gate, and not seen",
    replaced={"memwal.read.indexed:in_base": _anywhere},
)
