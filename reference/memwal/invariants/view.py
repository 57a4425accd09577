"""What the invariants of one region look at: everything in its folder but rows, loaded as far as it can be.

Objects that cannot be loaded are kept as `Damaged`, so that looking goes on with the rest. Memory: a small record per
object, and one object's content at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .. import paths
from ..codec import hint, wal
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import Epoch, Generation, ManifestVersion, RegionId, WalPosition
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.recovery import replay_start
from ..region.rows import TOMBSTONE, Rows
from ..revisions import Revision
from ..table.state import TableState
from .finding import Damaged, Violation, attempted
from .loading import opened
from .manifests import look_at, look_at_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A WAL entry that can be read, without its rows."""

    position: WalPosition
    path: str
    epoch: Epoch
    generation: Generation | None
    """Recorded generation (R)."""
    barrier: bool
    rows: int
    misfit: str = ""
    """Why its rows are not rows of the table; empty if they are, or if the table's schema is not known."""
    tombstones: bool = False
    """Whether it has the tombstone column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationView:
    """A listed generation."""

    io: Io
    listed: FlushedGeneration
    names: frozenset[str]
    """Objects in its folder, relative to it."""
    state: TableState | None
    """Its newest table version; None if that cannot be loaded."""
    damaged: Damaged | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionView:
    """A region as found in the store."""

    io: Io
    region_id: RegionId
    revision: Revision
    names: tuple[str, ...]
    """Objects in its folder, relative to it."""
    numbers: tuple[ManifestVersion, ...]
    """Manifest versions, readable or not, ascending."""
    newest: RegionManifest | None
    """The newest readable manifest."""
    damaged_manifests: tuple[Damaged, ...]
    found_in_manifests: tuple[Violation, ...]
    """What looking at single manifests and at each step between two of them found."""
    hint: ManifestVersion | None
    """The version that the hint names; None if there is none, or none that can be read."""
    positions: tuple[WalPosition, ...]
    """WAL positions, readable or not, ascending."""
    entries: tuple[Entry, ...]
    """WAL entries that were read, by position."""
    damaged_entries: tuple[Damaged, ...]
    generations: tuple[GenerationView, ...]
    """Listed generations in the order of the list."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Names directly below the region's folder that objects are in."""
        return tuple(sorted({name.partition("/")[0] for name in self.names}))

    @property
    def first_unflushed(self) -> WalPosition:
        """Position from which the WAL is needed; in R the entries of flushed generations above the pointer are not.

        The native writer's pointer may lag behind: replay goes by the generation in each entry.
        """
        if self.newest is None:
            return self.revision.first_position
        start = replay_start(self.newest, self.revision)
        if self.revision.entry_generation:
            current = self.newest.generation_current
            older = [e.position for e in self.entries if e.generation is not None and e.generation < current]
            start = max([start, *(WalPosition(position + 1) for position in older)])
        return start


async def view(
    table: Io, region: RegionId, revision: Revision, *, rows: Rows | None = None, recent: int | None = None
) -> RegionView:
    """Load what the invariants of ``region`` need.

    ``rows``: how rows of the table look, to see whether entries fit; None if that is not known. ``recent``: read that
    many of the newest manifests, and of the WAL only what is not flushed; None reads everything.
    """
    io = manifests.folder(table, region)
    names = await io.list()
    numbers = sorted(v for name in names if (v := _manifest_version(name)) is not None)
    newest, damaged, found = await _manifests(io, numbers[-recent:] if recent else numbers, revision)
    positions = wal_folder.positions(names, revision)
    start = replay_start(newest, revision) if newest is not None else revision.first_position
    if wal_folder.first_hole(min((start, *positions[:1])), positions):
        # A listing is not of one moment: where it had passed, the missing entry may have come before the next one.
        positions = wal_folder.positions(await io.list("wal"), revision)
    wanted = [p for p in positions if p >= start - 1] if recent else positions
    entries, damaged_entries = await _entries(io, wanted, revision, rows)
    listed = newest.flushed if newest is not None else ()
    return RegionView(
        io=io,
        region_id=region,
        revision=revision,
        names=names,
        numbers=tuple(numbers),
        newest=newest,
        damaged_manifests=tuple(damaged),
        found_in_manifests=tuple(found),
        hint=await _hint(io, names),
        positions=positions,
        entries=tuple(entries),
        damaged_entries=tuple(damaged_entries),
        generations=tuple([await _generation(io, one, names) for one in listed]),
    )


def _manifest_version(name: str) -> ManifestVersion | None:
    return paths.manifest_version(name) if name.startswith("manifest/") else None


async def _manifests(
    io: Io, numbers: Iterable[ManifestVersion], revision: Revision
) -> tuple[RegionManifest | None, list[Damaged], list[Violation]]:
    """The newest readable manifest, those that are not, and what is wrong with single ones and with steps."""
    newest: RegionManifest | None = None
    damaged: list[Damaged] = []
    found: list[Violation] = []
    for number in numbers:
        path = io.path(paths.manifest(number))
        seen = await attempted(manifests.read(io, number, revision), path)
        if isinstance(seen, Damaged):
            damaged.append(seen)
            continue
        found += look_at(seen, path, revision)
        if newest is not None and newest.version + 1 == seen.version:
            found += look_at_step(newest, seen, path)
        newest = seen
    return newest, damaged, found


async def _hint(io: Io, names: tuple[str, ...]) -> ManifestVersion | None:
    if paths.VERSION_HINT not in names:
        return None
    try:
        return hint.decode(await io.get(paths.VERSION_HINT), io.path(paths.VERSION_HINT))
    except NotFound:
        return None


async def _entries(
    io: Io, positions: Iterable[WalPosition], revision: Revision, rows: Rows | None
) -> tuple[list[Entry], list[Damaged]]:
    entries: list[Entry] = []
    damaged: list[Damaged] = []
    for position in positions:
        name = paths.wal(position, revision.wal_suffix)
        seen = await attempted(_entry(io, name, position, revision, rows), io.path(name))
        if isinstance(seen, Damaged):
            damaged.append(seen)
        else:
            entries.append(seen)
    return entries, damaged


async def _entry(io: Io, name: str, position: WalPosition, revision: Revision, rows: Rows | None) -> Entry:
    entry = wal.decode(await io.get(name), revision, io.path(name))
    misfit = ""
    if rows is not None:
        try:
            rows.restored(entry.rows, io.path(name))
        except ArtifactError as error:
            misfit = error.reason
    return Entry(
        position=position,
        path=io.path(name),
        epoch=entry.epoch,
        generation=entry.generation if revision.entry_generation else None,
        barrier=entry.barrier,
        rows=entry.rows.num_rows,
        misfit=misfit,
        tombstones=TOMBSTONE in entry.rows.schema.names,
    )


async def _generation(region: Io, listed: FlushedGeneration, names: tuple[str, ...]) -> GenerationView:
    io = region.child(listed.path)
    held = frozenset(name.removeprefix(f"{listed.path}/") for name in names if name.startswith(f"{listed.path}/"))
    versions = [v for name in held if name.startswith(f"{paths.VERSIONS}/") and (v := paths.table_version(name))]
    if not versions:
        missing = Damaged(io.path(paths.VERSIONS), "there is no table version")
        return GenerationView(io=io, listed=listed, names=held, state=None, damaged=missing)
    seen = await attempted(opened(io, max(versions)), io.path(paths.table_manifest(max(versions))))
    if isinstance(seen, Damaged):
        return GenerationView(io=io, listed=listed, names=held, state=None, damaged=seen)
    return GenerationView(io=io, listed=listed, names=held, state=seen)
