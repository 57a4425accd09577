"""The next manifest version is two above the last."""

from dataclasses import replace

from memwal.codec.region_manifest import RegionManifest
from memwal.ids import ManifestVersion
from memwal_sim.bugs import Bug


def _with_a_gap(manifest: RegionManifest) -> RegionManifest:
    """In place of the next version."""
    return replace(manifest, version=ManifestVersion(manifest.version + 2))


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes, which an engine need not do."""


BUG = Bug(
    name="skipped_version",
    clause="MANIFEST-018",
    what="A manifest step leaves out a version number.",
    why=(
        "Readers find the newest version by probing upward until one is missing. They stop at the gap and never "
        "see what is above it."
    ),
    scenario="one_writer",
    oracle="recovery succeeds",
    violated="WRITER-013",
    replaced={"memwal.region.manifest:following": _with_a_gap, "memwal.region.transitions:check": _unasserted},
)
