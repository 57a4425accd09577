"""Recovery of a claimed region: replay of its WAL tail, and the barrier that ends it.

Source: MemWAL revisions A and B, "WAL Replay"; revision A, "Initialization & Recovery"; AMB-07, 09, 14, 24, 26, 139.
"""

from __future__ import annotations

from .. import confirm, paths
from ..clauses import implements
from ..codec import wal
from ..codec.region_manifest import RegionManifest
from ..codec.wal import WalEntry
from ..errors import AlreadyExists, ArtifactError, Fenced, NotFound
from ..ids import Epoch, WalPosition
from ..revisions import Revision
from . import manifest as manifests
from .claim import verify_epoch
from .memtable import MemTable
from .region import Region


@implements("WAL-020", "AMB-07", "AMB-09")
def replay_start(manifest: RegionManifest, revision: Revision) -> WalPosition:
    """Position of the first entry that no listed generation covers."""
    if manifest.generation_current == revision.generation_first:
        return revision.first_position
    return WalPosition(manifest.position_replay_after + 1)


@implements("WAL-019", "WAL-022", "FENCE-015", "FENCE-016", "AMB-24", "AMB-26")
async def recover(region: Region, manifest: RegionManifest) -> MemTable:
    """Rebuild the MemTable from the WAL and put the barrier at its end; ``manifest`` is the confirmed claim.

    Raises `Fenced` when an entry shows a newer claim, `ArtifactError` for a damaged entry or a hole.
    """
    start = position = replay_start(manifest, region.revision)
    memtable = MemTable(generation=manifest.generation_current, schema=region.rows.schema)
    needs_barrier = manifest.epoch > region.revision.epoch_first or region.revision.barrier_on_first_claim
    while True:
        name = paths.wal(position, region.revision.wal_suffix)
        try:
            entry = wal.decode(await region.io.get(name), region.revision, region.io.path(name))
        except NotFound:
            if not needs_barrier or not region.interpretation.claim_barrier:
                break
            try:
                await _put_barrier(region, manifest, position)
            except AlreadyExists:
                continue
            memtable = memtable.with_replayed(position, memtable.schema.empty_table())
            position = WalPosition(position + 1)
            break
        if entry.epoch <= manifest.epoch:
            rows = region.rows.restored(entry.rows, region.io.path(name))
            memtable = memtable.with_replayed(position, rows)
        elif region.interpretation.stop_on_newer_epoch:
            await _raise_fenced(region, manifest.epoch, name, entry.epoch)
        else:
            memtable = memtable.with_replayed(position, memtable.schema.empty_table())
        position = WalPosition(position + 1)
    await _check_no_hole(region, start)
    await region.io.note("recovered", region=region.region_id, epoch=manifest.epoch, rows=memtable.rows)
    return memtable


async def _put_barrier(region: Region, manifest: RegionManifest, position: WalPosition) -> None:
    entry = WalEntry(
        epoch=manifest.epoch,
        generation=manifest.generation_current,
        rows=region.rows.schema.empty_table(),
        barrier=True,
    )
    data = wal.encode(entry, region.revision)
    await confirm.create(region.io, paths.wal(position, region.revision.wal_suffix), data)
    if region.wal_collection:
        await verify_epoch(region, manifest)


async def _raise_fenced(region: Region, local: Epoch, name: str, epoch_entry: Epoch) -> None:
    stored = await manifests.require(region.io, region.revision, region.interpretation)
    if stored.epoch > local:
        raise Fenced(region.region_id, local, stored.epoch)
    reason = f"written under epoch {epoch_entry}, and the region's newest epoch is {stored.epoch}"
    raise ArtifactError("FENCE-015", region.io.path(name), reason)


@implements("WAL-007", "AMB-14", "AMB-139")
async def _check_no_hole(region: Region, start: WalPosition) -> None:
    """Entries from ``start`` on have to be dense: probing stops at a hole, and what lies behind it would be lost."""
    if not region.interpretation.list_wal_tail:
        return
    suffix = region.revision.wal_suffix
    listed = {paths.wal_position(name, suffix) for name in await region.io.list("wal")}
    above = sorted(position for position in listed if position is not None and position >= start)
    for expected, found in enumerate(above, start):
        if found != expected:
            missing = region.io.path(paths.wal(WalPosition(expected), suffix))
            raise ArtifactError("WAL-007", missing, f"entry {expected} is missing, and entry {found} exists")
