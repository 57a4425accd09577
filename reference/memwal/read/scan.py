"""The LSM merging read: newest row per key over base table, generations and memory.

Source: MemWAL revisions A and B, "Reader Expectations"; AMB-88, 99, 100, 101, 102, 103, 111, 118, 140.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, Fenced, InvalidArgument, NotFound, Outcome
from ..ids import Generation, RegionId
from ..index import regions, snapshot
from ..keys import among, newest, without
from ..region import manifest as manifests
from ..region.rows import Rows
from ..revisions import STRICT, Interpretation
from ..table import read
from ..table.state import TableState, latest, load
from .sources import MemoryView, generation_rows, unmerged
from .tail import wal_tail

ATTEMPTS = 20
"""How often a read starts again because the table moved under it."""

Keep = Callable[[pa.Table], pa.Table]
"""A filter over whole rows, applied above deduplication (AMB-99)."""


class ReadRaced(Outcome):
    """The table kept changing while it was read, more often than `ATTEMPTS` times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One consistent choice of sources: a base version, and the region states that fit it."""

    base: TableState
    manifests: Mapping[RegionId, RegionManifest]
    live: bool
    """Whether the states are the regions' newest, so that what is in their WAL or memory belongs to the view."""


@implements("READ-008", "AMB-101", "AMB-103")
async def strong_view(io: Io, interpretation: Interpretation = STRICT) -> View:
    """Region manifests first, the newest base version after them; validated, and loaded again until it holds.

    For each region every generation between the base's progress and the current one has to be listed. A merge and a
    collection between the two loads would break that, and a row would be in neither source.
    """
    for _ in range(ATTEMPTS):
        base = await latest(io)
        live = await regions.discover(io, base.revision, interpretation)
        if interpretation.regions_before_base:
            base = await latest(io)
        details = base.mem_wal
        if not interpretation.regions_before_base or all(_complete(m, details.progress(r)) for r, m in live.items()):
            return View(base=base, manifests=live, live=True)
        await io.note("read_again", reason="a generation is neither listed nor merged in the base version")
    raise ReadRaced(path=io.root, attempts=ATTEMPTS)


def _complete(manifest: RegionManifest, progress: Generation) -> bool:
    listed = {g.generation for g in manifest.flushed}
    return all(g in listed for g in range(progress + 1, manifest.generation_current))


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


@implements("READ-001", "READ-002", "READ-003", "READ-004", "READ-006", "READ-007", "READ-014", "READ-015", "READ-016")
async def scan(
    io: Io,
    *,
    columns: Sequence[str] | None = None,
    keep: Keep | None = None,
    keys: pa.Table | None = None,
    version: TableState | None = None,
    memory: Sequence[MemoryView] = (),
    interpretation: Interpretation = STRICT,
) -> pa.Table:
    """The merged rows: one per key, the newest; order unspecified, ``columns`` in the order asked for.

    ``version`` None reads strongly: manifests, newest base, and above them the ``memory`` of open writers or, for
    regions without one, the WAL after the replay pointer. A version reads eventually, from its own snapshot.
    ``keys`` (a table of the key columns) restricts to those keys below deduplication; ``keep`` filters above it.

    A generation that is gone is looked for in a newer state. One that this state lists too is lost and not collected,
    since a collector takes it from the manifest first: that is an `ArtifactError`. Raises `NotFound` for a version that
    was expired while it was read.
    """
    gone: set[str] = set()
    for _ in range(ATTEMPTS):
        view = await (strong_view(io, interpretation) if version is None else eventual_view(io, version))
        try:
            return await _merged(io, view, columns, keep, keys, memory, interpretation)
        except _Raced as raced:
            if version is not None:
                await _check_retained(io, version)
                raise ArtifactError("READ-012", raced.path, "the version's snapshot lists it, and it is gone") from None
            if raced.path in gone:
                reason = "the region manifest lists it, it is not merged, and it is gone"
                raise ArtifactError("READ-012", raced.path, reason) from None
            if raced.generation:
                gone.add(raced.path)
            await io.note("read_again", reason=f"{raced.path} was collected")
        except ArtifactError as absent:
            if version is not None:
                await _check_retained(io, version)
                raise
            if (await latest(io)).version == view.base.version:
                raise
            await io.note("read_again", reason=f"version {view.base.version} was replaced: {absent}")
    raise ReadRaced(path=io.root, attempts=ATTEMPTS)


