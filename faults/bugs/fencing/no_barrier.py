"""A claim leaves no mark in the WAL, and a writer that meets a taken position goes on to the next."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="no_barrier",
    clause="AMB-24",
    what="A claim puts no barrier entry into the WAL, and a put that finds its position taken goes on to the next.",
    why=(
        "The fenced predecessor finds the next position free, stores its row there and acknowledges it after its "
        "successor has finished replay. The successor steps over the entry, and its next flush moves the replay "
        "pointer past a row that it never saw. The texts ask for no mark, do not check the epoch on WAL writes, and "
        "do not say what a taken position means."
    ),
    scenario="two_writers_two_keys",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"claim_barrier": False, "stop_on_taken_position": False},
)
