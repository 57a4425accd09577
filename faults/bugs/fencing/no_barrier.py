"""A claim leaves no mark in the WAL."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="no_barrier",
    clause="AMB-24",
    what="A claim puts no barrier entry into the WAL; recovery ends at the first missing position.",
    why=(
        "The fenced predecessor finds the next position free, stores its row there and acknowledges it after its "
        "successor has finished replay. The successor's next flush moves the replay pointer past a row that it never "
        "saw. The texts ask for no mark, and the epoch is not checked on WAL writes."
    ),
    scenario="two_writers_two_keys",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"claim_barrier": False},
)
