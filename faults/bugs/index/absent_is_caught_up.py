"""An index of which nothing is recorded counts as caught up."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="absent_is_caught_up",
    clause="AMB-71",
    what="A collector takes an index without a catch-up record for one that covers everything that was merged.",
    why=(
        "The texts say so, to keep tables without lag free of records. But a table whose index builder has never run "
        "has no record either: the collector deletes generations whose rows no index of the base table has."
    ),
    scenario="collector_and_indexer",
    oracle="a generation stays until indexes cover it",
    violated="CATCHUP-013",
    readings={"absence_needs_coverage": False},
)
