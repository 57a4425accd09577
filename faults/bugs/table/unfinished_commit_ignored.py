"""A reader does not finish the commit that it finds."""

from memwal.effects import Commits, Io
from memwal.errors import NotFound
from memwal.ids import TableVersion
from memwal_sim.bugs import Bug


async def _as_it_is(io: Io, version: TableVersion, final: str) -> str:
    """In place of bringing a staged manifest to its final name."""
    if io.commits is not Commits.EXTERNAL:
        return final
    try:
        return io.relative((await io.external.get(f"{version:020d}")).decode())
    except NotFound:
        return final


BUG = Bug(
    name="unfinished_commit_ignored",
    clause="EXT-011",
    what=("A reader that meets a staged version in the external manifest store reads it and leaves it as it is."),
    why=(
        "Readers that do not know of the external store never see the version, and after the next commit are more "
        "than one version behind."
    ),
    scenario="two_commits_external",
    oracle="a reader finishes the commit",
    violated="EXT-011",
    unseen="needs a manifest store, or a store that can only rename, which no message of the protocol chooses",
    replaced={"memwal.table.versions:locate": _as_it_is},
)
