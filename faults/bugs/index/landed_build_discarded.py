"""An index whose commit was not answered and landed counts as lost, and its files are deleted."""

from memwal import confirm, paths
from memwal.effects import Io
from memwal.jobs.index_builder import _Build
from memwal_sim.bugs import Bug
from memwal_sim.outcomes import Fate

_is_ours = confirm.is_ours


async def _no_version_is_ours(io: Io, name: str, data: bytes) -> bool:
    """In place of comparing what is stored with what was sent."""
    return not name.startswith(paths.VERSIONS) and await _is_ours(io, name, data)


async def _without_a_look(io: Io, build: _Build) -> None:
    """In place of deleting what no version names."""
    for name in build.files:
        await io.delete(name)


BUG = Bug(
    name="landed_build_discarded",
    clause="AMB-70",
    what="An index builder that takes its own commit for another's deletes the files that it had written.",
    why=(
        "The table version is there and names them: each query that uses the index fails from then on. A process "
        "that clears up after a commit that seems lost has to look whether some version names the files."
    ),
    scenario="two_indexers",
    oracle="index_files_are_there",
    violated="FORMAT-005",
    unseen="needs a commit of an index builder that lands and is not answered; no scenario at the gate has one",
    faults=1,
    kinds=frozenset({Fate.APPLIED}),
    replaced={
        "memwal.confirm:is_ours": _no_version_is_ours,
        "memwal.jobs.index_builder:_discard": _without_a_look,
    },
)
