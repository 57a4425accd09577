"""A writer does not look at the manifest after a WAL put."""

from memwal.codec.region_manifest import RegionManifest
from memwal.region.region import Region
from memwal_sim.bugs import Bug


async def _trusting(_region: Region, known: RegionManifest) -> RegionManifest:
    """In place of asking for a newer manifest."""
    return known


BUG = Bug(
    name="no_check_after_put",
    clause="AMB-25",
    what=(
        "Where WAL entries may be collected, a writer acknowledges a put without verifying afterwards that its "
        "epoch still owns the region."
    ),
    why=(
        "A stalled writer puts at a position that its successor used, flushed, merged and freed. The put "
        "succeeds, is acknowledged, and lies below the replay pointer, where no replay ever looks. A barrier "
        "entry does not help: it was collected too."
    ),
    scenario="stalled_writer",
    oracle="acknowledged writes survive",
    violated="WAL-001",
    unseen=(
        "needs a collector of WAL entries: scenarios/gate/zombie_append_after_a_wal_collection sees it with --memwal- "
        "setting wal_collection=on only"
    ),
    replaced={"memwal.region.claim:verify_epoch": _trusting},
)
