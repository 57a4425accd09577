"""Owning a region: claiming it under the next epoch, and finding out whether the claim still holds.

Source: MemWAL revisions A and B, "Writer Fencing"; AMB-25, 28, 35.
"""

from __future__ import annotations

from dataclasses import replace

from .. import confirm, paths
from ..clauses import implements
from ..codec import region_manifest
from ..codec.region_manifest import RegionManifest
from ..errors import AlreadyExists, Fenced, InvalidArgument, NotFound, OutcomeUnknown, Throttled
from ..ids import Epoch, ManifestVersion, Milliseconds, WalPosition
from . import manifest as manifests
from .region import Region

_PAUSE_MS = Milliseconds(10)


@implements("FENCE-002", "FENCE-004", "FENCE-005", "FENCE-006", "FENCE-007", "FENCE-008", "AMB-28", "AMB-35")
async def claim(region: Region) -> RegionManifest:
    """Take ownership of the region, creating it if it is new; returns the manifest that carries the new epoch.

    A claim that was not positively confirmed is treated as another's: the next one uses a higher epoch.
    """
    for _ in range(confirm.ATTEMPTS):
        current = await manifests.latest(region.io, region.revision, region.interpretation)
        wanted = claimed(current, region)
        try:
            await manifests.put(region.io, wanted, region.revision)
        except (AlreadyExists, OutcomeUnknown) as outcome:
            if not region.interpretation.own_claim_needs_confirmation and await _same_bytes(region, wanted):
                return wanted
            if isinstance(outcome, OutcomeUnknown):
                await region.io.sleep(_PAUSE_MS)
            continue
        except Throttled:
            await region.io.sleep(_PAUSE_MS)
            continue
        await manifests.put_hint(region.io, wanted.version)
        await region.io.note("claimed", region=region.region_id, epoch=wanted.epoch)
        return wanted
    raise OutcomeUnknown(region.io.path("manifest"), f"{confirm.ATTEMPTS} claims were lost or not confirmed")


async def _same_bytes(region: Region, wanted: RegionManifest) -> bool:
    try:
        found = await region.io.get(paths.manifest(wanted.version))
    except NotFound:
        return False
    return found == region_manifest.encode(wanted, region.revision)


def claimed(current: RegionManifest | None, region: Region) -> RegionManifest:
    """The manifest that claims the region: only the epoch changes; None creates version 1 with epoch 1."""
    if current is None:
        return RegionManifest(
            version=ManifestVersion(1),
            region_id=region.region_id,
            spec_id=region.spec_id,
            epoch=region.revision.epoch_first,
            position_replay_after=WalPosition(0),
            position_last_seen=WalPosition(0),
            generation_current=region.revision.generation_first,
            flushed=(),
            shard_fields=region.shard_fields,
        )
    if current.sealed:
        raise InvalidArgument(f"region {region.region_id} is sealed and takes no writer", clause="FENCE-003")
    return replace(manifests.following(current), epoch=Epoch(current.epoch + 1))


@implements("FENCE-014", "FENCE-017", "AMB-25")
async def verify_epoch(region: Region, known: RegionManifest) -> None:
    """Raise `Fenced` unless ``known`` is still the newest manifest or a newer one has the same epoch.

    Two HEADs where nothing changed; on any doubt the newest manifest is read.
    """
    try:
        await region.io.head(paths.manifest(known.version))
        await region.io.head(paths.manifest(ManifestVersion(known.version + 1)))
    except NotFound as missing:
        if missing.path == region.io.path(paths.manifest(ManifestVersion(known.version + 1))):
            return
    stored = await manifests.require(region.io, region.revision, region.interpretation)
    if stored.epoch != known.epoch:
        raise Fenced(region.region_id, known.epoch, stored.epoch)
