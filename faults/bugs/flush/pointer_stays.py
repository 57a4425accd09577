"""A flush does not move the replay pointer."""

from dataclasses import replace

from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.ids import WalPosition
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = region_manifest.encode


def _unmoved(manifest: RegionManifest, revision: Revision) -> bytes:
    """In place of the position that the generation covers."""
    return _encode(replace(manifest, position_replay_after=WalPosition(0)), revision)


BUG = Bug(
    name="pointer_stays",
    clause="FLUSH-010",
    what="A flush lists its generation and leaves the replay pointer where it was.",
    why=("Recovery replays rows that are in a generation already, gives them the next number, and flushes them again."),
    scenario="written_and_deleted",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.codec.region_manifest:encode": _unmoved},
)
