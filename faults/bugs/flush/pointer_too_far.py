"""A flush moves the replay pointer one entry too far."""

from dataclasses import replace

from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.ids import WalPosition
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = region_manifest.encode


def _one_more(manifest: RegionManifest, revision: Revision) -> bytes:
    """In place of the position that the generation covers."""
    if manifest.flushed:
        manifest = replace(manifest, position_replay_after=WalPosition(manifest.position_replay_after + 1))
    return _encode(manifest, revision)


BUG = Bug(
    name="pointer_too_far",
    clause="FLUSH-010",
    what="The replay pointer that a flush commits covers one entry more than the flushed generation holds.",
    why=(
        "That entry belongs to the next generation, which is in memory only. After a crash replay starts behind "
        "it, and its rows are lost."
    ),
    scenario="one_writer_frozen",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    replaced={"memwal.codec.region_manifest:encode": _one_more},
)
