"""The newest generation is merged first."""

from collections.abc import Collection

from memwal.effects import Io
from memwal.ids import Generation, RegionId
from memwal.jobs.merge_group import NextMerge
from memwal.read.sources import unmerged
from memwal.region import manifest as manifests
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _newest(
    io: Io, state: TableState, region: RegionId, _lost: Collection[tuple[RegionId, Generation]]
) -> NextMerge | None:
    """In place of the generation after the progress."""
    manifest = await manifests.latest(manifests.folder(io, region), state.revision)
    listed = unmerged(manifest, state.mem_wal.progress(region)) if manifest is not None else ()
    return NextMerge(region, manifest, listed[-1]) if manifest is not None and listed else None


BUG = Bug(
    name="skipped_generation",
    clause="AMB-81",
    what="A merger takes the newest generation that is listed, and commits its number as the progress.",
    why=(
        "Progress covers every generation below it: the older ones count as merged and are collected, and the "
        "rows that only they hold are lost. Nothing in the texts forbids a merger to skip a generation."
    ),
    scenario="one_writer_duplicates",
    oracle="a merge keeps all rows",
    violated="MERGE-001",
    readings={"contiguous_merge": False},
    replaced={"memwal.jobs.merger:_following": _newest},
)
