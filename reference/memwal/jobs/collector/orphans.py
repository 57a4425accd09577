"""Folders of generations that no region manifest lists: left by failed flushes and by collectors that stopped.

**Why this is safe.** A folder that is being flushed looks the same, and its number tells them apart (AMB-94). Flushes
commit in the order of their numbers, so that an attempt for generation g cannot be committed once the current
generation is above g. The manifest is read after the folders were listed, so that a commit between the two is seen.
That a generation below the current one was committed shows in its entry, under the name of another folder, or in the
merge progress; without either a writer that flushes out of order may still be at it, and the folder stays.

What a collector unlisted is eligible for good (see `generations`), and so its folder is an orphan like any other: this
is also where the folders of collected generations are deleted, by whichever collector comes first.

Source: MemWAL revision A, "Garbage Collector".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ... import paths
from ...clauses import implements
from ...codec.region_manifest import RegionManifest
from ...effects import Io
from ...errors import NotFound
from ...ids import Generation, Milliseconds, RegionId
from ...table.state import latest, timestamp_ms
from .decision import Eligibility, KeepRule, lasting
from .generations import RULES as GENERATIONS
from .generations import Candidate, Folders, Needs
from .policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A folder that was listed before ``manifest`` was read, and is not in it."""

    region: RegionId
    folder: str
    generation: Generation
    manifest: RegionManifest
    needs: Needs
    remembered: Folders
    """What the region snapshots of retained versions list."""
    made_ms: Milliseconds | None
    """Time stamp of the table in it; None without one, and where no age matters."""
    now_ms: Milliseconds

    @property
    def policy(self) -> Policy:
        return self.needs.policy


@implements("GC-009", "GC-014", "AMB-94")
def _under_way(orphan: Orphan) -> str:
    if not orphan.needs.interpretation.orphans_by_generation:
        return ""
    current = orphan.manifest.generation_current
    return f"a flush may still commit it: the current generation is {current}" if orphan.generation >= current else ""


def _out_of_order(orphan: Orphan) -> str:
    if not orphan.needs.interpretation.orphans_by_generation:
        return ""
    listed = any(found.generation == orphan.generation for found in orphan.manifest.flushed)
    if listed or orphan.generation <= orphan.needs.newest.mem_wal.progress(orphan.region):
        return ""
    return f"generation {orphan.generation} is neither listed nor merged: a flush may be out of order"


@implements("GC-003")
def _remembered(orphan: Orphan) -> str:
    if (orphan.region, orphan.folder) not in orphan.remembered:
        return ""
    found = Candidate(region=orphan.region, generation=orphan.generation, folder=orphan.folder, needs=orphan.needs)
    decision = GENERATIONS.decide(found, orphan.folder, "")
    return "" if decision.collected else f"a retained table version lists it: {decision.reason}"


def _young(orphan: Orphan) -> str:
    age = orphan.policy.orphan_age_ms
    if orphan.made_ms is None or orphan.made_ms <= orphan.now_ms - age:
        return ""
    return f"the table in it is younger than {lasting(age)}"


RULES: Eligibility[Orphan] = Eligibility(
    kind="orphan",
    what="generation folders that no region manifest lists",
    rules=(
        KeepRule(
            name="flush",
            stays="from the current generation on: a flush may be under way",
            clauses=("GC-009", "GC-014", "AMB-94"),
            reason=_under_way,
        ),
        KeepRule(
            name="order",
            stays="if its generation is below the current one, and neither merged nor listed in another folder",
            clauses=("GC-007", "AMB-41", "AMB-94"),
            reason=_out_of_order,
        ),
        KeepRule(
            name="remembered",
            stays="while the region snapshot of a retained table version lists it and a generation would stay",
            clauses=("GC-003", "AMB-91"),
            reason=_remembered,
        ),
        KeepRule(
            name="age",
            stays="while the table in it is younger than orphan_age_ms",
            clauses=("AMB-94",),
            reason=_young,
        ),
    ),
)


def gone(orphan: Orphan) -> str:
    """Why an orphan goes that no row keeps."""
    return f"not listed, and below the current generation {orphan.manifest.generation_current}"


async def generation_folders(region: Io) -> tuple[str, ...]:
    """The generation folders of the region at ``region``, sorted."""
    return tuple(f for f in await region.list_folders() if paths.generation_number(f) is not None)


async def made_ms(region: Io, folder: str, policy: Policy) -> Milliseconds | None:
    """When the table in ``folder`` was made; None if it has none, or if no age is asked for."""
    if not policy.orphan_age_ms:
        return None
    try:
        return timestamp_ms(await latest(region.child(folder)))
    except NotFound:
        return None


@implements("AMB-93")
async def objects(region: Io, folder: str) -> tuple[str, ...]:
    """Objects of a generation's folder in the order of deletion: table versions first, then half of it cannot open."""
    found = await region.list(folder)
    return tuple(sorted(found, key=lambda name: (not name.startswith(f"{folder}/{paths.VERSIONS}/"), name)))


def unlisted(folders: Collection[str], manifest: RegionManifest) -> tuple[str, ...]:
    """Those of ``folders`` that ``manifest`` does not list."""
    listed = {found.path for found in manifest.flushed}
    return tuple(folder for folder in folders if folder not in listed)
