"""Regions of a table: registration through a table commit, discovery, and the snapshot builder.

Source: MemWAL revision A, "MemWAL Index Builder"; AMB-33, 52, 53, 69, 74, 103, 143.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import paths
from ..clauses import implements
from ..codec.index_details import IndexDetails, RegionSpec
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import AlreadyExists, ArtifactError, InvalidArgument, NotFound, OutcomeUnknown, Throttled
from ..ids import RegionId, SpecId, WalPosition, region_id, region_id_from_random
from ..region import manifest as manifests
from ..revisions import STRICT, Interpretation, Revision
from ..table.state import TableState
from . import mem_wal, snapshot
from .snapshot import RegionRow


@dataclass(frozen=True, slots=True)
class Registered:
    """Outcome of a registration."""

    region_id: RegionId
    state: TableState
    """A table version that has the region."""


def active_spec(details: IndexDetails) -> RegionSpec | None:
    """The spec that governs new writes: the highest id (AMB-54); None if there are none."""
    return max(details.specs, key=lambda spec: spec.spec_id, default=None)


@implements("REGION-006", "REGION-007", "AMB-52")
async def register(io: Io, values: tuple[tuple[str, object], ...] | None) -> Registered:
    """Get or create the region of ``values`` under the active spec; None creates a manual region.

    The commit that adds a region re-derives the whole list, so that two creators of one value never both succeed.
    """
    fresh = region_id_from_random(await io.random_hex(32))
    chosen: list[RegionId] = []

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails | None:
        rows = await snapshot.load(io, state)
        spec = active_spec(details)
        chosen[:] = [fresh]
        if values is not None:
            if spec is None:
                raise InvalidArgument("the table has no region spec: regions are manual", clause="REGION-012")
            expected = [f.field_id for f in spec.fields]
            if [name for name, _ in values] != expected:
                names = [name for name, _ in values]
                raise InvalidArgument(f"region values {names} do not match the spec {expected}", clause="REGION-010")
            for row in rows:
                if row.spec_id == spec.spec_id and row.values == values:
                    chosen[:] = [row.region_id]
                    return None
        spec_id = spec.spec_id if values is not None and spec is not None else SpecId(0)
        added = RegionRow(region_id=fresh, spec_id=spec_id, values=values or (), manifest=None)
        return with_rows(details, (*rows, added), state.revision)

    state = await mem_wal.change(io, derive)
    return Registered(chosen[0], state)


def with_rows(details: IndexDetails, rows: tuple[RegionRow, ...], revision: Revision) -> IndexDetails:
    """``details`` with the snapshot ``rows`` inline; registration stays inline at any count."""
    return replace(details, num_regions=len(rows), inline_snapshots=snapshot.encode(rows, details, revision))


@implements("SNAP-018", "AMB-36", "AMB-103", "AMB-143")
async def discover(
    io: Io, revision: Revision, interpretation: Interpretation = STRICT
) -> dict[RegionId, RegionManifest]:
    """All regions with a manifest, by listing; folders of other names are ignored and noted."""
    found: dict[RegionId, RegionManifest] = {}
    for folder in await io.list_folders(paths.MEM_WAL):
        try:
            region = region_id(folder)
        except ValueError:
            await io.note("foreign_folder", folder=folder)
            continue
        below = manifests.folder(io, region)
        manifest = await manifests.latest(below, revision, interpretation)
        if manifest is not None:
            found[region] = manifest
        elif await _holds_data(below):
            raise ArtifactError("AMB-143", below.root, "the region has a WAL or generations, and no manifest")
    return found


async def _holds_data(region: Io) -> bool:
    folders = await region.list_folders()
    return "wal" in folders or any(paths.generation_number(folder) is not None for folder in folders)


@implements("SNAP-016", "SNAP-017", "SNAP-019", "SNAP-020", "SNAP-021", "SNAP-022", "SNAP-023", "SNAP-024", "AMB-74")
async def build_snapshot(io: Io, interpretation: Interpretation = STRICT) -> TableState:
    """Rebuild the region snapshot from the manifests, and refresh their last-seen hints on the way.

    Owns only the snapshot fields: configuration, merge progress and catch-up come from the version that the commit is
    built on. The time stamp is taken before the first manifest is read.
    """

    async def derive(state: TableState, details: IndexDetails) -> IndexDetails:
        started = await io.now()
        registered = {row.region_id: row for row in await snapshot.load(io, state)}
        live = await discover(io, state.revision, interpretation)
        for region, manifest in live.items():
            live[region] = await _refreshed(manifests.folder(io, region), manifest, state.revision)
        rows = tuple(
            replace(registered[region], manifest=live.get(region, registered[region].manifest))
            if region in registered
            else RegionRow(region_id=region, spec_id=live[region].spec_id, values=(), manifest=live[region])
            for region in sorted({*registered, *live})
        )
        return replace(with_rows(details, rows, state.revision), snapshot_ts_ms=started)

    return await mem_wal.change(io, derive)


@implements("MANIFEST-011", "MANIFEST-012", "MANIFEST-036", "WAL-029", "AMB-33")
async def _refreshed(region: Io, manifest: RegionManifest, revision: Revision) -> RegionManifest:
    """``manifest`` after raising its last-seen hint to the end of the WAL; best effort, only that field changes."""
    position = max(manifest.position_last_seen, revision.first_position)
    seen = manifest.position_last_seen
    while True:
        try:
            await region.head(paths.wal(WalPosition(position), revision.wal_suffix))
        except NotFound:
            break
        seen, position = WalPosition(position), WalPosition(position + 1)
    if seen <= manifest.position_last_seen:
        return manifest
    wanted = replace(manifests.following(manifest), position_last_seen=seen)
    try:
        await manifests.put(region, wanted, revision)
    except (AlreadyExists, OutcomeUnknown, Throttled) as lost:
        await region.note("hint_not_refreshed", reason=str(lost))
        return manifest
    await manifests.put_hint(region, wanted.version)
    return wanted
