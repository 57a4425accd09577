"""Two merges conflict only if they change the same rows."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="merged_twice",
    clause="AMB-84",
    what=(
        "A merge commit does not compare merge progress with what was committed meanwhile; only rows that both "
        "change count as a conflict."
    ),
    why=(
        "Two mergers insert the same new key. Neither touches a row that was there, so that both commit, and the "
        "base table has the key twice."
    ),
    scenario="two_mergers",
    oracle="each key is there once",
    violated="READ-002",
    readings={"progress_in_conflict": False},
)
