"""A WAL put without an answer is given up, and the next position is taken."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="unresolved_put",
    clause="AMB-14",
    what=(
        "After an unanswered WAL put the writer takes the next position instead of finding out what became of the "
        "first."
    ),
    why=(
        "If the first put was never applied, the WAL has a hole: a recovery that probes upward stops there and "
        "never sees the acknowledged entries behind it. The texts do not say what a writer does when a put is not "
        "answered."
    ),
    scenario="one_writer_twice",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    faults=1,
    readings={"resolve_unknown_put": False, "list_wal_tail": False},
)
