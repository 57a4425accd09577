"""A rename replaces the version that is there."""

from memwal import confirm
from memwal.effects import Io
from memwal_sim.bugs import Bug


async def _over(io: Io, source: str, target: str, _data: bytes) -> None:
    """In place of a rename that fails if the target exists."""
    await confirm.copy(io, io, source) if source == target else await io.copy(source, target)
    await io.delete(source)


BUG = Bug(
    name="rename_replaces",
    clause="TXN-006",
    what=(
        "On a store that can only rename, the staged manifest is moved over the version whether or not there is one."
    ),
    why="Two committers get the same version, and the first one's acknowledged rows are gone.",
    scenario="two_commits_rename",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    unseen="needs a manifest store, or a store that can only rename, which no message of the protocol chooses",
    replaced={"memwal.confirm:rename": _over},
)
