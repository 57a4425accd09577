"""A snapshot builder that comes late puts a lower last-seen hint over a higher one."""

from dataclasses import replace

from memwal import paths
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.errors import NotFound
from memwal.ids import WalPosition
from memwal.region import manifest as manifests
from memwal.region import transitions
from memwal.region.recovery import replay_start
from memwal.table.state import TableState
from memwal_sim.bugs import Bug


async def _refreshed(region: Io, manifest: RegionManifest, state: TableState) -> RegionManifest:
    """In place of raising the hint of the newest version, where it is lower."""
    position = replay_start(manifest, state.revision)
    try:
        while True:
            await region.head(paths.wal(position, state.revision.wal_suffix))
            position = WalPosition(position + 1)
    except NotFound:
        seen = WalPosition(position - 1)
    if seen <= manifest.position_last_seen:
        return manifest

    async def derive(current: RegionManifest | None) -> RegionManifest | None:
        newest = manifests.present(current, region)
        return replace(manifests.following(newest), position_last_seen=seen)

    collects = state.collects_manifests
    trigger = transitions.INDEX_BUILDER
    advanced = await manifests.advance(region, state.revision, trigger, derive, collected=collects, insist=False)
    return advanced.manifest or manifest


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes, which an engine need not do."""


BUG = Bug(
    name="late_hint_update",
    clause="AMB-34",
    what="A snapshot builder writes the end of the WAL that it has seen, whatever hint the newest manifest has.",
    why=(
        "A flush came between and knew of more entries. No row depends on the hint, but who looks for the end of the "
        "WAL starts further back than it need, and a step of a manifest takes something back."
    ),
    scenario="writer_and_builder",
    oracle="the_last_seen_hint_never_falls",
    violated="AMB-34",
    unseen=(
        "needs a snapshot builder that is held between two requests while a writer flushes; no scenario at the gate "
        "does that"
    ),
    replaced={"memwal.index.regions:_refreshed": _refreshed, "memwal.region.transitions:check": _unasserted},
)
