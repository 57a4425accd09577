"""Old versions of region manifests.

**Why this is safe.** The newest versions always stay, at least two, and so does what the hint names; the hint is moved
to the newest version before the one goes that it named. Versions go in ascending order, so that what is left after any
single deletion is one block up to the newest: a reader that starts at the hint, and one that lists, find the same.

Taking a version away frees its number, and a process that was delayed before creating it would succeed there. So this
is done only where the table's config says that a writer of a version confirms that it is the newest (AMB-30), and
that readers look for the version below the one that they found.

Source: MemWAL revision A, "Garbage Collector"; revisions A and B, "Region Manifest Versioning".
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import paths
from ...clauses import implements
from ...codec.region_manifest import RegionManifest
from ...effects import Io
from ...ids import ManifestVersion
from ...region import manifest as region_manifests
from ...revisions import CONFIG_MANIFEST_COLLECTION
from ...table.state import TableState
from .decision import Eligibility, KeepRule
from .ledger import Ledger
from .policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a region manifest."""

    newer: int
    """How many versions above it were found."""
    hinted: ManifestVersion | None
    """The version that the hint names, after it was moved if need be; None for a damaged hint."""
    below_hint: bool
    """Whether it may go as far as the hint is concerned."""
    allowed: bool
    """Whether the table's config allows to delete versions."""
    policy: Policy


def _counted(version: Version) -> str:
    keep = version.policy.retain_manifests
    return f"among the newest {keep}" if version.newer < keep else ""


def _not_allowed(version: Version) -> str:
    return "" if version.allowed else f"config {CONFIG_MANIFEST_COLLECTION} is not on: commits are not confirmed"


def _hinted(version: Version) -> str:
    return "" if version.below_hint else f"the hint names version {version.hinted}"


RULES: Eligibility[Version] = Eligibility(
    kind="manifest",
    what="region manifest versions",
    rules=(
        KeepRule(name="count", stays="among the newest retain_manifests, at least 2", clauses=("GC-008", "AMB-96"),
             reason=_counted),
        KeepRule(name="consent", stays=f"unless the table config has {CONFIG_MANIFEST_COLLECTION} = on",
             clauses=("AMB-30",), reason=_not_allowed),
        KeepRule(name="hint", stays="from the version on that the hint names, once it was moved forward",
             clauses=("AMB-31", "AMB-32", "AMB-96"), reason=_hinted),
    ),
)  # fmt: skip


@implements("GC-008", "AMB-30", "AMB-31", "AMB-32", "AMB-96")
async def collect_manifests(
    region: Io, manifest: RegionManifest, newest: TableState, policy: Policy, ledger: Ledger, *, another: bool
) -> None:
    """Decide on every manifest version of the region at ``region``, and delete those that go, in ascending order.

    ``another``: in a dry run, whether there would be one more version by now.
    """
    found = await region_manifests.versions(region)
    listed = (*found, ManifestVersion(found[-1] + 1)) if another else found
    allowed = newest.collects_manifests
    kept = listed[-policy.retain_manifests :]
    hinted = await region_manifests.hinted(region)
    if allowed and len(kept) < len(listed) and (hinted is None or hinted < kept[0]):
        if not ledger.dry_run:
            await region_manifests.put_hint(region, kept[-1])
            hinted = await region_manifests.hinted(region)
        else:
            hinted = kept[-1]
    going = region_manifests.collectable(listed, hinted, policy.retain_manifests)
    relative = paths.region(manifest.region_id)
    for place, version in enumerate(found):
        one = Version(
            newer=len(listed) - 1 - place,
            hinted=hinted,
            below_hint=version in going,
            allowed=allowed,
            policy=policy,
        )
        name = paths.manifest(version)
        decision = RULES.decide(one, f"{relative}/{name}", f"beyond the newest {policy.retain_manifests}")
        await ledger.carry_out(region, decision, (name,))
