"""Replay starts at the first entry of the WAL."""

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import WalPosition
from memwal.revisions import Revision
from memwal_sim.bugs import Bug


def _from_the_first(_manifest: RegionManifest, revision: Revision) -> WalPosition:
    """In place of starting behind what was flushed."""
    return revision.first_position


BUG = Bug(
    name="replays_flushed_entries",
    clause="WAL-020",
    what="Recovery replays every entry that is still in the WAL, flushed or not.",
    why=(
        "Rows that were flushed and merged long ago come back as the newest generation, and override what was "
        "done to the base table since: a deleted row returns."
    ),
    scenario="base_delete",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.region.recovery:replay_start": _from_the_first},
)
