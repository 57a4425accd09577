"""A merge whose commit was not answered and landed counts as lost, and its files are deleted."""

from memwal import confirm, paths
from memwal.effects import Io
from memwal.table.state import TableState
from memwal_sim.bugs import Bug
from memwal_sim.outcomes import Fate

_is_ours = confirm.is_ours


async def _no_version_is_ours(io: Io, name: str, data: bytes) -> bool:
    """In place of comparing what is stored with what was sent."""
    return not name.startswith(paths.VERSIONS) and await _is_ours(io, name, data)


def _names_nothing(_state: TableState) -> set[str]:
    """In place of the files that a version names."""
    return set()


BUG = Bug(
    name="landed_merge_discarded",
    clause="AMB-84",
    what="A merger that takes its own commit for another's gives up, and deletes the files that it had written.",
    why=(
        "The table version is there and names them: the rows of a generation are merged and gone. A process that "
        "clears up after a commit that seems lost has to look whether some version names the files."
    ),
    scenario="one_writer_duplicates",
    oracle="named_files_are_there",
    violated="FORMAT-018",
    faults=1,
    kinds=frozenset({Fate.APPLIED}),
    replaced={"memwal.confirm:is_ours": _no_version_is_ours, "memwal.table.upsert:_named": _names_nothing},
)
