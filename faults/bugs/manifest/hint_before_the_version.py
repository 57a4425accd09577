"""The version hint is written before the version that it names."""

from memwal.codec.region_manifest import RegionManifest
from memwal.effects import Io
from memwal.ids import ManifestVersion
from memwal.region import manifest
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_newest = manifest._newest


async def _hinted_ahead(io: Io, revision: Revision, collected: bool, listing: bool) -> RegionManifest | None:
    """In place of reading what the next version stands on, and nothing else."""
    current = await _newest(io, revision, collected, listing)
    await manifest.put_hint(io, ManifestVersion(1 if current is None else current.version + 1))
    return current


BUG = Bug(
    name="hint_before_the_version",
    clause="AMB-31",
    what="Who commits a manifest version points the hint at it first, and creates it afterwards.",
    why=(
        "The texts have the two written in parallel. Where the commit is lost, the hint names a version that is not "
        "there, or one of another process: each reader lists, and nothing tells it from a manifest that was lost."
    ),
    scenario="one_writer_twice",
    oracle="the_hint_is_never_ahead",
    violated="MANIFEST-026",
    unseen="the text has hint and version written in parallel; the hint is ahead between two requests only",
    replaced={"memwal.region.manifest:_newest": _hinted_ahead},
)
