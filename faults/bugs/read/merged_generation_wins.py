"""A merged generation wins over the base table."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="merged_generation_wins",
    clause="AMB-88",
    what="A reader resolves values over all generations that the manifest lists, merged ones included.",
    why=(
        "A row that was deleted or updated in the base table after the merge comes back from the generation, "
        "until that is collected: then the answer changes without a write."
    ),
    scenario="base_delete",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"merged_out_of_resolution": False},
)
