"""The LSM merging read: newest row per key over base table, generations and memory.

Source: MemWAL revisions A and B, "Reader Expectations"; AMB-88, 99, 100, 101, 102, 103, 111, 118, 140.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ..clauses import implements
from ..effects import Io
from ..errors import Fenced, NotFound
from ..ids import Generation, RegionId
from ..keys import among, newest, without
from ..region import manifest as manifests
from ..region.rows import Rows
from ..revisions import STRICT, Interpretation
from ..table import read
from ..table.schema import check_columns
from ..table.state import TableState
from .predicates import NOTHING, Predicate
from .pruning import narrowed
from .sources import MemoryView, generation_rows, unmerged
from .tail import wal_tail
from .view import Raced, ReadRaced, View, eventual_view, over, strong_view

__all__ = ["Keep", "ReadRaced", "View", "eventual_view", "scan", "strong_view"]

Keep = Callable[[pa.Table], pa.Table]
"""A filter over whole rows, applied above deduplication (AMB-99)."""


@implements("READ-001", "READ-002", "READ-003", "READ-004", "READ-006", "READ-007", "READ-014", "READ-015", "READ-016")
async def scan(
    io: Io,
    *,
    columns: Sequence[str] | None = None,
    keep: Keep | None = None,
    keys: pa.Table | None = None,
    version: TableState | None = None,
    memory: Sequence[MemoryView] = (),
    predicate: Predicate = NOTHING,
    interpretation: Interpretation = STRICT,
) -> pa.Table:
    """The merged rows: one per key, the newest; order unspecified, ``columns`` in the order asked for.

    ``version`` None reads strongly: manifests, newest base, and above them the ``memory`` of open writers or, for
    regions without one, the WAL after the replay pointer. A version reads eventually, from its own snapshot.
    ``keys`` (a table of the key columns) restricts to those keys below deduplication; ``keep`` filters above it.
    ``predicate``: what is known of rows that ``keep`` keeps, by which regions and fragments of the base are left out.
    Raises as `memwal.read.view.over` does.
    """

    async def body(view: View) -> pa.Table:
        chosen, held = await narrowed(io, view, memory, predicate)
        return await _merged(io, chosen, columns, keep, keys, held, interpretation)

    return await over(io, version, interpretation, body)


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
    check_columns(base.schema, names)
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
            raise Raced(folder.path(generation.path), generation=True) from None
        sources.append(rows.restored(table, folder.path(generation.path)))
    if memory is not None:
        if manifest is not None and memory.epoch < manifest.epoch:
            raise Fenced(region, memory.epoch, manifest.epoch)
        floor = manifest.generation_current if manifest else Generation(0)
        unflushed = [table for generation, table in memory.tables if generation >= floor]
        if any(set(rows.plain.names) - set(table.schema.names) for table in unflushed):
            raise Raced(f"memory of {region}", generation=False)  # columns were added: its writer is fenced
        sources += [rows.restored(table, f"memory of {region}", narrowed=True) for table in unflushed]
    elif view.live and manifest is not None:
        folder = manifests.folder(io, region)
        tail = await wal_tail(folder, manifest, rows, view.base.revision, interpretation)
        if tail is None:
            raise Raced(folder.path("wal"), generation=False)
        sources.append(tail)
    return sources
