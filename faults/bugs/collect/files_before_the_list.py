"""A generation's files are deleted before its entry."""

from collections.abc import Collection

from memwal.effects import Io
from memwal.jobs.collector import generations
from memwal.table.state import TableState
from memwal_sim.bugs import Bug

_unlist = generations.unlist


async def _files_first(region: Io, gone: Collection[str], newest: TableState) -> None:
    """In place of taking the entries from the manifest before anything is deleted."""
    for folder in sorted(gone):
        for name in await region.list(folder):
            await region.delete(name)
    await _unlist(region, gone, newest)


BUG = Bug(
    name="files_before_the_list",
    clause="GC-014",
    what="A collector deletes the files of a merged generation and then takes it from the region manifest.",
    why=(
        "Until the manifest changes, readers and mergers find a generation that is listed and cannot be opened, "
        "which is what a lost one looks like."
    ),
    scenario="strong_reader",
    oracle="listed_generations_open",
    violated="FLUSH-013",
    unseen="the text leaves the order open (AMB-93): scenarios/gate/crash_of_a_collection records it as OBSERVED",
    replaced={"memwal.jobs.collector.generations:unlist": _files_first},
)
