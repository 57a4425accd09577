"""A merger feeds every row of a generation to the upsert."""

from collections.abc import Sequence

import pyarrow as pa
from memwal_sim.bugs import Bug


def _all(_rows: pa.Table, _key: Sequence[str], _has_tombstones: bool) -> tuple[None, int]:
    """In place of the last row of each key."""
    return None, 0


BUG = Bug(
    name="duplicates_merged",
    clause="AMB-46",
    what="A merger does not keep only the last row of each key before it upserts a generation.",
    why=(
        "A generation may hold several rows of one key. If the key is new in the base table, all of them are "
        "inserted, and every reader of the base sees it twice."
    ),
    scenario="one_writer_duplicates",
    oracle="each key is there once",
    violated="READ-002",
    replaced={"memwal.read.generation:_last": _all},
)
