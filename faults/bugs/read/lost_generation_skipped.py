"""A generation that cannot be opened is skipped."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="lost_generation_skipped",
    clause="AMB-100",
    what="A reader that cannot open a listed generation goes on without it.",
    why=(
        "The generation may have been merged into a newer base version than the one that the reader holds, so "
        "that its rows are missing from the result without an error."
    ),
    scenario="strong_reader",
    oracle="reads are explained",
    violated="READ-008",
    readings={"skip_only_merged": False},
)
