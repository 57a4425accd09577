"""A search skips all rows of the base table that the index does not cover."""

from collections.abc import Collection

from memwal.effects import Io
from memwal.ids import FragmentId
from memwal.table import origins
from memwal.table.coverage import Origin
from memwal.table.state import TableState
from memwal_sim.bugs import Bug

_KNOWN = origins.merge_origins


async def _all_merged(
    io: Io, state: TableState, fragments: Collection[FragmentId], *, back_most: int | None = None
) -> dict[FragmentId, Origin]:
    """In place of the generations whose merges made fragments: those of unknown origin count as merged, too."""
    known = await _KNOWN(io, state, fragments, back_most=back_most)
    every = next(iter(known.values()), None)
    return known if every is None else {fragment: known.get(fragment, every) for fragment in fragments}


BUG = Bug(
    name="unindexed_rows_skipped",
    clause="AMB-113",
    what="While an index lags, a search takes all base rows without index for rows of generations, and scans none.",
    why=(
        "The texts let the generations' own indexes answer for what the base index lacks. Rows that were appended to "
        "the base table directly are in no generation, and nothing answers for them."
    ),
    scenario="lagging_index",
    oracle="a search equals a scan",
    violated="READ-001",
    replaced={"memwal.table.origins:merge_origins": _all_merged},
)
