"""Replay steps over entries of a newer epoch."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="skip_newer_epoch",
    clause="AMB-26",
    what="Replay skips an entry whose epoch is above the writer's own, and goes on behind it.",
    why=(
        "The texts define valid entries only. A writer that was fenced while it recovered finishes recovery all the "
        "same, and puts entries with its old epoch behind its successor's barrier, where they override newer rows."
    ),
    scenario="two_writers_two_keys",
    oracle="wal_epochs_never_decrease",
    violated="FENCE-015",
    readings={"stop_on_newer_epoch": False},
)
