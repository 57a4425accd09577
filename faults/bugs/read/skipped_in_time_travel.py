"""A reader of an old version skips what was collected."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="skipped_in_time_travel",
    clause="AMB-92",
    what=(
        "A reader that is pinned to a table version leaves out generations that are gone, instead of saying that "
        "the version is."
    ),
    why=(
        "The version was expired while it was read, and its generation collected: the base of that version lacks "
        "its rows. The reader returns a state that never was."
    ),
    scenario="eventual_reader",
    oracle="reads are explained",
    violated="READ-010",
    readings={"skip_only_merged": False},
)
