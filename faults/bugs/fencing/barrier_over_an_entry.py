"""A barrier whose position is taken counts as put."""

from memwal.codec.region_manifest import RegionManifest
from memwal.errors import AlreadyExists
from memwal.ids import Generation, WalPosition
from memwal.region import recovery
from memwal.region.region import Region
from memwal_sim.bugs import Bug

_put_barrier = recovery._put_barrier


async def _or_whatever(region: Region, manifest: RegionManifest, generation: Generation, position: WalPosition) -> None:
    """In place of telling that the position is taken."""
    try:
        await _put_barrier(region, manifest, generation, position)
    except AlreadyExists:
        return


BUG = Bug(
    name="barrier_over_an_entry",
    clause="AMB-24",
    what=(
        "A claim whose barrier entry finds its position taken continues as if the barrier stood there, without "
        "replaying what took it."
    ),
    why=(
        "The predecessor's last entry took the position and was acknowledged. The successor has not seen it, and "
        "its next flush moves the replay pointer past it."
    ),
    scenario="two_writers_two_keys",
    oracle="wal_epochs_never_decrease",
    violated="FENCE-015",
    replaced={"memwal.region.recovery:_put_barrier": _or_whatever},
)
