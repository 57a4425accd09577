"""Which regions a table has: registered in the MemWAL index, found by listing, and their values.

Source: MemWAL revision A, "MemWAL Index Builder"; AMB-36, 53, 54, 75, 103, 143.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType

from .. import paths
from ..clauses import implements
from ..codec.index_details import IndexDetails, RegionSpec
from ..codec.region_manifest import RegionManifest
from ..coroutines import concurrently
from ..effects import Io
from ..errors import ArtifactError
from ..ids import RegionId, region_id
from ..region import manifest as manifests
from ..revisions import Revision
from ..table.state import TableState
from . import snapshot
from .region_values import from_shard_fields
from .row_values import values_of_rows
from .snapshot import RegionRow


@implements("AMB-54")
def active_spec(details: IndexDetails) -> RegionSpec | None:
    """The spec that governs new writes: the highest id; None if there are none."""
    return max(details.specs, key=lambda spec: spec.spec_id, default=None)


def spec_of(details: IndexDetails, spec_id: int) -> RegionSpec | None:
    """The spec of that id; None for a manual region's, and for one that the index does not have."""
    return next((spec for spec in details.specs if spec.spec_id == spec_id), None)


async def folders(io: Io) -> tuple[RegionId, ...]:
    """The regions that have a folder, with a manifest in it or not; folders of other names are noted."""
    found = []
    for folder in await io.list_folders(paths.MEM_WAL):
        try:
            region = region_id(folder)
        except ValueError:
            await io.note("foreign_folder", folder=folder)
            continue
        found.append(region)
    return tuple(found)


@implements("SNAP-018", "AMB-36", "AMB-103", "AMB-143")
async def discover(
    io: Io,
    revision: Revision,
    among: Collection[RegionId] | None = None,
    *,
    read: Mapping[RegionId, RegionManifest] = MappingProxyType({}),
) -> dict[RegionId, RegionManifest]:
    """The regions ``among`` that have a manifest; None: all, by listing. Folders without one are ignored and noted.

    ``read``: manifests that the caller has; one that is still the newest is not read again. Raises
    `ArtifactError` for a region that has data and no manifest.
    """

    async def newest(region: RegionId) -> RegionManifest | None:
        found = await manifests.latest(manifests.folder(io, region), revision, read=read.get(region))
        if found is None:
            await io.note("region_without_manifest", region=region)
        return found

    asked = list(await folders(io) if among is None else among)
    every = await concurrently(io, [partial(newest, region) for region in asked])
    return {region: manifest for region, manifest in zip(asked, every, strict=True) if manifest is not None}


@implements("INDEX-006", "AMB-53", "AMB-75")
async def known(io: Io, state: TableState) -> tuple[RegionRow, ...]:
    """The registered regions of the newest version; found by listing where the snapshot's file is gone.

    Only for the newest version: what is listed says nothing of older ones, for which `snapshot.load` fails.
    """
    try:
        return await snapshot.load(io, state)
    except ArtifactError as error:
        if error.clause != "SNAP-013":
            raise
        await io.note("snapshot_gone", reason=str(error))
        return await unregistered(io, state, await discover(io, state.revision))


@implements("AMB-53")
async def unregistered(io: Io, state: TableState, live: Mapping[RegionId, RegionManifest]) -> tuple[RegionRow, ...]:
    """Rows for regions that was never registered: their values from the manifest (R) or from the first row they hold.

    Native writers put rows of any value into the shard that they are told (R), so that one row says nothing there.
    """
    found = []
    for region, manifest in sorted(live.items()):
        spec = spec_of(state.mem_wal, manifest.spec_id)
        folder = manifests.folder(io, region)
        values = from_shard_fields(manifest, spec, folder.root) if spec is not None else ()
        if spec is not None and not state.revision.shard_fields:
            values = await values_of_rows(folder, manifest, spec, state)
        found.append(RegionRow(region_id=region, spec_id=manifest.spec_id, values=values, manifest=manifest))
    return tuple(found)
