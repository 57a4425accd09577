"""A search forgets that a delete is newer than the row that it deletes."""

from memwal_sim.bugs import Bug
from memwal_sim.scenarios.searching import Source


def _has_value(source: Source, key: str) -> bool:
    """In place of asking whether a source has any row of a key."""
    return any(key == own and value is not None for own, value in source.rows.values())


BUG = Bug(
    name="tombstones_hide_nothing",
    clause="READ-002",
    what="A search drops an older hit only if a newer source has a value for its key, and not if it has a delete.",
    why=(
        "Deletes are rows without values, and an index over values has none of them. Whoever asks the indexes alone "
        "what is newer brings deleted rows back."
    ),
    scenario="deleted_key",
    oracle="a search equals a scan",
    violated="READ-002",
    revision="R",
    replaced={"memwal_sim.scenarios.searching:Source.has": _has_value},
)
