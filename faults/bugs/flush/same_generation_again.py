"""A flush does not advance the current generation."""

from dataclasses import replace

from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.ids import Generation
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = region_manifest.encode


def _unadvanced(manifest: RegionManifest, revision: Revision) -> bytes:
    """In place of the number after the flushed one."""
    return _encode(replace(manifest, generation_current=Generation(1)), revision)


BUG = Bug(
    name="same_generation_again",
    clause="MANIFEST-009",
    what="A flush leaves the manifest's current generation at the number that it has just flushed.",
    why=(
        "The next MemTable gets the number of a generation that is there already. Merge progress then covers "
        "both, and the second one is never merged."
    ),
    scenario="one_writer_frozen",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={"memwal.codec.region_manifest:encode": _unadvanced},
)
