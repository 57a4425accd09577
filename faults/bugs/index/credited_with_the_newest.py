"""An index is credited with what was merged by the time that it is committed."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="credited_with_the_newest",
    clause="AMB-70",
    what="An index builder reads merge progress after it has built the index, and records that as what it covers.",
    why=(
        "It is the order in which the texts number the steps. A generation that was merged while the index was built "
        "is not in it and counts as covered: searches stop using the generation's own index, and it may be collected."
    ),
    scenario="indexer_and_merger",
    oracle="an index covers what it is credited with",
    violated="CATCHUP-001",
    readings={"credit_indexed_version": False},
)
