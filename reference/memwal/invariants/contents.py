"""Looking at rows: of generations, of unflushed WAL entries, and of the base table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from .. import paths
from ..codec import key_index
from ..codec.index_details import RegionSpec
from ..codec.pb.lance import table_pb2
from ..effects import Io
from ..errors import InvalidArgument
from ..ids import FieldId, FragmentId, RegionId, SpecId
from ..index.snapshot import RegionRow
from ..index.transforms import RegionKey
from ..region.recovery import read_entry
from ..region.rows import Rows
from ..table import read
from ..table.owners import owners
from ..table.state import TableState
from ..violations import Violation
from . import keys
from . import rows as checks
from .base import Base
from .files import Files, named_files_are_whole
from .finding import attempted
from .report import FindingsLedger
from .seen import GenerationView, RegionView, SeenEntry

_Values = dict[RegionKey, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What stays the same while the rows of one region are looked at."""

    view: RegionView
    rows: Rows
    spec: RegionSpec | None
    known: RegionKey | None
    columns: Mapping[FieldId, str]
    ledger: FindingsLedger


async def look_at_rows_of_region(
    view: RegionView, base: Base, rows: Rows, ledger: FindingsLedger
) -> tuple[SpecId, RegionKey] | None:
    """Look at the rows of a region that can be read; returns its spec and region values as far as both are known."""
    assert base.newest is not None
    context = _context(view, base, base.newest, rows, ledger)
    found = await _look_at_region(context)
    spec_id = view.newest.spec_id if view.newest is not None else SpecId(0)
    return (spec_id, context.known or next(iter(found))) if spec_id and found else None


async def look_at_keys(
    io: Io, regions: Mapping[RegionId, RegionView], base: Base, rows: Rows, ledger: FindingsLedger
) -> None:
    """Compare the keys of all regions, and look at those of the base table."""
    state = base.newest
    assert state is not None
    if not rows.key:
        return
    parts: list[keys.KeyedRows] = []
    for region, view in sorted(regions.items()):
        context = _context(view, base, state, rows, ledger)
        progress = base.details.progress(region) if base.details is not None else 0
        parts += [_generation_part(context, g) for g in view.generations if g.listed.generation > progress and g.state]
        parts += [_entry_part(context, entry) for entry in _tail(view)]
    parts += await _merged_parts(io, state, regions)
    if len({part.owner for part in parts}) > 1:
        await io.note("verifying", keys="of all regions")
        found_twice = await attempted(keys.repeated(parts, across_owners=True), io.root)
        if isinstance(found_twice, Violation):
            ledger.note(f"keys of different regions were not compared: {found_twice.path}: {found_twice.reason}")
        else:
            ledger.add(keys.keys_are_in_one_region(found_twice))
    await _look_at_base(io, state, ledger)


def _context(view: RegionView, base: Base, state: TableState, rows: Rows, ledger: FindingsLedger) -> _Context:
    spec_id = view.newest.spec_id if view.newest is not None else SpecId(0)
    specs = base.details.specs if base.details is not None else ()
    spec = next((s for s in specs if s.spec_id == spec_id), None)
    return _Context(
        view=view,
        rows=rows,
        spec=spec,
        known=known_values(view, spec, base.rows),
        columns={i: n for n, i in state.field_ids.items()},
        ledger=ledger,
    )


def known_values(view: RegionView, spec: RegionSpec | None, rows: Sequence[RegionRow]) -> RegionKey | None:
    """Region values as registered, or as the manifest carries them (R); None if neither says."""
    row = next((r for r in rows if r.region_id == view.region_id), None)
    found = checks.registered_values(row.values, spec) if row is not None else None
    if found is None and view.newest is not None and view.newest.shard_fields:
        found = checks.registered_values(checks.manifest_values(view.newest.shard_fields, spec), spec)
    return found


async def _look_at_region(context: _Context) -> _Values:
    """Look at the rows of one region; returns the distinct region values that they have."""
    values: _Values = {}
    for generation in context.view.generations:
        if generation.state is None:
            continue
        loaded = await attempted(checks.load_rows(context.view, generation), generation.io.root)
        if isinstance(loaded, Violation):
            damaged = Files(looked_at=0, missing=(), damaged=(loaded,), index_files=(), unread=())
            context.ledger.add(named_files_are_whole(damaged))
            continue
        await _look_at_generation(context, generation, loaded)
        _add_values(context, loaded.stored, generation.io.root, values)
    for entry in _tail(context.view):
        found = await attempted(_entry_rows(context, entry), entry.path)
        if isinstance(found, Violation):
            continue
        context.ledger.looked_at["rows"] += found.num_rows
        context.ledger.add(checks.keys_are_not_null(found.select(list(context.rows.key)), entry.path))
        _add_values(context, found, entry.path, values)
    return values


async def _look_at_generation(context: _Context, generation: GenerationView, loaded: checks.GenerationRows) -> None:
    ledger, revision = context.ledger, context.view.revision
    ledger.looked_at["rows"] += loaded.stored.num_rows
    ledger.add(checks.generations_equal_their_wal(loaded))
    if loaded.not_compared:
        ledger.note(f"{loaded.path}: rows not compared with the WAL: {loaded.not_compared}")
    if not loaded.key:
        return
    ledger.add(checks.keys_are_not_null(loaded.keys, loaded.path))
    if revision.mask_older:
        ledger.add(checks.older_rows_are_hidden(loaded))
    if any(column.null_count for column in loaded.keys.columns):
        return
    path = generation.io.path(paths.BLOOM_FILTER)
    data = await attempted(generation.io.get(paths.BLOOM_FILTER), path)
    if not isinstance(data, Violation):
        ledger.add(checks.filters_have_every_key(loaded, data, path, revision))
    if revision.key_index:
        await _look_at_key_index(context, generation.io, loaded)


