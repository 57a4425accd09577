"""A reader loads the base table first and the region state second."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="base_read_first",
    clause="AMB-101",
    what="A strong reader picks the newest table version, and then reads the region manifests.",
    why=(
        "A generation is merged and collected in between. The base version that the reader holds lacks its rows, "
        "the manifest does not list it any more, and rows that were acknowledged are in neither."
    ),
    scenario="strong_reader",
    oracle="reads are explained",
    violated="READ-008",
    readings={"regions_before_base": False},
)
