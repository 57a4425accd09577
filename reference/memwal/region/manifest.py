"""Region manifest versions: finding the newest, and creating the next.

Source: MemWAL revisions A and B, "Region Manifest Versioning"; AMB-29, 30, 31, 32.
"""

from __future__ import annotations

from dataclasses import replace

from .. import paths
from ..clauses import implements
from ..codec import hint, region_manifest
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound, OutcomeUnknown, StorageError, Throttled
from ..ids import ManifestVersion, RegionId
from ..revisions import STRICT, Interpretation, Revision


def folder(table: Io, region: RegionId) -> Io:
    """The region's folder."""
    return table.child(paths.region(region))


@implements(
    "MANIFEST-001", "MANIFEST-029", "MANIFEST-030", "MANIFEST-031", "MANIFEST-032", "FENCE-004", "AMB-31", "AMB-32"
)
async def latest(io: Io, revision: Revision, interpretation: Interpretation = STRICT) -> RegionManifest | None:
    """The newest manifest of the region at ``io``, or None if the region has none.

    Starts at the hint (or at 1), probes upward with HEAD until a version is missing. Lists only where the first probe
    fails, so that a hint that is ahead, behind, missing or rolled back never makes a region look new.
    """
    start = await _hinted(io) or ManifestVersion(1)
    found = await _probe_upward(io, start)
    if found is None and interpretation.list_when_hint_fails:
        found = await _newest_listed(io)
    return await read(io, found, revision) if found is not None else None


async def _hinted(io: Io) -> ManifestVersion | None:
    try:
        return hint.decode(await io.get(paths.VERSION_HINT), io.path(paths.VERSION_HINT))
    except NotFound:
        return None


async def _probe_upward(io: Io, start: ManifestVersion) -> ManifestVersion | None:
    found = None
    version = start
    while True:
        try:
            await io.head(paths.manifest(version))
        except NotFound:
            return found
        found, version = version, ManifestVersion(version + 1)


async def _newest_listed(io: Io) -> ManifestVersion | None:
    listed = [paths.manifest_version(name) for name in await io.list("manifest")]
    return max((v for v in listed if v is not None), default=None)


async def read(io: Io, version: ManifestVersion, revision: Revision) -> RegionManifest:
    """One manifest version. Raises `NotFound`, or `ArtifactError` for damaged bytes."""
    name = paths.manifest(version)
    return region_manifest.decode(await io.get(name), revision, io.path(name))


@implements("MANIFEST-019", "MANIFEST-020", "MANIFEST-021", "MANIFEST-023", "MANIFEST-039")
async def put(io: Io, manifest: RegionManifest, revision: Revision) -> None:
    """Create the manifest version. Raises `AlreadyExists`, `OutcomeUnknown` or `Throttled`; then nothing else is done.

    ``manifest`` must have been derived from the version just below it (AMB-29).
    """
    await io.put_if_absent(paths.manifest(manifest.version), region_manifest.encode(manifest, revision))


@implements("MANIFEST-026", "MANIFEST-027", "MANIFEST-028", "AMB-31")
async def put_hint(io: Io, version: ManifestVersion) -> None:
    """Point the hint at ``version``, which exists. Best effort: a failure changes no outcome."""
    try:
        await io.put(paths.VERSION_HINT, hint.encode(version))
    except (OutcomeUnknown, Throttled, StorageError) as failure:
        await io.note("hint_failed", version=version, reason=str(failure))


def following(manifest: RegionManifest) -> RegionManifest:
    """A copy under the next version number, to be changed by exactly one trigger's fields."""
    return replace(manifest, version=ManifestVersion(manifest.version + 1))


async def require(io: Io, revision: Revision, interpretation: Interpretation = STRICT) -> RegionManifest:
    """`latest`, where a region without a manifest is an error."""
    found = await latest(io, revision, interpretation)
    if found is None:
        raise ArtifactError("AMB-143", io.root, "the region has no manifest")
    return found
