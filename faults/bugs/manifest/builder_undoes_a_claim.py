"""A snapshot builder puts the manifest that it has read, with another hint, under the next free number."""

from dataclasses import replace

from memwal import paths
from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.errors import AlreadyExists, NotFound
from memwal.ids import ManifestVersion, WalPosition
from memwal.region.recovery import replay_start
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _from_its_copy(region: Io, manifest: RegionManifest, state: TableState) -> RegionManifest:
    """In place of deriving each attempt from the newest version."""
    position = replay_start(manifest, state.revision)
    try:
        while True:
            await region.head(paths.wal(position, state.revision.wal_suffix))
            position = WalPosition(position + 1)
    except NotFound:
        seen = WalPosition(max(position - 1, manifest.position_last_seen))
    wanted = replace(manifest, position_last_seen=seen)
    while True:
        wanted = replace(wanted, version=ManifestVersion(wanted.version + 1))
        try:
            await region.put_if_absent(paths.manifest(wanted.version), region_manifest.encode(wanted, state.revision))
        except AlreadyExists:
            continue
        return wanted


BUG = Bug(
    name="builder_undoes_a_claim",
    clause="AMB-33",
    what=(
        "When a snapshot builder raises the last-seen hint, it retries with the content that it has read first if "
        "its version is taken."
    ),
    why=(
        "What took the version was a flush or a claim. The builder's copy above it has the old epoch, replay "
        "pointer and generation list: it is undone, by a process that owns nothing."
    ),
    scenario="writer_and_builder",
    oracle="manifests_never_go_back",
    violated="MANIFEST-009",
    replaced={"memwal.index.regions:_refreshed": _from_its_copy},
)
