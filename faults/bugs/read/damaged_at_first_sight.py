"""What one look takes for damage is damage."""

from collections.abc import Awaitable, Callable
from typing import Any

from memwal_sim.bugs import Bug


async def _once(look: Callable[[], Awaitable[Any]]) -> Any:
    """In place of looking again."""
    return await look()


BUG = Bug(
    name="damaged_at_first_sight",
    clause="AMB-06",
    what="A reader that finds entry 0 missing and entry 1 there a moment later says that the WAL is damaged.",
    why=(
        "A region's first claim and first put may both come between the two requests. The table is whole, and its "
        "reader tells an operator to look for a lost entry."
    ),
    scenario="first_seconds_scan",
    oracle="no process breaks",
    violated="AMB-06",
    unseen=(
        "needs a reader that is held between two requests while a region sees its first claim and its first put; no "
        "scenario at the gate does that"
    ),
    replaced={"memwal.confirm:damage": _once},
)
