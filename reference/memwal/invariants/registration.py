"""Invariants of regions among each other: folders, specs, and which region has which value.

Source: MemWAL revisions A and B, "Region" and "Storage Layout"; AMB-36, 52, 53, 54, 97, 143.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from .. import paths
from ..codec.index_details import IndexDetails
from ..ids import RegionId, SpecId
from ..index.snapshot import RegionRow
from ..index.transforms import RegionKey
from ..violations import Violation, objection
from .finding import invariant
from .seen import RegionView

QUARANTINE = "quarantine"
"""Folder of a region into which `memwal table repair` moves the bytes of an unreadable WAL entry."""
_PARTS = frozenset(("manifest", "wal", QUARANTINE))


@invariant(
    "AMB-36",
    "REGION-006",
    "GEN-019",
    about="region",
    severity="warning",
    remedy="The folder is never read. Move it out of the table, or name the region by a lower-case version 4 UUID "
    "before the first write to it.",
)
def region_folders_are_region_ids(folders: Sequence[str], root: str) -> Iterator[Violation]:
    """Every folder under the MemWAL folder is named by a version 4 UUID in lower-case hyphenated form."""
    for folder in folders:
        try:
            found: uuid.UUID | None = uuid.UUID(folder)
        except ValueError:
            found = None
        if found is None or str(found) != folder or found.version != 4:
            clause = "REGION-006" if found is not None and str(found) == folder else "AMB-36"
            yield objection(f"{root}/{folder}", "the name is no version 4 UUID in lower-case hyphenated form", clause)


@invariant(
    "GEN-019",
    "WAL-012",
    "MANIFEST-025",
    about="region",
    severity="warning",
    remedy="Nothing reads these objects. Move them out of the region.",
)
def regions_hold_nothing_else(view: RegionView) -> Iterator[Violation]:
    """A region's folder has manifests, a WAL and generations, and nothing else."""
    for part in view.folders:
        if part not in _PARTS and paths.generation_number(part) is None:
            yield objection(view.io.path(part), "it has no place in the layout")


@invariant(
    "AMB-15",
    "GEN-019",
    about="region",
    severity="warning",
    remedy="`memwal table repair` moved these bytes aside. Find out whether their write was acknowledged; write its "
    "rows again if so, and delete the object.",
)
def quarantines_are_empty(view: RegionView) -> Iterator[Violation]:
    """No bytes that a repair moved aside wait for a decision."""
    for name in view.names:
        if name.startswith(f"{QUARANTINE}/"):
            yield objection(view.io.path(name), "bytes of a WAL entry that could not be read")


@invariant(
    "AMB-143",
    "MANIFEST-001",
    "AMB-31",
    about="region",
    remedy="The region's state is lost, and its rows with it. Restore the manifests from a backup of the store; do not "
    "create the region again.",
)
def regions_with_data_have_a_manifest(view: RegionView) -> Iterator[Violation]:
    """A region with a WAL or generations has a manifest."""
    if not view.numbers and any(f == "wal" or paths.generation_number(f) is not None for f in view.folders):
        yield objection(view.io.path("manifest"), "the region has a WAL or generations, and no manifest")


@invariant(
    "AMB-143",
    about="region",
    severity="warning",
    remedy="A region's creation was cut short. The next writer of the region creates its manifest.",
)
def regions_have_a_manifest(view: RegionView) -> Iterator[Violation]:
    """A region's folder has a manifest, if it has anything."""
    if not view.numbers and not any(regions_with_data_have_a_manifest(view)):
        yield objection(view.io.path("manifest"), "the region has no manifest, and no data either")


@invariant(
    "REGION-011",
    "REGION-012",
    "REGION-010",
    "AMB-54",
    about="region",
    remedy="Rows of the region cannot be routed or pruned. Restore the table version that had the spec.",
)
def region_specs_are_listed(view: RegionView, details: IndexDetails) -> Iterator[Violation]:
    """The spec that a region names is listed in the MemWAL index; 0 means that none governs it."""
    if view.newest is None or view.newest.spec_id == 0:
        return
    known = [spec.spec_id for spec in details.specs]
    if view.newest.spec_id not in known:
        path = view.io.path(paths.manifest(view.newest.version))
        yield objection(path, f"the region is of spec {view.newest.spec_id}, the MemWAL index has {known}")


@invariant(
    "REGION-011",
    "SNAP-004",
    "AMB-52",
    about="region",
    remedy="Writers and readers disagree about the rows of the region. Find out who changed the registration.",
)
def regions_are_registered_under_their_spec(view: RegionView, row: RegionRow) -> Iterator[Violation]:
    """A region is registered under the spec that its manifest names."""
    if view.newest is not None and view.newest.spec_id != row.spec_id:
        path = view.io.path(paths.manifest(view.newest.version))
        yield objection(path, f"the region is of spec {view.newest.spec_id}, and is registered under {row.spec_id}")


@invariant(
    "AMB-52",
    "REGION-002",
    "REGION-003",
    about="region",
    remedy="Rows of one key may be in both regions, and the order of merging decides which wins. Stop the writers of "
    "both, flush and merge the older one, then the newer one.",
)
def regions_have_distinct_values(
    values: Mapping[RegionId, tuple[SpecId, RegionKey]], folder: str
) -> Iterator[Violation]:
    """No two regions of one spec have the same region values."""
    first: dict[tuple[SpecId, RegionKey], RegionId] = {}
    for region, key in sorted(values.items()):
        if key in first:
            shown = ", ".join(f"{name}={value!r}" for name, value in key[1])
            yield objection(f"{folder}/{region}", f"spec {key[0]}, {shown}: region {first[key]} has these values too")
        first.setdefault(key, region)
