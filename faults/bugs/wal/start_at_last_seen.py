"""Replay starts behind the last-seen hint."""

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import WalPosition
from memwal.region import wal_folder
from memwal.revisions import Revision
from memwal_sim.bugs import Bug


def _behind_hint(manifest: RegionManifest, revision: Revision) -> WalPosition:
    """In place of starting at the replay pointer only."""
    if wal_folder.never_flushed(manifest, revision) and not manifest.position_last_seen:
        return revision.first_position
    return WalPosition(max(manifest.position_replay_after, manifest.position_last_seen) + 1)


BUG = Bug(
    name="start_at_last_seen",
    clause="AMB-09",
    what=(
        "Recovery starts behind the entry that the manifest's last-seen hint names, as if it were the replay pointer."
    ),
    why=(
        "A snapshot builder raises the hint to the end of the WAL without flushing anything. All entries between "
        "the pointer and the hint are skipped, and their rows are lost."
    ),
    scenario="writer_and_builder",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.region.recovery:replay_start": _behind_hint},
)
