"""Invariants of region snapshots, which table versions carry.

Source: MemWAL revisions A and B, "Region Snapshot Storage"; AMB-75, 76, 77, 79, 91, 100.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .. import paths
from ..ids import RegionId
from ..index.snapshot import RegionRow
from ..table.state import TableState
from ..violations import Violation, objection
from .finding import invariant
from .seen import RegionView


@invariant(
    "SNAP-001",
    "SNAP-011",
    "SNAP-013",
    "INDEX-008",
    "INDEX-009",
    "INDEX-012",
    "AMB-75",
    about="snapshot",
    remedy="Rebuild the snapshot (`memwal table snapshot`); strong reads do not use it. Time travel to the version "
    "stays broken.",
)
def snapshots_open(damaged: Iterable[Violation]) -> Iterator[Violation]:
    """The region snapshot of every retained version is there, can be read, and has a row for each region counted."""
    yield from damaged


@invariant(
    "INDEX-022",
    "SNAP-003",
    "INDEX-006",
    "MANIFEST-020",
    about="snapshot",
    remedy="Manifest versions were lost: the region has gone back to an older state. Restore them from a backup of the "
    "store before the next write to the region.",
)
def snapshots_are_not_ahead(
    state: TableState, rows: Sequence[RegionRow], regions: Mapping[RegionId, RegionView]
) -> Iterator[Violation]:
    """No snapshot has seen a manifest version above the newest that is there."""
    for row in rows:
        region = regions.get(row.region_id)
        if row.manifest is None or (region is not None and region.numbers and not region.newest):
            continue
        newest = max(region.numbers, default=0) if region is not None else 0
        if row.manifest.version > newest:
            missing = f"{_root(state)}{paths.region(row.region_id)}/{paths.manifest(row.manifest.version)}"
            yield objection(
                missing, f"the snapshot of table version {state.version} has seen it, the newest is {newest}"
            )


@invariant(
    "GC-003",
    "GC-004",
    "READ-012",
    "AMB-91",
    "AMB-100",
    about="snapshot",
    remedy="Eventual reads of that version fail. Restore the folder from a backup of the store, or expire the version.",
)
def snapshots_list_what_is_there(
    state: TableState, rows: Sequence[RegionRow], regions: Mapping[RegionId, RegionView]
) -> Iterator[Violation]:
    """Generations that a snapshot lists above the progress of its version are there."""
    for row in rows:
        region = regions.get(row.region_id)
        held = {name.rpartition(f"/{paths.VERSIONS}/")[0] for name in region.names} if region is not None else set()
        for listed in row.manifest.flushed if row.manifest is not None else ():
            if listed.generation > state.mem_wal.progress(row.region_id) and listed.path not in held:
                missing = f"{_root(state)}{paths.region(row.region_id)}/{listed.path}"
                reason = f"the snapshot of table version {state.version} lists generation {listed.generation}"
                yield objection(missing, f"{reason}, which is not merged in that version")


def _root(state: TableState) -> str:
    return state.path.rpartition(f"{paths.VERSIONS}/")[0]
