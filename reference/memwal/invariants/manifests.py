"""Invariants of region manifests: single ones, steps from one to the next, and their names.

Source: MemWAL revisions A and B, "Region Manifest Versioning"; revision A, "Region Manifest Updates"; AMB-30 to 35.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import paths
from ..codec.region_manifest import RegionManifest
from ..ids import ManifestVersion
from ..region import transitions
from ..revisions import Revision
from ..violations import Violation, objection
from .finding import invariant
from .seen import RegionView

_HISTORY = "Restore the object from a backup of the store. Never number a version anew or write one by hand."
_STOP = "Stop every writer of the region and find out which process wrote this version; no repair is safe."


@invariant(
    "MANIFEST-002",
    "MANIFEST-003",
    "MANIFEST-004",
    "MANIFEST-014",
    "MANIFEST-017",
    "GEN-013",
    about="manifest",
    remedy=_HISTORY,
)
def region_manifests_open(view: RegionView) -> Iterator[Violation]:
    """Every region manifest can be read, is of its region and version, and lists each generation once."""
    yield from view.damaged_manifests


@invariant("MANIFEST-020", "MANIFEST-018", "AMB-30", "AMB-32", about="manifest", remedy=_HISTORY)
def manifest_versions_are_dense(view: RegionView, *, collected: bool) -> Iterator[Violation]:
    """Retained manifest versions form one block.

    Where old ones are ``collected``, a single one below it may be a stale copy: a process that was stalled created the
    number again, and crashed before it found out. Every reader knows it by its missing successor.
    """
    numbers = view.numbers
    for place, (a, b) in enumerate(zip(numbers, numbers[1:], strict=False)):
        copy = collected and (place == 0 or numbers[place - 1] != a - 1)
        if b != a + 1 and not copy:
            missing = view.io.path(paths.manifest(ManifestVersion(a + 1)))
            yield objection(missing, f"version {a + 1} is missing before {b}")


@invariant(
    "GC-008",
    "AMB-30",
    "AMB-96",
    about="manifest",
    severity="warning",
    remedy="Processes that do not expect it may commit on top of a state that is long gone. Find out who deletes "
    "region manifests, or set the table's config to allow it.",
)
def manifest_versions_go_with_consent(view: RegionView, *, collected: bool) -> Iterator[Violation]:
    """The oldest manifest versions are gone only where the table allows it (``collected``)."""
    if not collected and view.numbers and view.numbers[0] > 1:
        missing = view.io.path(paths.manifest(ManifestVersion(1)))
        yield objection(missing, f"versions 1 to {view.numbers[0] - 1} are gone, and collection is not allowed")


@invariant(
    "MANIFEST-026",
    "AMB-31",
    about="manifest",
    severity="warning",
    remedy="`memwal table repair` points the hint at the newest version.",
)
def the_hint_names_a_version(view: RegionView) -> Iterator[Violation]:
    """The version hint, if there is one, can be read and names a manifest version that exists, or one above them."""
    if not view.numbers or paths.VERSION_HINT not in view.names:
        return
    if view.hint is None:
        yield objection(view.io.path(paths.VERSION_HINT), "the hint cannot be read")
    elif view.hint not in view.numbers and view.hint < view.numbers[-1]:
        missing = view.io.path(paths.manifest(view.hint))
        yield objection(missing, f"the hint names version {view.hint}, which is not there", "AMB-31")


@invariant(
    "MANIFEST-026",
    "AMB-31",
    about="manifest",
    severity="warning",
    remedy="If a version above the newest one was lost, restore it from a backup of the store; if none was, `memwal "
    "repair` points the hint at the newest version.",
)
def the_hint_is_never_ahead(view: RegionView) -> Iterator[Violation]:
    """The version hint names no version above the newest: it is written when the version is there."""
    if view.numbers and view.hint is not None and view.hint > view.numbers[-1]:
        missing = view.io.path(paths.manifest(view.hint))
        yield objection(missing, f"the hint names version {view.hint}, and {view.numbers[-1]} is the newest")


@invariant(
    "MANIFEST-007",
    "MANIFEST-009",
    "MANIFEST-014",
    "MANIFEST-005",
    "REGION-011",
    "AMB-29",
    about="manifest",
    remedy=_STOP,
)
def manifests_never_go_back(a: RegionManifest, b: RegionManifest, path: str) -> Iterator[Violation]:
    """Epoch, replay pointer and current generation never decrease; the region's spec never changes."""
    for clause, name in (
        ("MANIFEST-007", "epoch"),
        ("MANIFEST-009", "position_replay_after"),
        ("MANIFEST-014", "generation_current"),
    ):
        before, after = getattr(a, name), getattr(b, name)
        if after < before:
            yield objection(path, f"{name} goes from {before} to {after} in version {b.version}", clause)
    if b.spec_id != a.spec_id:
        yield objection(path, f"spec {a.spec_id} becomes {b.spec_id} in version {b.version}", "REGION-011")


