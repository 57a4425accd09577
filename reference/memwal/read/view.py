"""One consistent choice of sources, and reading again when the table moved meanwhile.

Source: MemWAL revisions A and B, "Reader Consistency".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .. import paths
from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, Outcome
from ..ids import Generation, ManifestVersion, Milliseconds, RegionId, WalPosition
from ..index import regions, snapshot
from ..region import manifest as manifests
from ..table.state import TableState, latest, load
from .sources import MemoryView

T = TypeVar("T")

Found = Callable[[TableState], Awaitable[tuple[Mapping[RegionId, RegionManifest], int]]]
"""The newest manifests of some regions of a table, and how many others there are, whose manifests were not read.

It is given a base version that is not newer than they.
"""

Lacking = tuple[RegionId, ManifestVersion, Generation, Generation]
"""A region, the version of its manifest, its merge progress, and the first generation that is in neither."""

ATTEMPTS = 20
"""How often a read starts again because the table moved under it."""
_PAUSE_MS, _PAUSE_MOST_MS = 10, 1_000
"""Pauses between attempts: doubling from the one to the other, about 14 seconds together."""
_JITTER = 1 << 16


class ReadRaced(Outcome):
    """The table kept changing while it was read, more often than `ATTEMPTS` times; ``path``: what was gone last."""

    SENTENCE = "the table kept changing while it was read, and {path} was gone at attempt {attempts}: read again"

    def __init__(self, path: str, attempts: int) -> None:
        super().__init__(path=path, attempts=attempts)
        self.path = path


class Raced(Exception):
    """A source that the view needs is gone: the view is older than the table."""

    def __init__(self, path: str, *, generation: bool) -> None:
        self.path, self.generation = path, generation


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One consistent choice of sources: a base version, and the region states that fit it."""

    base: TableState
    manifests: Mapping[RegionId, RegionManifest]
    live: bool
    """Whether the states are the regions' newest, so that what is in their WAL or memory belongs to the view."""
    ends: Mapping[RegionId, WalPosition] = field(default_factory=dict)
    """By region, the first position of its WAL that does not belong to the view; of others, where it ends when read."""
    passed_by: int = 0
    """Regions whose manifests were not read, since they hold nothing of what is asked for."""


@implements("READ-008", "AMB-101", "AMB-103")
async def strong_view(io: Io, found: Found | None = None) -> View:
    """Region manifests first, the newest base version after them; validated, and loaded again until it holds.

    ``found``: the regions to look at; None: all.
    For each region every generation between the base's progress and the current one has to be listed. A merge and a
    collection between the two loads would break that, and a row would be in neither source. A region that lacks one
    twice in the same state has lost it: `ArtifactError`.
    """
    lacking: set[Lacking] = set()
    for attempt in range(ATTEMPTS):
        await _paused(io, attempt)
        base = await latest(io)
        live, others = await (every(io, base) if found is None else found(base))
        # AMB-101, loading order: a base that is newer than the regions has at least what they do not list any more.
        if io.interpretation.regions_before_base:
            base = await latest(io)
        before, lacking = lacking, {lack for manifest in live.values() if (lack := _lacking(manifest, base))}
        if not io.interpretation.regions_before_base or not lacking:
            return View(base=base, manifests=live, live=True, passed_by=others)
        for region, version, progress, generation in sorted(lacking & before):
            path = manifests.folder(io, region).path(paths.manifest(version))
            reason = f"generation {generation} is neither listed nor merged: progress is {progress}"
            raise ArtifactError("MERGE-001", path, f"{reason}; `memwal table verify` says what can be done")
        await io.note("read_again", reason="a generation is neither listed nor merged in the base version")
    raise ReadRaced(path=io.root, attempts=ATTEMPTS)


async def every(io: Io, base: TableState) -> tuple[Mapping[RegionId, RegionManifest], int]:
    """The newest manifests of all regions."""
    return await regions.discover(io, base.revision), 0


def _lacking(manifest: RegionManifest, base: TableState) -> Lacking | None:
    progress = base.mem_wal.progress(manifest.region_id)
    # READ-008, strong reads: each generation between progress and current one is in exactly one of the two.
    lost = next(manifest.unlisted(progress), None)
    return None if lost is None else (manifest.region_id, manifest.version, progress, lost)


