"""A change of region specs leaves running writers alone."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="writers_keep_their_spec",
    clause="AMB-142",
    what="A change of region specs looks whether older regions are drained, and does not fence their writers.",
    why=(
        "The texts let a writer read its configuration once, when it starts. One that was idle while the administrator "
        "looked puts its next row into its old region, after the new spec has sent the same key to another one."
    ),
    scenario="running_writer",
    oracle="a key is in one region",
    violated="REGION-002",
    readings={"fence_before_new_spec": False},
)
