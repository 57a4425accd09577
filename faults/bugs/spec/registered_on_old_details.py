"""A registration is committed as it was first made, whatever came since."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="registered_on_old_details",
    clause="AMB-52",
    what="A client that loses the commit of its new region commits the same list of regions on the next version.",
    why=(
        "Retrying a commit looks harmless. But two clients that create the region of one value each have a list with "
        "their own region only: the second replaces the first's, and both write rows of one key, to different regions. "
        "The texts let anybody create a region under a fresh id, and have no step at which two creators would meet."
    ),
    scenario="two_creators",
    oracle="a key is in one region",
    violated="REGION-002",
    readings={"rebase_index_fields": False},
)
