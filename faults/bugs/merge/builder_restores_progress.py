"""A snapshot builder commits the details that it has loaded."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="builder_restores_progress",
    clause="AMB-69",
    what="A builder writes back all of the MemWAL index as it was when it began, merge progress included.",
    why=(
        "A merge that was committed meanwhile is undone in the index and stays in the table: the generation is "
        "merged again, possibly after a newer one, so that old values win."
    ),
    scenario="merger_and_builder",
    oracle="merge_progress_never_goes_back",
    violated="MERGE-018",
    readings={"rebase_index_fields": False},
)
