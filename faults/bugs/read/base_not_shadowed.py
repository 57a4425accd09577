"""Rows of the base table are returned beside newer ones."""

from memwal.seen import Seen
from memwal_sim.bugs import Bug


def _forget(_above: Seen, _region: Seen) -> None:
    """In place of keeping the keys of a region for the base table."""


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
    replaced={"memwal.seen:Seen.join": _forget},
)
