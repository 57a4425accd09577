"""A folder that nobody lists is left over."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="flush_under_way",
    clause="AMB-94",
    what="A collector deletes every generation folder that no manifest lists.",
    why=(
        "A flush that is under way looks exactly like that. The writer then lists a folder without files and "
        "moves the replay pointer: its rows are gone. The texts call such folders orphans and give no other sign."
    ),
    scenario="flush_and_collector",
    oracle="recovery succeeds",
    violated="WRITER-013",
    readings={"orphans_by_generation": False},
)
