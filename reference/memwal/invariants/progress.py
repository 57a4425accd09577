"""Invariants between a region and the merge progress of the base table.

Source: MemWAL revisions A and B, "MemTable Merger"; AMB-80, 81, 97, 101.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from .. import paths
from ..ids import RegionId
from ..table.state import TableState
from ..violations import Violation, objection
from .finding import invariant
from .seen import RegionView

_LOST = "Rows of the region are in no source. Restore manifest versions or generations from a backup of the store."


@invariant(
    "MERGE-001",
    "MERGE-004",
    "MANIFEST-009",
    "GC-001",
    "AMB-81",
    "AMB-101",
    about="region",
    remedy=_LOST,
)
def unmerged_generations_are_listed(view: RegionView, state: TableState) -> Iterator[Violation]:
    """Every generation between merge progress and the current one is listed."""
    if view.newest is None:
        return
    progress = state.mem_wal.progress(view.region_id)
    missing = [*islice(view.newest.unlisted(progress), 8)]
    if missing:
        path = view.io.path(paths.manifest(view.newest.version))
        yield objection(path, f"generations {missing} are neither listed nor merged: progress is {progress}")


@invariant("MERGE-006", "MANIFEST-013", "AMB-80", about="region", remedy=_LOST)
def merge_progress_is_below_the_current_generation(view: RegionView, state: TableState) -> Iterator[Violation]:
    """Merge progress of a region is below the generation that its next flush will create."""
    if view.newest is None:
        return
    progress, current = state.mem_wal.progress(view.region_id), view.newest.generation_current
    if progress >= current:
        path = view.io.path(paths.manifest(view.newest.version))
        yield objection(path, f"generation {progress} is merged, and the region's current generation is {current}")


@invariant("AMB-97", "AMB-80", "MANIFEST-001", about="region", remedy=_LOST)
def merged_regions_are_there(
    state: TableState, regions: Mapping[RegionId, RegionView], unlooked: Collection[RegionId] = ()
) -> Iterator[Violation]:
    """Every region that was merged from still has its manifests."""
    for region, progress in state.mem_wal.merged:
        if progress and region not in unlooked and (region not in regions or not regions[region].numbers):
            folder = f"{state.path.rpartition(f'{paths.VERSIONS}/')[0]}{paths.region(region)}/manifest"
            yield objection(folder, f"generation {progress} of {region} is merged, and the region has no manifest")