@implements("AMB-92")
async def _check_retained(io: Io, version: TableState) -> None:
    """Raise `NotFound` if ``version`` was expired while it was read: then what it names may be collected."""
    await load(io, version.version)


class _Raced(Exception):
    """A source that the view needs is gone: the view is older than the table."""

    def __init__(self, path: str, *, generation: bool) -> None:
        self.path, self.generation = path, generation


async def _merged(
    io: Io,
    view: View,
    columns: Sequence[str] | None,
    keep: Keep | None,
    keys: pa.Table | None,
    memory: Sequence[MemoryView],
    interpretation: Interpretation,
) -> pa.Table:
    base, key = view.base, list(view.base.primary_key)
    names = list(base.schema.names if columns is None else columns)
    unknown = [n for n in names if n not in base.schema.names]
    if unknown:
        raise InvalidArgument(f"no such columns: {unknown}; there are {base.schema.names}")
    needed = list(base.schema.names) if keep else list(dict.fromkeys([*key, *names]))
    below = keep if keep and not interpretation.filter_above_deduplication else None
    rows = Rows(
        table=pa.schema([base.schema.field(n) for n in needed]),
        key=base.primary_key,
        revision=base.revision,
        field_ids=tuple(base.field_ids.items()),
    )
    held = {m.region_id: m for m in memory}
    out: list[pa.Table] = []
    shadows: list[pa.Table] = []
    for region in sorted({*view.manifests, *held}):
        sources = await _region_sources(io, view, region, held.get(region), rows, interpretation)
        if not sources:
            continue
        stacked = pa.concat_tables(sources)
        if keys is not None:
            stacked = among(stacked, keys)
        if below:
            stacked = below(stacked)
        last = stacked.take(pa.array(newest(stacked, key))) if key else stacked
        live, _ = rows.split(last)
        out.append(live)
        shadows.append(last.select(key))
    from_base = await read.scan(io, base, needed)
    if keys is not None:
        from_base = among(from_base, keys)
    if below:
        from_base = below(from_base)
    if key:
        from_base = from_base.take(pa.array(newest(from_base, key))) if base.rows else from_base
        for shadow in shadows:
            from_base = without(from_base, shadow)
    plain = rows.table.remove_metadata()
    merged = pa.concat_tables([t.replace_schema_metadata(None).cast(plain) for t in (from_base, *out)])
    return (keep(merged) if keep and not below else merged).select(names)


@implements("READ-005", "READ-012", "AMB-88", "AMB-100", "AMB-102", "AMB-117", "AMB-140")
async def _region_sources(
    io: Io,
    view: View,
    region: RegionId,
    memory: MemoryView | None,
    rows: Rows,
    interpretation: Interpretation,
) -> list[pa.Table]:
    """Rows of a region above the base, oldest source first, rows of each in write order."""
    manifest = view.manifests.get(region)
    progress = view.base.mem_wal.progress(region)
    floor = progress if interpretation.merged_out_of_resolution else Generation(0)
    listed = unmerged(manifest, floor) if manifest else ()
    sources: list[pa.Table] = []
    for generation in listed:
        folder = manifests.folder(io, region)
        try:
            table = await generation_rows(folder, generation.path, view.base, rows.plain.names)
        except NotFound:
            if not interpretation.skip_only_merged or generation.generation <= progress:
                continue
            raise _Raced(folder.path(generation.path), generation=True) from None
        sources.append(rows.restored(table, folder.path(generation.path)))
    if memory is not None:
        if manifest is not None and memory.epoch < manifest.epoch:
            raise Fenced(region, memory.epoch, manifest.epoch)
        floor = manifest.generation_current if manifest else Generation(0)
        unflushed = [table for generation, table in memory.tables if generation >= floor]
        if any(set(rows.plain.names) - set(table.schema.names) for table in unflushed):
            raise _Raced(f"memory of {region}", generation=False)  # columns were added: its writer is fenced
        sources += [rows.restored(table, f"memory of {region}", narrowed=True) for table in unflushed]
    elif view.live and manifest is not None:
        folder = manifests.folder(io, region)
        tail = await wal_tail(folder, manifest, rows, view.base.revision, interpretation)
        if tail is None:
            raise _Raced(folder.path("wal"), generation=False)
        sources.append(tail)
    return sources
