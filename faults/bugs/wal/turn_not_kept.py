"""Two coroutines of a writer store WAL entries at a time."""

from memwal.coroutines import Turn
from memwal_sim.bugs import Bug


async def _at_once(turn: Turn) -> None:
    """In place of waiting until it is this one's turn."""
    turn.taken = True


BUG = Bug(
    name="turn_not_kept",
    clause="AMB-14",
    what="A put stores its entry while the entry of another put of the same writer is under way.",
    why=(
        "Both would take the same position, or the later one a position behind a hole. The texts order the entries of "
        "one writer, and do not say what keeps its threads apart."
    ),
    scenario="two_putters",
    oracle="no process breaks",
    violated="ENGINE",
    unseen="shows only in one order of the coroutines of two calls of a writer, which no case at the gate has made",
    replaced={"memwal.coroutines:Turn.__aenter__": _at_once},
)
