"""A commit without an answer is made again."""

from memwal.effects import Io
from memwal_sim.bugs import Bug


async def _never_ours(_io: Io, _name: str, _data: bytes) -> bool:
    """In place of looking at what is stored under the name."""
    return False


BUG = Bug(
    name="committed_again",
    clause="TXN-002",
    what="A commit that was not answered and then finds its version taken counts as lost, whichever commit took it.",
    why=(
        "It was the committer's own manifest. The transaction is built again on top of itself, and its rows are "
        "in the table twice."
    ),
    scenario="two_commits_put",
    oracle="each commit is applied once",
    violated="TXN-002",
    faults=1,
    replaced={"memwal.confirm:is_ours": _never_ours},
)
