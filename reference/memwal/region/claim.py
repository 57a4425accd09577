"""Owning a region: claiming it under the next epoch, and finding out whether the claim still holds.

Source: MemWAL revisions A and B, "Writer Fencing".
"""

from __future__ import annotations

from dataclasses import replace

from .. import paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..errors import ArtifactError, EngineBug, Fenced, InvalidArgument, NotFound
from ..ids import UINT64_MAX, Epoch, ManifestVersion
from . import manifest as manifests
from . import transitions
from .region import Region


@implements(
    "FENCE-001", "FENCE-002", "FENCE-004", "FENCE-005", "FENCE-006", "FENCE-007", "FENCE-008", "MANIFEST-034", "AMB-28",
    "AMB-35",
)  # fmt: skip
async def claim(region: Region) -> RegionManifest:
    """Take ownership of the region, creating it if it is new; returns the manifest that carries the new epoch.

    A claim that was not positively confirmed is treated as another's: the next one uses a higher epoch. Raises the
    store's last outcome when attempts go unanswered, `InvalidArgument` for a sealed region, and `ArtifactError` for one
    that has data and no manifest.
    """
    tried: RegionManifest | None = None

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        nonlocal tried
        # AMB-28, an unanswered claim: what it wanted is there, and may be another's. Only the literal reading takes it.
        if current is not None and current == tried and not region.io.interpretation.own_claim_needs_confirmation:
            return None
        # FENCE-007, the put lost: once more, above the epoch that is stored now.
        tried = claimed(current, region)
        return tried

    advanced = await manifests.advance(
        region.io,
        region.revision,
        transitions.CLAIM,
        derive,
        collected=region.manifest_collection,
    )
    # FENCE-008, no epoch twice: the version is there by this claim's own conditional create.
    won = manifests.present(advanced.manifest, region.io)
    if won != tried:
        raise EngineBug(f"region {region.region_id} was claimed with version {won.version}, which another put")
    await region.io.note("claimed", region=region.region_id, epoch=won.epoch)
    return won


def claimed(current: RegionManifest | None, region: Region) -> RegionManifest:
    """The manifest that claims the region: only the epoch changes; None creates version 1 with epoch 1."""
    if current is None:
        return RegionManifest(
            region_id=region.region_id,
            spec_id=region.spec_id,
            shard_fields=region.shard_fields,
            **transitions.fresh(region.revision),
        )
    # A sealed region (R) has no writer any more, and is never opened again.
    if current.sealed:
        raise InvalidArgument(f"region {region.region_id} is sealed: no writer can open it", clause="FENCE-003")
    if current.epoch == UINT64_MAX:
        raise ArtifactError("FENCE-005", region.io.root, "no epoch follows the largest number")
    # FENCE-005, MANIFEST-034: exactly one above what was loaded, and nothing else changes.
    return replace(manifests.following(current), epoch=Epoch(current.epoch + 1))


@implements("FENCE-014", "FENCE-017", "AMB-25", "AMB-30", "AMB-37")
async def verify_epoch(region: Region, known: RegionManifest) -> RegionManifest:
    """The newest manifest, which is ``known`` or a newer one of the same epoch; raises `Fenced` for another epoch.

    One request where nothing changed. Versions that are never collected stay: then the one above ``known`` is there
    if there is any newer one, and a HEAD asks for it. Where they are collected neither its absence nor the presence of
    ``known`` proves anything, since a stale copy may stand at a freed number; a LIST shows the newest, which always
    stays. Raises `ArtifactError` if the newest manifest has a lower epoch.
    """
    if region.manifest_collection:
        # AMB-30, numbers are freed: neither a missing nor a present number proves anything, the largest one does.
        listed = await manifests.versions(region.io)
        if listed[-1:] == (known.version,):
            return known
        stored = manifests.present(await manifests.newest_listed(region.io, region.revision), region.io)
    else:
        try:
            # FENCE-014, the hot path: one HEAD, and no manifest is read while nothing has changed.
            await region.io.head(paths.manifest(ManifestVersion(known.version + 1)))
        except NotFound:
            return known
        stored = await manifests.require(region.io, region.revision, collected=False)
    check_epoch(region, known.epoch, stored)
    return stored


@implements("FENCE-009", "FENCE-010", "FENCE-011", "AMB-37")
def check_epoch(region: Region, local: Epoch, stored: RegionManifest) -> None:
    """Compare a writer's epoch with the stored one: equal, it is active; lower, `Fenced`; higher, `ArtifactError`."""
    # FENCE-011, fenced: a later claim owns the region.
    if local < stored.epoch:
        raise Fenced(region.region_id, local, stored.epoch)
    # AMB-37, the stored epoch is lower: it never falls, so that the store has lost a manifest.
    if local > stored.epoch:
        reason = f"the stored epoch {stored.epoch} is below this writer's epoch {local}"
        raise ArtifactError("AMB-37", region.io.path(paths.manifest(stored.version)), reason)
