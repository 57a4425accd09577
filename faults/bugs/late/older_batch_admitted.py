"""A mark speaks of its own batch only."""

from collections.abc import Iterable

from memwal.codec.marks import Mark
from memwal_sim.bugs import Bug


def _same_batch(marks: Iterable[Mark], wanted: Mark) -> bool:
    """In place of refusing older batches, too."""
    return any(
        (mark.application, mark.batch) == (wanted.application, wanted.batch)
        and set(wanted.partitions) <= set(mark.partitions)
        for mark in marks
    )


BUG = Bug(
    name="older_batch_admitted",
    clause="AMB-149",
    what="A batch is refused if it is finished itself, and not if a later one of its application is.",
    why=(
        "Of each application only the newest batch is kept. A scheduler that runs batch 7 again after batch 8 finds "
        "no mark of 7, and its rows are the newest."
    ),
    scenario="late_batch",
    oracle="a finished task puts nothing",
    violated="AMB-149",
    replaced={"memwal.codec.marks:is_done": _same_batch},
)