@invariant(
    "MANIFEST-040",
    "MANIFEST-034",
    "MANIFEST-035",
    "MANIFEST-036",
    "MANIFEST-037",
    "FENCE-005",
    "FLUSH-011",
    "FLUSH-012",
    "FLUSH-014",
    "AMB-34",
    about="manifest",
    remedy=_STOP,
)
def each_manifest_step_has_a_trigger(a: RegionManifest, b: RegionManifest, path: str) -> Iterator[Violation]:
    """Each version differs from the one before by the fields of exactly one trigger; the last-seen hint may rise."""
    if not transitions.explained(a, b):
        names = ", ".join(trigger.name for trigger in transitions.TRIGGERS)
        yield objection(path, f"version {b.version} matches none of {names}")


@invariant(
    "AMB-34",
    "MANIFEST-036",
    "AMB-33",
    about="manifest",
    severity="warning",
    remedy="No row depends on the hint. Find out which process wrote this version: it did not look at the one before.",
)
def the_last_seen_hint_never_falls(a: RegionManifest, b: RegionManifest, path: str) -> Iterator[Violation]:
    """No version has a lower last-seen hint than the one before: an update may only raise it."""
    before, after = a.position_last_seen, b.position_last_seen
    if after < before:
        yield objection(path, f"position_last_seen goes from {before} to {after} in version {b.version}")


@invariant(
    "AMB-35",
    "GEN-002",
    about="manifest",
    severity="warning",
    remedy="Find out what created the region: another history may have been started over an older one.",
)
def the_first_manifest_is_fresh(manifest: RegionManifest, path: str, revision: Revision) -> Iterator[Violation]:
    """Version 1 is of a new region, or says of earlier claims and of a flush, as the texts' appendix 1 has it."""
    if manifest.version != 1 or (manifest.epoch > revision.epoch_first and manifest.position_replay_after):
        return
    wanted = transitions.fresh(revision)
    for name in ("epoch", "position_replay_after", "generation_current", "flushed"):
        found = getattr(manifest, name)
        unclaimed = name == "epoch" and found < wanted[name]  # created at epoch 0, and claimed by the next version
        if found != wanted[name] and not unclaimed:
            yield objection(path, f"{name} of version 1 is {found}, not {wanted[name]}")


def look_at(manifest: RegionManifest, path: str, revision: Revision) -> list[Violation]:
    """What is wrong with one manifest by itself."""
    return the_first_manifest_is_fresh(manifest, path, revision)


def look_at_step(a: RegionManifest, b: RegionManifest, path: str) -> list[Violation]:
    """What is wrong with the step from ``a`` to ``b``, the next version, at ``path``."""
    return [
        *manifests_never_go_back(a, b, path),
        *each_manifest_step_has_a_trigger(a, b, path),
        *the_last_seen_hint_never_falls(a, b, path),
    ]
