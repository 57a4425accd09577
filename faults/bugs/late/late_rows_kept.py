"""A writer with a sequence column compares with nothing."""

import pyarrow as pa
from memwal.region.sequences import Compared, Comparison
from memwal_sim.bugs import Bug


def _all(_comparison: Comparison, rows: pa.Table) -> tuple[pa.Table, Compared | None]:
    """In place of the rows that are higher than what is stored."""
    return rows, None


BUG = Bug(
    name="late_rows_kept",
    clause="AMB-148",
    what="A writer that is told by which column rows are ordered puts late rows, too: the last write wins.",
    why=(
        "Fencing stops an older claim only. A second attempt of a task claims after the first has put everything, puts "
        "its first rows, and is killed because the first has succeeded: its old rows are the newest of the region."
    ),
    scenario="late_attempt",
    oracle="acknowledged writes survive",
    violated="AMB-148",
    replaced={"memwal.region.sequences:Comparison.admitted": _all},
)
