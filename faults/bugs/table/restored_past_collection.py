"""A table version is restored without looking at generations."""

from typing import Any

from memwal_sim.bugs import Bug


async def _unasked(*_arguments: Any, **_more: Any) -> None:
    """In place of looking at the generations above the restored progress."""


def _restorable(*_arguments: Any, **_more: Any) -> None:
    """In place of comparing with the point up to which generations were collected."""


BUG = Bug(
    name="restored_past_collection",
    clause="AMB-87",
    what=(
        "Restore makes an older version the newest without asking whether the generations above its merge "
        "progress are still there."
    ),
    why=(
        "The generations were merged into later versions and collected. After the restore their rows are in no "
        "place at all, and merging cannot bring them back. The texts define Restore without a word on MemWAL."
    ),
    scenario="restored_table",
    oracle="recovery succeeds",
    violated="WRITER-013",
    unseen="no message of the protocol reads or restores an older table version",
    replaced={
        "memwal.index.guards:_check_generations": _unasked,
        "memwal.table.collected:check_restorable": _restorable,
    },
)
