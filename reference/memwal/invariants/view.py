"""What the invariants of one region look at: everything in its folder but rows, loaded as far as it can be.

Objects that cannot be loaded are kept as `Violation`, so that the check continues with the rest. Memory: a small record
per object, and one object's content at a time, or that of `coroutines.MOST_AHEAD` where requests are made at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from .. import paths
from ..codec import hint, wal
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..coroutines import ahead, concurrently
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import ManifestVersion, RegionId, WalPosition
from ..region import manifest as manifests
from ..region import wal_folder
from ..region.recovery import replay_start
from ..region.rows import TOMBSTONE, Rows
from ..revisions import Revision
from ..violations import Violation, objection
from .finding import attempted
from .loading import opened
from .manifests import look_at, look_at_step
from .seen import GenerationView, RegionView, SeenEntry


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
        generations=tuple(await concurrently(io, [partial(_generation, io, one, names) for one in listed])),
    )


def _manifest_version(name: str) -> ManifestVersion | None:
    return paths.manifest_version(name) if name.startswith("manifest/") else None


async def _manifests(
    io: Io, numbers: Iterable[ManifestVersion], revision: Revision
) -> tuple[RegionManifest | None, list[Violation], list[Violation]]:
    """The newest readable manifest, those that are not, and what is wrong with single ones and with steps."""
    newest: RegionManifest | None = None
    damaged: list[Violation] = []
    found: list[Violation] = []

    async def look(number: ManifestVersion) -> tuple[str, RegionManifest | Violation]:
        path = io.path(paths.manifest(number))
        return path, await attempted(manifests.read(io, number, revision), path)

    async for path, seen in ahead(io, [partial(look, number) for number in numbers]):
        if isinstance(seen, Violation):
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
) -> tuple[list[SeenEntry], list[Violation]]:
    entries: list[SeenEntry] = []
    damaged: list[Violation] = []

    async def look(position: WalPosition) -> SeenEntry | Violation:
        name = paths.wal(position, revision.wal_suffix)
        return await attempted(_entry(io, name, position, revision, rows), io.path(name))

    async for seen in ahead(io, [partial(look, position) for position in positions]):
        if isinstance(seen, Violation):
            damaged.append(seen)
        else:
            entries.append(seen)
    return entries, damaged


async def _entry(io: Io, name: str, position: WalPosition, revision: Revision, rows: Rows | None) -> SeenEntry:
    entry = wal.decode(await io.get(name), revision, io.path(name))
    misfit = ""
    if rows is not None:
        try:
            rows.restored(entry.rows, io.path(name))
        except ArtifactError as error:
            misfit = error.reason
    return SeenEntry(
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
        missing = objection(io.path(paths.VERSIONS), "there is no table version")
        return GenerationView(io=io, listed=listed, names=held, state=None, damaged=missing)
    seen = await attempted(opened(io, max(versions)), io.path(paths.table_manifest(max(versions))))
    if isinstance(seen, Violation):
        return GenerationView(io=io, listed=listed, names=held, state=None, damaged=seen)
    return GenerationView(io=io, listed=listed, names=held, state=seen)
