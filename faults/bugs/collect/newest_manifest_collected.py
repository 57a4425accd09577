"""The newest region manifest is not kept."""

from collections.abc import Sequence

from memwal.ids import ManifestVersion
from memwal_sim.bugs import Bug


def _all_but_the_first(
    listed: Sequence[ManifestVersion], _hinted: ManifestVersion | None, _retain: int
) -> tuple[ManifestVersion, ...]:
    """In place of the versions below those that stay."""
    return tuple(listed[1:])


BUG = Bug(
    name="newest_manifest_collected",
    clause="GC-008",
    what="A collector of old manifest versions deletes by count and counts the newest as old.",
    why="Epoch, replay pointer and list of generations jump back to an older version, or are gone.",
    scenario="stalled_claim",
    oracle="manifest_versions_are_dense",
    violated="MANIFEST-020",
    unseen="needs a collector of old manifest versions, which no message switches on",
    replaced={"memwal.region.manifest:collectable": _all_but_the_first},
)
