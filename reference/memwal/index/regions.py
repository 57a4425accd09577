"""Regions of a table: registration, discovery, and the snapshot builder.

Source: MemWAL revision A, "MemWAL Index Builder"; AMB-33, 53, 69, 74, 75.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from .. import paths
from ..clauses import implements
from ..codec.index_details import IndexDetails
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import NotFound
from ..ids import Milliseconds, RegionId, WalPosition
from ..region import manifest as manifests
from ..region import transitions
from ..region.recovery import replay_start
from ..table.state import TableState
from . import mem_wal, snapshot
from .discovery import active_spec, discover, folders, known, spec_of, unregistered
from .registration import Registered, register, register_all, the_manual_region
from .snapshot import RegionRow, StoredSnapshot, Written

__all__ = [
    "Registered",
    "Scanned",
    "active_spec",
    "build_snapshot",
    "discover",
    "folders",
    "known",
    "register",
    "register_all",
    "scan",
    "spec_of",
    "the_manual_region",
    "unregistered",
]


@implements(
    "INDEX-022", "SNAP-016", "SNAP-017", "SNAP-019", "SNAP-020", "SNAP-021", "SNAP-022", "SNAP-023", "SNAP-024",
    "SNAP-026", "AMB-53", "AMB-69", "AMB-74", "AMB-75",
)  # fmt: skip
async def build_snapshot(
    io: Io, *, inline_most: int | None = None, whole: bool = False, scanned: Scanned | None = None
) -> TableState:
    """Rebuild the region snapshot from the manifests, and refresh their last-seen hints on the way.

    Owns only the snapshot fields: configuration, merge progress and catch-up come from the version that the commit is
    built on, and so do regions that were registered meanwhile. Regions are scanned once; after a conflict only the
    commit is made anew. The time stamp is taken before the first manifest is read. ``inline_most``: most regions whose
    snapshot is inline; None: as the table says. ``whole``: read every manifest, also those whose version the snapshot
    has. ``scanned``: what `scan` found, instead of scanning.
    """
    written = Written()

    async def derive(state: TableState, details: IndexDetails) -> StoredSnapshot:
        nonlocal scanned
        if scanned is None:
            scanned = await scan(io, state, await folders(io), whole=whole)
        rows = {row.region_id: row for row in await known(io, state)}
        for row in scanned.rows:
            rows[row.region_id] = _newer(rows.get(row.region_id), row)
        stamped = replace(details, snapshot_ts_ms=max(scanned.started, details.snapshot_ts_ms))
        return await snapshot.store(
            io,
            state,
            stamped,
            tuple(rows.values()),
            most=inline_most,
            written=written,
        )

    return await mem_wal.change(io, derive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What a builder found of regions."""

    started: Milliseconds
    """Time before the first manifest was read."""
    rows: tuple[RegionRow, ...]


@implements("SNAP-019", "SNAP-020", "SNAP-021")
async def scan(io: Io, state: TableState, among: Collection[RegionId], *, whole: bool = False) -> Scanned:
    """A row for each of the regions ``among`` that has a manifest, as that says now; their last-seen hints are raised.

    A manifest version never changes. So the one that the snapshot of ``state`` has is not read again while it is the
    newest, unless ``whole``.
    """
    started = await io.now()
    rows = {row.region_id: row for row in await known(io, state)}
    read = {region: row.manifest for region, row in rows.items() if row.manifest is not None and not whole}
    live = await discover(io, state.revision, among, read=read)
    for region, manifest in live.items():
        live[region] = await _refreshed(manifests.folder(io, region), manifest, state)
    lost = {region: manifest for region, manifest in live.items() if not _is_known(rows.get(region))}
    found = {row.region_id: row for row in await unregistered(io, state, lost)}
    kept = {region: replace(rows[region], manifest=live[region]) for region in live if region not in found}
    return Scanned(started=started, rows=tuple({**kept, **found}.values()))


def _is_known(row: RegionRow | None) -> bool:
    """Whether the region is registered, with its values if a spec governs it."""
    return row is not None and (row.spec_id == 0 or bool(row.values))


def _newer(registered: RegionRow | None, scanned: RegionRow) -> RegionRow:
    """One row of the two, with the newer manifest: another builder may have been quicker.

    Spec and values are those of the registration if there is one: where it was committed after the builder had read the
    index, what was scanned has none.
    """
    if registered is None:
        return scanned
    # Of one version the one that was read from the manifest: the other came from the builder of the last snapshot.
    found = [manifest for manifest in (scanned.manifest, registered.manifest) if manifest is not None]
    newest = max(found, key=lambda manifest: manifest.version, default=None)
    return replace(registered if _is_known(registered) else scanned, manifest=newest)


@implements("MANIFEST-011", "MANIFEST-012", "MANIFEST-036", "WAL-023", "WAL-029", "AMB-33")
async def _refreshed(region: Io, manifest: RegionManifest, state: TableState) -> RegionManifest:
    """``manifest`` after raising its last-seen hint to the end of the WAL; best effort, only that field changes."""
    revision = state.revision
    position = max(manifest.position_last_seen, replay_start(manifest, revision))
    seen = manifest.position_last_seen
    while True:
        try:
            await region.head(paths.wal(WalPosition(position), revision.wal_suffix))
        except NotFound:
            break
        seen, position = WalPosition(position), WalPosition(position + 1)
    if seen <= manifest.position_last_seen:
        return manifest

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        newest = manifests.present(current, region)
        if seen <= newest.position_last_seen:
            return None
        return replace(manifests.following(newest), position_last_seen=seen)

    advanced = await manifests.advance(
        region,
        revision,
        transitions.INDEX_BUILDER,
        derive,
        collected=state.collects_manifests,
        insist=False,
    )
    return advanced.manifest or manifest