async def _look_at_key_index(context: _Context, io: Io, loaded: checks.GenerationRows) -> None:
    path, lookup_path = io.path(key_index.PAGE_DATA), io.path(key_index.PAGE_LOOKUP)
    data = await attempted(io.get(key_index.PAGE_DATA), path)
    lookup = await attempted(io.get(key_index.PAGE_LOOKUP), lookup_path)
    if isinstance(data, Violation) or isinstance(lookup, Violation):
        return
    try:
        context.ledger.add(checks.key_indexes_have_every_key(loaded, data, path, lookup, lookup_path))
    except InvalidArgument as error:
        context.ledger.note(f"{path}: not compared: {error}")


def _add_values(context: _Context, rows: pa.Table, path: str, values: _Values) -> None:
    """Judge the region values of ``rows`` and add them to ``values``."""
    if context.spec is None:
        return
    try:
        found = checks.region_values(rows, context.spec, context.columns, context.view.revision)
    except InvalidArgument as error:
        context.ledger.note(f"{context.view.io.root}: region values of rows were not computed: {error}")
        return
    known = context.known if context.known is not None else next(iter(values), None)
    context.ledger.add(checks.rows_belong_to_their_region(found, known, path))
    for one, at in found.items():
        values.setdefault(one, at)


def _tail(view: RegionView) -> list[SeenEntry]:
    return [e for e in view.entries if e.position >= view.first_unflushed and e.rows and not e.misfit]


async def _entry_rows(context: _Context, entry: SeenEntry) -> pa.Table:
    found = await read_entry(context.view.io, entry.position, context.view.revision, context.rows.schema)
    return context.rows.restored(found.rows, entry.path)


async def _entry_keys(context: _Context, entry: SeenEntry) -> pa.Table:
    return (await _entry_rows(context, entry)).select(list(context.rows.key))


def _entry_part(context: _Context, entry: SeenEntry) -> keys.KeyedRows:
    return keys.KeyedRows(context.view.region_id, entry.path, entry.rows, partial(_entry_keys, context, entry))


async def _generation_keys(generation: GenerationView, key: tuple[str, ...]) -> pa.Table:
    assert generation.state is not None
    return await read.scan(generation.io, generation.state, list(key))


def _generation_part(context: _Context, generation: GenerationView) -> keys.KeyedRows:
    assert generation.state is not None
    reading = partial(_generation_keys, generation, context.rows.key)
    return keys.KeyedRows(context.view.region_id, generation.io.root, generation.state.rows, reading)


async def _merged_parts(io: Io, state: TableState, regions: Mapping[RegionId, RegionView]) -> list[keys.KeyedRows]:
    """The base rows that manual regions merged, as far as that can be told, where there are several such regions."""
    manual = {region for region, view in regions.items() if view.newest is not None and not view.newest.spec_id}
    if len(manual) < 2:
        return []
    known = await attempted(owners(io, state, state.fragments, back_most=None), io.root)
    if isinstance(known, Violation):
        return []
    parts, key = [], list(state.primary_key)
    for fragment in state.fragments:
        owner = known.get(FragmentId(fragment.id))
        if owner in manual and owner is not None:
            path = io.path(read.file_path(io, state, fragment.files[0]))
            reading = partial(_fragment_keys, io, state, fragment, key)
            parts.append(keys.KeyedRows(owner, path, fragment.physical_rows, reading))
    return parts


async def _look_at_base(io: Io, state: TableState, ledger: FindingsLedger) -> None:
    """Keys of the base table: unique, and not NULL."""
    key = list(state.primary_key)
    parts: list[keys.KeyedRows] = []
    nulls: list[tuple[str, str, int]] = []
    for fragment in state.fragments:
        path = io.path(read.file_path(io, state, fragment.files[0])) if fragment.files else state.path
        found = await attempted(_fragment_keys(io, state, fragment, key), path)
        if isinstance(found, Violation):
            ledger.note(f"keys of fragment {fragment.id} were not looked at: {found.reason}")
            continue
        ledger.looked_at["rows"] += found.num_rows
        nulls += [(path, name, found.column(name).null_count) for name in key if found.column(name).null_count]
        reading = partial(_fragment_keys, io, state, fragment, key)
        parts.append(keys.KeyedRows("base", path, found.num_rows, reading))
    ledger.add(keys.base_keys_are_not_null(nulls))
    await io.note("verifying", keys="of the base table")
    twice = await attempted(keys.repeated(parts, across_owners=False), io.root)
    if isinstance(twice, Violation):
        ledger.note(f"keys of the base table were not compared: {twice.reason}")
    else:
        ledger.add(keys.base_keys_are_unique(twice))


async def _fragment_keys(io: Io, state: TableState, fragment: table_pb2.DataFragment, key: list[str]) -> pa.Table:
    return await read.read_fragment(io, state, fragment, key, with_row_address=False)
