"""A filter runs before the newest row of a key is chosen."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="filter_below_deduplication",
    clause="AMB-99",
    what="A filter on a value is applied to each source before the rows of a key are compared.",
    why=(
        "The newest row does not match and drops out, an older one of the same key matches, and is returned "
        "although it was overwritten. The plan in the texts shows the filter inside the scans."
    ),
    scenario="filtered_reader",
    oracle="a filter picks from the merged rows",
    violated="READ-006",
    readings={"filter_above_deduplication": False},
)
