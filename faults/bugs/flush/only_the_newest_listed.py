"""A flush lists its own generation only."""

from dataclasses import replace

from memwal.codec import region_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.revisions import Revision
from memwal_sim.bugs import Bug

_encode = region_manifest.encode


def _the_last(manifest: RegionManifest, revision: Revision) -> bytes:
    """In place of listing every generation."""
    return _encode(replace(manifest, flushed=manifest.flushed[-1:]), revision)


BUG = Bug(
    name="only_the_newest_listed",
    clause="FLUSH-012",
    what="The manifest that a flush commits lists the new generation in place of all others.",
    why=(
        "Generations that were flushed and not merged drop out of the list: readers and mergers do not see them "
        "any more, and a collector takes their folders for left over."
    ),
    scenario="one_writer_duplicates",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={"memwal.codec.region_manifest:encode": _the_last},
)
