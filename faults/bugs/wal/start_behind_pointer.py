"""Replay starts one above the pointer, also where nothing was flushed yet."""

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import WalPosition
from memwal.revisions import Revision
from memwal_sim.bugs import Bug


def _above_pointer(manifest: RegionManifest, revision: Revision) -> WalPosition:
    """In place of asking whether there was a flush at all; only who creates the region knows that there is nothing."""
    if manifest.epoch == revision.epoch_first:
        return revision.first_position
    return WalPosition(manifest.position_replay_after + 1)


BUG = Bug(
    name="start_behind_pointer",
    clause="AMB-07",
    what=(
        "Recovery of revision B starts at replay pointer + 1 even before the first flush, when the pointer is 0 "
        "and covers nothing. Besides, claims leave no entry in the WAL, and recovery does not list it."
    ),
    why=(
        "Positions begin at 0 in revision B, so that the pointer's initial 0 can mean nothing flushed or entry 0 "
        "flushed. Read literally, the first entry of every region is lost by the first crash."
    ),
    scenario="one_writer",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    readings={"claim_barrier": False, "list_wal_tail": False},
    replaced={"memwal.region.recovery:replay_start": _above_pointer},
)
