"""Rows of the base table are returned beside newer ones."""

import pyarrow as pa
from memwal_sim.bugs import Bug


def _all(rows: pa.Table, _keys: pa.Table) -> pa.Table:
    """In place of the rows with other keys."""
    return rows


BUG = Bug(
    name="base_not_shadowed",
    clause="READ-002",
    what=(
        "A reader adds the rows of generations to those of the base table without removing the rows of the same keys."
    ),
    why="A key that was merged and written again is returned twice.",
    scenario="strong_reader",
    oracle="each key is there once",
    violated="READ-002",
    replaced={"memwal.read.scan:without": _all},
)
