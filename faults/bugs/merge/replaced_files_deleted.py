"""A merge deletes the files of the rows that it has replaced."""

from collections.abc import Sequence

from memwal import paths
from memwal.effects import Io
from memwal.ids import Generation, RegionId
from memwal.table import upsert
from memwal.table.state import TableState
from memwal.table.upsert import Holding, Work
from memwal_sim.bugs import Bug

_upsert = upsert.upsert


async def _tidying(
    io: Io,
    state: TableState,
    work: Work,
    *,
    progress: Sequence[tuple[RegionId, Generation]] = (),
    holding: Holding | None = None,
) -> TableState:
    """In place of leaving to the collector what older versions name."""
    committed = await _upsert(io, state, work, progress=progress, holding=holding)
    kept = {file.path for fragment in committed.fragments for file in fragment.files}
    for fragment in state.fragments:
        for file in fragment.files:
            if file.path not in kept:
                await io.delete(paths.data_file(file.path))
    return committed


BUG = Bug(
    name="replaced_files_deleted",
    clause="FORMAT-018",
    what="A merge deletes at once the data files whose rows it has all replaced.",
    why=(
        "The version before still names them. It is retained for readers that opened it and for those that ask for "
        "it, who find that its files are gone; a collector removes files with the last version that names them."
    ),
    scenario="merger_and_builder",
    oracle="named_files_are_there",
    violated="FORMAT-018",
    unseen="run, and not seen: no case reads a version from before a merge that replaces every row of a file",
    replaced={"memwal.table.upsert:upsert": _tidying},
)
