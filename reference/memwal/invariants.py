"""Named invariants over the artifacts of a table; each returns its counterexamples, never a boolean.

They read through the same requests as everything else, so that they run on a real store, on a simulated one at any
step, and on a folder that another implementation wrote. All are read-only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from . import paths
from .clauses import implements
from .codec import wal
from .codec.region_manifest import RegionManifest
from .effects import Io
from .errors import ArtifactError, NotFound
from .ids import RegionId, WalPosition
from .index import regions
from .region import manifest as manifests
from .region.recovery import replay_start
from .revisions import Revision
from .table.state import TableState, latest, load, versions


@dataclass(frozen=True, slots=True)
class Violation:
    """A counterexample."""

    invariant: str
    clause: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RegionView:
    """What the invariants of one region look at: all its manifest versions, ascending, and its WAL names."""

    io: Io
    region_id: RegionId
    revision: Revision
    versions: tuple[RegionManifest, ...]
    positions: tuple[WalPosition, ...]

    @property
    def newest(self) -> RegionManifest:
        return self.versions[-1]


async def view(table: Io, region: RegionId, revision: Revision) -> RegionView:
    """Load what the invariants of ``region`` need."""
    io = manifests.folder(table, region)
    numbers = sorted(v for name in await io.list("manifest") if (v := paths.manifest_version(name)) is not None)
    loaded = tuple([await manifests.read(io, number, revision) for number in numbers])
    found = sorted(p for n in await io.list("wal") if (p := paths.wal_position(n, revision.wal_suffix)) is not None)
    return RegionView(io, region, revision, loaded, tuple(found))


@implements("MANIFEST-020", "AMB-32")
async def manifest_versions_are_dense(view: RegionView) -> list[Violation]:
    """Retained manifest versions form one block."""
    numbers = [manifest.version for manifest in view.versions]
    return [
        Violation("manifest_versions_are_dense", "MANIFEST-020", view.io.root, f"version {a + 1} is missing before {b}")
        for a, b in zip(numbers, numbers[1:], strict=False)
        if b != a + 1
    ]


@implements("MANIFEST-007", "MANIFEST-009", "MANIFEST-014")
async def manifests_never_go_back(view: RegionView) -> list[Violation]:
    """Epoch, replay pointer and current generation never decrease; region spec and id never change."""
    found = []
    for a, b in zip(view.versions, view.versions[1:], strict=False):
        for clause, name in (
            ("MANIFEST-007", "epoch"),
            ("MANIFEST-009", "position_replay_after"),
            ("MANIFEST-014", "generation_current"),
        ):
            if getattr(b, name) < getattr(a, name):
                reason = f"{name} goes from {getattr(a, name)} to {getattr(b, name)} in version {b.version}"
                found.append(Violation("manifests_never_go_back", clause, view.io.root, reason))
        if b.spec_id != a.spec_id:
            reason = f"spec {a.spec_id} becomes {b.spec_id} in version {b.version}"
            found.append(Violation("manifests_never_go_back", "REGION-011", view.io.root, reason))
    return found


@implements("MANIFEST-034", "MANIFEST-035", "MANIFEST-036", "MANIFEST-037", "MANIFEST-040", "AMB-34")
async def each_manifest_step_has_a_trigger(view: RegionView) -> list[Violation]:
    """Each version differs from the one before by the fields of exactly one trigger; the hint may rise with any."""
    found = []
    for a, b in zip(view.versions, view.versions[1:], strict=False):
        if b.version != a.version + 1 or any(matches(a, b) for matches in TRIGGERS.values()):
            continue
        reason = f"version {b.version} matches none of {', '.join(TRIGGERS)}"
        found.append(Violation("each_manifest_step_has_a_trigger", "MANIFEST-040", view.io.root, reason))
    return found


def _same(a: RegionManifest, b: RegionManifest) -> bool:
    return replace(a, version=b.version, position_last_seen=b.position_last_seen) == b


def _is_flush(a: RegionManifest, b: RegionManifest) -> bool:
    return (
        b.flushed[:-1] == a.flushed
        and len(b.flushed) == len(a.flushed) + 1
        and b.flushed[-1].generation == a.generation_current
        and b.generation_current == a.generation_current + 1
        and _same(
            replace(
                a,
                position_replay_after=b.position_replay_after,
                generation_current=b.generation_current,
                flushed=b.flushed,
            ),
            b,
        )
    )


TRIGGERS: dict[str, Callable[[RegionManifest, RegionManifest], bool]] = {
    "claim": lambda a, b: _same(replace(a, epoch=b.epoch), b) and b.epoch == a.epoch + 1,
    "MemTable flush": _is_flush,
    "MemWAL index builder": _same,
    "garbage collector": lambda a, b: _same(replace(a, flushed=b.flushed), b) and set(b.flushed) < set(a.flushed),
}
"""What may make a new manifest version, and how the step looks."""


@implements("WAL-004", "WAL-005", "WAL-007", "AMB-14")
async def the_wal_has_no_hole(view: RegionView) -> list[Violation]:
    """Entries from the first retained one that is not flushed on are dense, and start where replay starts."""
    start = replay_start(view.newest, view.revision)
    above = [position for position in view.positions if position >= start]
    return [
        Violation("the_wal_has_no_hole", "WAL-007", view.io.root, f"entry {expected} is missing, entry {found} exists")
        for expected, found in enumerate(above, start)
        if expected != found
    ][:1]


@implements("FENCE-015", "WAL-011", "AMB-27")
async def wal_epochs_never_decrease(view: RegionView) -> list[Violation]:
    """Epochs along the WAL never decrease, and none is above the manifest's."""
    found, before = [], 0
    for position in view.positions:
        name = paths.wal(position, view.revision.wal_suffix)
        epoch = wal.decode(await view.io.get(name), view.revision, view.io.path(name)).epoch
        if epoch < before:
            reason = f"entry {position} has epoch {epoch} after {before}"
            found.append(Violation("wal_epochs_never_decrease", "FENCE-015", view.io.path(name), reason))
        if epoch > view.newest.epoch:
            reason = f"entry {position} has epoch {epoch}, the newest claim is {view.newest.epoch}"
            found.append(Violation("wal_epochs_never_decrease", "FENCE-015", view.io.path(name), reason))
        before = max(before, epoch)
    return found


