"""A hint that is missing means version 1, and a missing version 1 a new region."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="missing_hint_means_new",
    clause="AMB-31",
    what=(
        "Without a version hint a process looks for version 1 only; if that was collected, it takes the region for new."
    ),
    why=(
        "It creates version 1 again with epoch 1 and the first generation: a second history of the region begins "
        "beside the first, and everything that was acknowledged before is out of sight."
    ),
    scenario="lost_hint",
    oracle="recovery succeeds",
    violated="WRITER-013",
    readings={"list_when_hint_fails": False, "guard_collected_versions": False},
)
