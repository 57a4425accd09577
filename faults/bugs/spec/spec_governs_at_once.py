"""A new region spec does not wait for the regions of older ones."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="spec_governs_at_once",
    clause="AMB-54",
    what="A new region spec governs new writes at once, though regions of older specs hold rows that are not merged.",
    why=(
        "The texts allow several specs and do not say which of them counts when. The next write of a key goes to "
        "another region than its older row, and which of the two ends up in the base table depends on the order in "
        "which the regions are merged."
    ),
    scenario="new_spec",
    oracle="a key is in one region",
    violated="REGION-002",
    readings={"drained_before_new_spec": False},
)