@implements("READ-009", "READ-010", "READ-013", "AMB-115")
async def eventual_view(io: Io, base: TableState) -> View:
    """Base and region snapshot of one table version; repeatable for old versions.

    Raises `NotFound` for a version that was expired meanwhile.
    """
    try:
        rows = await snapshot.load(io, base)
    except ArtifactError:
        await _check_retained(io, base)
        raise
    known = {row.region_id: row.manifest for row in rows if row.manifest is not None}
    return View(base=base, manifests=known, live=False)


@implements("AMB-102")
async def joins(io: Io, base: TableState, memory: Sequence[MemoryView]) -> bool:
    """Whether nothing lies between the view of ``base`` (see `eventual_view`) and the ``memory`` of open writers.

    Every generation above merge progress and below what is in memory has to be listed. One that is not was flushed
    since the snapshot was built, and its rows would be missing below newer ones.
    """
    known = (await eventual_view(io, base)).manifests if memory else {}
    for held in memory:
        manifest, (first, _) = known.get(held.region_id), held.tables[0]
        listed = {each.generation for each in manifest.flushed} if manifest is not None else set()
        if not listed.issuperset(range(base.mem_wal.progress(held.region_id) + 1, first)):
            return False
    return True


async def over(
    io: Io, version: TableState | None, body: Callable[[View], Awaitable[T]], *, found: Found | None = None
) -> T:
    """What ``body`` reads from one view: the newest for ``version`` None, else that version's own.

    ``found``: the regions that the newest view is of; None: all.
    A generation or a file that is gone is looked for in a newer state. What this state names too is lost and not
    collected, since a collector takes it from there first: that is an `ArtifactError`, and else it was a race.
    Raises `NotFound` for a version that was expired while it was read, and `ReadRaced` after `ATTEMPTS` races.
    """
    gone: set[str] = set()
    last = io.root
    for attempt in range(ATTEMPTS):
        await _paused(io, attempt)
        view = await (strong_view(io, found) if version is None else eventual_view(io, version))
        try:
            return await body(view)
        except Raced as raced:
            if version is not None:
                raise await too_late(io, raced, version) from None
            # A newer state names it too, and collectors take it from there first: it was not collected.
            if raced.path in gone:
                raise _lost(raced) from None
            # A MemTable or a WAL tail that went was flushed: it never has the same name twice.
            if raced.generation:
                gone.add(raced.path)
            last = raced.path
            await io.note("read_again", reason=f"{raced.path} was collected")
        except ArtifactError as absent:
            if version is not None:
                await _check_retained(io, version)
                raise
            # The newest version names the file: it is damage. An older one may name what was collected.
            if absent.path in gone or (await latest(io)).version == view.base.version:
                raise
            gone.add(absent.path)
            last = absent.path
            await io.note("read_again", reason=f"version {view.base.version} was replaced: {absent}")
    raise ReadRaced(path=last, attempts=ATTEMPTS)


@implements("READ-012", "AMB-92")
async def too_late(io: Io, raced: Raced, version: TableState | None) -> ReadRaced | ArtifactError:
    """What to raise for a read that ``raced`` and cannot start again: a race, or that the generation is lost.

    Raises `NotFound` for a version that was expired while it was read.
    """
    if version is not None:
        await _check_retained(io, version)
        return ArtifactError("READ-012", raced.path, "the version's snapshot lists it, and it is gone")
    view = await strong_view(io)
    unmerged = (
        manifests.folder(io, region).path(listed.path)
        for region, manifest in view.manifests.items()
        for listed in manifest.flushed
        if listed.generation > view.base.mem_wal.progress(region)
    )
    return _lost(raced) if raced.generation and raced.path in unmerged else ReadRaced(path=raced.path, attempts=1)


def _lost(raced: Raced) -> ArtifactError:
    return ArtifactError("READ-012", raced.path, "the region manifest lists it, it is not merged, and it is gone")


async def _paused(io: Io, attempt: int) -> None:
    """Wait before ``attempt``, counted from 0: readers that raced with one job do not come back together."""
    if attempt == 0:
        return
    most_ms = min(_PAUSE_MOST_MS, _PAUSE_MS * 2 ** (attempt - 1))
    jitter = int(await io.random_hex(4), 16)
    await io.sleep(Milliseconds(most_ms // 2 + most_ms * jitter // (2 * _JITTER)))


@implements("AMB-92")
async def _check_retained(io: Io, version: TableState) -> None:
    """Raise `NotFound` if ``version`` was expired while it was read: then what it names may be collected."""
    await load(io, version.version)
