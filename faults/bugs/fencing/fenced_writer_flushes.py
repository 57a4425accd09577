"""A flush does not compare epochs before its commit."""

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import Epoch
from memwal.region.region import Region
from memwal_sim.bugs import Bug


def _anyone(_region: Region, _local: Epoch, _stored: RegionManifest) -> None:
    """In place of comparing the epochs."""


BUG = Bug(
    name="fenced_writer_flushes",
    clause="FENCE-009",
    what=(
        "A flush commit takes the newest manifest for its basis and does not ask whether the writer's epoch is "
        "still the stored one."
    ),
    why=(
        "A fenced writer lists its generation in the name of its successor and moves the replay pointer over "
        "entries that the successor still holds in memory."
    ),
    scenario="fenced_flush",
    oracle="reads are explained",
    violated="READ-008",
    replaced={"memwal.region.claim:check_epoch": _anyone},
)
