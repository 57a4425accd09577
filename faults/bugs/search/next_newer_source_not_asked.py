"""A search does not ask the source just above a hit's own."""

from collections.abc import Sequence

from memwal_sim.bugs import Bug
from memwal_sim.scenarios.searching import Source


def _all_but_one(key: str, newer: Sequence[Source]) -> bool:
    """In place of asking all newer sources for a key."""
    return any(source.has(key) for source in newer[:-1])


BUG = Bug(
    name="next_newer_source_not_asked",
    clause="READ-004",
    what="A search compares a hit with all newer sources but the next one.",
    why=(
        "A bound that is off by one. A key that was written again in the very next generation is found with its older "
        "value; one that was written again later is not."
    ),
    scenario="updated_key",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal_sim.scenarios.searching:superseded": _all_but_one},
)
