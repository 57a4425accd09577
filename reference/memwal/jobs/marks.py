"""Which tasks are finished in a region: what its WAL, its generations and the table say (AMB-149)."""

from __future__ import annotations

from collections.abc import Iterable

from ..clauses import implements
from ..codec import marks as coding
from ..codec.marks import Mark
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import NotFound
from ..ids import RegionId, WalPosition
from ..read.sources import unmerged
from ..region import manifest as manifests
from ..region.recovery import read_entry, replay_start
from ..region.region import Region
from ..table.marks import merged_marks
from ..table.state import latest


@implements("AMB-149")
async def done(io: Io, region: Region, held: Iterable[Mark] | None = None) -> tuple[Mark, ...]:
    """Of each application the newest batch and its finished tasks in ``region``; ``io``: the table's folder.

    ``held``: what the open writer of the region holds of its WAL; None: it is not claimed, and the WAL is read. Then
    what a live writer does meanwhile may be missed, and a claimant asks again.
    """
    manifest = await manifests.latest(region.io, region.revision, collected=region.manifest_collection)
    if manifest is None:
        return ()
    found = [*(await _in_wal(region, manifest) if held is None else held)]
    found += await _in_generations(io, region, manifest)
    # The table last: what was merged and collected meanwhile is there.
    return coding.joined([*found, *merged_marks(await latest(io), region.region_id)])


async def _in_wal(region: Region, manifest: RegionManifest) -> list[Mark]:
    position, found = replay_start(manifest, region.revision), list[Mark]()
    while True:
        try:
            entry = await read_entry(region.io, position, region.revision, region.rows.schema)
        except NotFound:
            return found
        found += entry.done
        position = WalPosition(position + 1)


async def _in_generations(io: Io, region: Region, manifest: RegionManifest) -> list[Mark]:
    found = list[Mark]()
    for listed in unmerged(manifest, (await latest(io)).mem_wal.progress(RegionId(region.region_id))):
        try:
            generation = await latest(region.io.child(listed.path))
        except NotFound:
            continue  # it is merged and collected: the table has its marks
        found += coding.decode(generation.config.get(coding.DONE), generation.path)
    return found
