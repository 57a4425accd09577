"""An external region snapshot is overwritten in place."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="snapshot_overwritten",
    clause="AMB-76",
    what=(
        "A snapshot builder puts the new snapshot into the file that the current index names, and commits afterwards."
    ),
    why=(
        "Table versions that name the file change under their readers, before the commit and for ever: time "
        "travel shows generations that did not exist then."
    ),
    scenario="eventual_reader",
    oracle="reads are explained",
    violated="READ-013",
    readings={"snapshot_uuid_per_build": False},
)