@implements("FLUSH-013", "GEN-006", "GEN-008")
async def listed_generations_open(view: RegionView) -> list[Violation]:
    """Each listed generation is a table whose newest version can be loaded."""
    found = []
    for listed in view.newest.flushed:
        try:
            await latest(view.io.child(listed.path))
        except (NotFound, ArtifactError) as error:
            reason = f"generation {listed.generation}: {error}"
            found.append(Violation("listed_generations_open", "FLUSH-013", view.io.path(listed.path), reason))
    return found


REGION_INVARIANTS: dict[str, Callable[[RegionView], Awaitable[list[Violation]]]] = {
    check.__name__: check
    for check in (
        manifest_versions_are_dense,
        manifests_never_go_back,
        each_manifest_step_has_a_trigger,
        the_wal_has_no_hole,
        wal_epochs_never_decrease,
        listed_generations_open,
    )
}
"""Every invariant of one region, by name."""


@implements("MERGE-018", "MERGE-001")
async def merge_progress_never_goes_back(table: Io) -> list[Violation]:
    """Along the retained table versions merge progress of no region decreases, and none exceeds what was flushed."""
    found: list[Violation] = []
    before: TableState | None = None
    for number in await versions(table):
        state = await load(table, number)
        if before is not None and before.mem_wal_entry is not None and state.mem_wal_entry is not None:
            for region, generation in before.mem_wal.merged:
                progress = state.mem_wal.progress(region)
                if progress < generation:
                    reason = f"progress of {region} goes from {generation} to {progress}"
                    found.append(Violation("merge_progress_never_goes_back", "MERGE-018", state.path, reason))
        before = state
    return found


async def check(table: Io) -> list[Violation]:
    """All invariants over the table at ``table``; empty if they hold. Raises `ArtifactError` for damaged bytes."""
    state = await latest(table)
    found = await merge_progress_never_goes_back(table)
    for region in await regions.discover(table, state.revision):
        seen = await view(table, region, state.revision)
        for invariant in REGION_INVARIANTS.values():
            found += await invariant(seen)
    return found
