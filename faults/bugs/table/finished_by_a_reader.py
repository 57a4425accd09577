"""A committer takes the commit that a reader finished for it for another's."""

from memwal.effects import EXTERNAL_ROOT, Io
from memwal.errors import NotFound
from memwal_sim.bugs import Bug


async def _is_entry(io: Io, name: str, data: bytes) -> bool:
    """In place of comparing the manifest too: whether the entry in the external store is still the one put there."""
    if not io.path(name).startswith(EXTERNAL_ROOT):
        return False
    try:
        return await io.get(name) == data
    except NotFound:
        return False


BUG = Bug(
    name="finished_by_a_reader",
    clause="EXT-008",
    what="After an unanswered second step a committer looks for its own staged name in the external store only.",
    why=(
        "A reader that met the staged name has finished the commit meanwhile and changed the entry to the final name. "
        "The committer sees another name, concludes that it lost, rebases, and commits its rows a second time."
    ),
    scenario="two_commits_external",
    oracle="each commit is applied once",
    violated="TXN-002",
    unseen="needs a manifest store, or a store that can only rename, which no message of the protocol chooses",
    faults=1,
    replaced={"memwal.confirm:is_ours": _is_entry},
)
