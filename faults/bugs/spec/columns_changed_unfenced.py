"""Columns come and go under running writers."""

from memwal_sim.bugs import Bug

BUG = Bug(
    name="columns_changed_unfenced",
    clause="AMB-50",
    what="Columns are added and dropped once every WAL is flushed, and the writers of the regions are not fenced.",
    why=(
        "The texts change the columns of a table in one commit and do not connect that with writers, which know the "
        "columns that they read when they opened. The next row of one is acknowledged, and does not fit the table: "
        "whoever opens the region after it cannot recover the row, nor any row behind it."
    ),
    scenario="columns_beside_a_writer",
    oracle="recovery succeeds",
    violated="WRITER-013",
    readings={"fence_before_new_columns": False},
)
