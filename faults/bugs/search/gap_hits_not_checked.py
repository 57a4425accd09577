"""A search believes the index of a merged generation without looking at the base table."""

from memwal_sim.bugs import Bug


def _believed(*_: object) -> bool:
    """In place of looking whether the base table has the row of a hit."""
    return True


BUG = Bug(
    name="gap_hits_not_checked",
    clause="AMB-88",
    what="While an index lags, a search takes hits of merged generations for rows of the base table.",
    why=(
        "A row that was merged and then deleted from the base table, or replaced there, is still in the generation "
        "and in its index, until it is collected."
    ),
    scenario="lagging_index",
    oracle="a search equals a scan",
    violated="READ-002",
    replaced={"memwal_sim.scenarios.searching:is_merged": _believed},
)
