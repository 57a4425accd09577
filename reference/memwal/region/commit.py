"""Listing a flushed generation in the region manifest: the step that makes it exist.

Source: MemWAL revision A, "MemTable Flush" and "Writer Fencing".
"""

from __future__ import annotations

from dataclasses import replace

from ..clauses import implements
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..errors import ArtifactError, EngineBug
from ..ids import Epoch, Generation, WalPosition
from . import manifest as manifests
from . import transitions
from .claim import check_epoch
from .recovery import replay_start
from .region import Region


@implements(
    "MANIFEST-035", "FLUSH-009", "FLUSH-010", "FLUSH-011", "FLUSH-012", "FLUSH-014", "FLUSH-016", "AMB-29", "AMB-41"
)
async def commit_flush(
    region: Region, epoch: Epoch, start: WalPosition, listed: FlushedGeneration, covered: WalPosition
) -> RegionManifest:
    """List the generation in the next manifest version, verifying the epoch against the version it is derived from.

    ``start``, ``covered``: first and last WAL position of the generation. Raises `Fenced`, the store's last outcome
    when attempts go unanswered, and `ArtifactError` if the generation would not follow the ones listed.
    """
    if covered < start:
        reason = f"generation {listed.generation} is to cover entries {start} to {covered}"
        raise EngineBug(f"{reason}: there is none, and the replay pointer would go back")
    basis: RegionManifest | None = None

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        nonlocal basis
        stored = manifests.present(current, region.io)
        # AMB-29, check and act: the epoch is compared in the very version that the next one is derived from.
        if basis is None or region.io.interpretation.reverify_each_attempt:
            check_epoch(region, epoch, stored)
            # Before the comparison of positions: an own commit has moved the pointer.
            if stored.generation_current > listed.generation:
                await region.io.note("recognised", generation=listed.generation)
                return None  # an own attempt whose outcome was unknown: only this epoch can commit it
            # AMB-41, flushes out of order: only the current generation is committed, and only with the next entries.
            if replay_start(stored, region.revision) != start or stored.generation_current != listed.generation:
                reason = f"generation {listed.generation} would not follow {stored.generation_current - 1}"
                raise ArtifactError("FLUSH-009", region.io.root, reason)
            basis = stored
        else:
            # Literal: what was read first goes under the next free number, whatever others have changed since.
            basis = replace(basis, version=stored.version)
        return replace(
            manifests.following(basis),
            # FLUSH-009, the pointer: to the last entry that the generation covers.
            position_replay_after=covered,
            # FLUSH-010, the hint: refreshed along with it, and never lowered.
            position_last_seen=max(basis.position_last_seen, covered),
            # FLUSH-011, FLUSH-012: the next number, and the generation at the end of the list.
            generation_current=Generation(listed.generation + 1),
            flushed=(*basis.flushed, listed),
        )

    advanced = await manifests.advance(
        region.io,
        region.revision,
        transitions.FLUSH,
        derive,
        collected=region.manifest_collection,
    )
    await region.io.note("flushed", region=region.region_id, generation=listed.generation)
    done = manifests.present(advanced.manifest, region.io)
    if done.epoch != epoch or done.generation_current <= listed.generation:
        known = f"version {done.version} has epoch {done.epoch} and current generation {done.generation_current}"
        raise EngineBug(f"generation {listed.generation} was committed under epoch {epoch}, and {known}")
    return done
