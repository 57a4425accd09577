"""A manifest version that could be created counts as committed."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="stale_copy_counts",
    clause="AMB-30",
    what=(
        "Where old manifest versions are collected, a put that succeeds counts as a commit, and the last version "
        "that probing finds as the newest."
    ),
    why=(
        "A stalled writer creates a version again that was collected long ago. It believes that it owns the "
        "region, points the hint there, and readers that start at the hint see epoch, replay pointer and "
        "generations of the past."
    ),
    scenario="stalled_claim",
    oracle="recovery succeeds",
    violated="WRITER-013",
    readings={"guard_collected_versions": False},
)
