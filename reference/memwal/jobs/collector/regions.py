"""Collecting in one region: entries of the manifest first, then folders, then the WAL, then manifest versions.

Source: MemWAL revisions A and B, "Garbage Collector".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import paths
from ...codec.region_manifest import RegionManifest
from ...effects import Io
from ...ids import Milliseconds, RegionId
from ...region import manifest as region_manifests
from . import generations, manifests, orphans, wal
from .decision import Decision
from .generations import Candidate, Needs
from .ledger import Ledger
from .orphans import Orphan
from .snapshots import Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """What was decided on the listed generations of one region."""

    region: RegionId
    manifest: RegionManifest
    """Read before anything was decided."""
    decided: tuple[tuple[Candidate, Decision], ...]

    @property
    def doomed(self) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate, decision in self.decided if decision.collected)


def plan(region: RegionId, manifest: RegionManifest, needs: Needs) -> CollectionPlan:
    """Decide on the generations that ``manifest`` lists."""
    decided = []
    for listed in manifest.flushed:
        candidate = Candidate(region=region, generation=listed.generation, folder=listed.path, needs=needs)
        name = f"{paths.region(region)}/{listed.path}"
        decided.append((candidate, generations.RULES.decide(candidate, name, generations.GONE)))
    return CollectionPlan(region=region, manifest=manifest, decided=tuple(decided))


async def unlist(io: Io, planned: CollectionPlan, needs: Needs) -> None:
    """Take the doomed generations of ``planned`` out of the region manifest: the one thing here that needs space."""
    gone = {candidate.folder for candidate in planned.doomed}
    if gone:
        region = region_manifests.folder(io, planned.region)
        await generations.unlist(region, gone, needs.newest)


async def collect_region(
    io: Io, planned: CollectionPlan, needs: Needs, remembered: Remembered, now_ms: Milliseconds, ledger: Ledger
) -> None:
    """Carry out ``planned``, which the manifest no longer lists, and decide on everything else in the region."""
    region = region_manifests.folder(io, planned.region)
    gone = {candidate.folder for candidate in planned.doomed}
    for candidate, decision in planned.decided:
        names = await orphans.objects(region, candidate.folder) if decision.collected else ()
        await ledger.carry_out(region, decision, names)
    await _collect_orphans(region, planned, gone, needs, remembered, now_ms, ledger)
    await wal.collect_wal(region, planned.manifest, gone, needs.newest, ledger)
    await manifests.collect_manifests(
        region, planned.manifest, needs.newest, needs.policy, ledger, another=bool(gone) and ledger.dry_run
    )


async def _collect_orphans(
    region: Io,
    planned: CollectionPlan,
    gone: set[str],
    needs: Needs,
    remembered: Remembered,
    now_ms: Milliseconds,
    ledger: Ledger,
) -> None:
    folders = await orphans.generation_folders(region)
    if not folders:
        return
    manifest = await region_manifests.require(region, needs.newest.revision)
    for folder in orphans.unlisted(folders, manifest):
        number = paths.generation_number(folder)
        if number is None or folder in gone:
            continue  # no generation by its name, or one that this run has just decided on
        orphan = Orphan(
            region=planned.region,
            folder=folder,
            generation=number,
            manifest=manifest,
            needs=needs,
            remembered=frozenset(),
            made_ms=await orphans.made_ms(region, folder, needs.policy),
            now_ms=now_ms,
        )
        name = f"{paths.region(planned.region)}/{folder}"
        decision = orphans.RULES.decide(orphan, name, orphans.gone(orphan))
        if decision.collected:
            orphan = replace(orphan, remembered=await remembered.folders())
            decision = orphans.RULES.decide(orphan, name, orphans.gone(orphan))
        names = await orphans.objects(region, folder) if decision.collected else ()
        await ledger.carry_out(region, decision, names)
