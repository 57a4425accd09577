"""A claim writes the next manifest version under the old epoch."""

from dataclasses import replace

from memwal.codec.region_manifest import RegionManifest
from memwal.region import claim
from memwal.region.region import Region
from memwal_sim.bugs import Bug

_claimed = claim.claimed


def _same_epoch(current: RegionManifest | None, region: Region) -> RegionManifest:
    """In place of the next epoch."""
    wanted = _claimed(current, region)
    return wanted if current is None else replace(wanted, epoch=current.epoch)


def _unasserted(*_: object) -> None:
    """In place of asserting what each step changes, which an engine need not do."""


BUG = Bug(
    name="claim_keeps_epoch",
    clause="FENCE-005",
    what="A claim creates a new manifest version but does not raise the epoch.",
    why=(
        "Both writers hold the same epoch, so that no comparison of epochs tells them apart and neither is ever fenced."
    ),
    scenario="two_writers_two_keys",
    oracle="no process breaks",
    violated="WAL-006",
    replaced={"memwal.region.claim:claimed": _same_epoch, "memwal.region.transitions:check": _unasserted},
)
