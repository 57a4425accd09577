"""A table whose region spec decides where rows go, clients that route rows by it, and what must hold of all regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import pyarrow as pa
from memwal import invariants, paths
from memwal.codec.index_details import IndexDetails, RegionSpec
from memwal.effects import Io
from memwal.errors import InvalidArgument
from memwal.ids import Milliseconds, SpecId
from memwal.index import mem_wal, regions, transforms
from memwal.index.opening import region_of
from memwal.index.registration import register
from memwal.index.snapshot import RegionRow
from memwal.index.transforms import SpecRequest
from memwal.invariants import registration, view
from memwal.invariants.index import region_specs_never_change
from memwal.invariants.rows import registered_values
from memwal.jobs import spec_change
from memwal.jobs.merger import merge_region
from memwal.read import scan
from memwal.read.sources import open_generation, unmerged
from memwal.region.writer import Writer, open_writer
from memwal.revisions import CONFIG_REVISION, Interpretation, Revision
from memwal.table import read as table_read
from memwal.table import schema as schemas
from memwal.table import write
from memwal.table.state import TableState, latest, load, versions

from . import ground, writes
from .actors import Acting, Place, Step
from .ground import KEY, TABLE, VALUE, Pairs
from .oracles import after_crash, inspected
from .process import Process
from .scenario import Setting
from .store import Contents
from .world import Violation, World
from .writes import HEARD, WRITE_ACKNOWLEDGED, WRITE_INVOKED, Writes, observe_writes

PART, GROUP = "part", "group"
SCHEMA = schemas.with_primary_key(
    pa.schema(
        [
            pa.field(KEY, pa.string()),
            pa.field(PART, pa.string()),
            pa.field(GROUP, pa.string()),
            pa.field(VALUE, pa.string()),
        ]
    ),
    [KEY, PART],
)
"""Rows: a key of two text columns, a group that follows from the key and may be NULL, and a value."""
NO_GROUP = "none"
"""The key whose group is NULL."""

Route: TypeAlias = Callable[[RegionSpec, pa.Table, TableState], Mapping[str, object]]
"""How a client finds the region value of one row: region value by field id."""


def rows_table(key: str, value: str) -> pa.Table:
    """The one row of ``key``."""
    group = None if key == NO_GROUP else f"group of {key}"
    return pa.table([[key], [f"{key}-part"], pa.array([group], pa.string()), [value]], schema=SCHEMA)


def by_engine(spec: RegionSpec, rows: pa.Table, state: TableState) -> Mapping[str, object]:
    """The region value that the engine computes."""
    names = {number: name for name, number in state.field_ids.items()}
    found = transforms.evaluate(spec, rows, names, revision=state.revision)
    return {name: found.column(name)[0].as_py() for name in found.schema.names}


def place(setting: Setting) -> Place:
    """Where clients of the table work. They choose regions themselves; the one of the place is nobody's."""
    return Place(region=ground.region(setting))


def table(revision: Revision, *requests: SpecRequest) -> Contents:
    """Contents of a store with an empty table that has the specs ``requests``, the last one active."""
    return _table(revision, requests)


@lru_cache
def _table(revision: Revision, requests: tuple[SpecRequest, ...]) -> Contents:
    return ground.after(Contents(), Process("creator", partial(_enabled, revision, requests))).contents


async def _enabled(revision: Revision, requests: Sequence[SpecRequest]) -> TableState:
    created = await write.create(TABLE, SCHEMA, None, {CONFIG_REVISION: revision.name})
    specs = tuple(
        transforms.resolve(request, SpecId(number), created.schema, created.field_ids, revision)
        for number, request in enumerate(requests, 1)
    )
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, specs=specs)
    return await mem_wal.enable(TABLE, created, details)


def put(key: str, value: str, route: Route = by_engine) -> Step:
    """The step that writes one row, durably, through the region that ``route`` names; it is registered if it is new.

    A writer that the process has stays open, and takes the row, whatever became of the specs since.
    """

    async def step(acting: Acting) -> None:
        io = acting.place.table
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await io.note(WRITE_INVOKED, write=name, rows=((key, value),))
        rows = rows_table(key, value)
        if acting.writer is None:
            acting.writer = await _opened(acting, rows, route)
        await acting.writer.put(_known(rows, acting.writer))
        await io.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def _known(rows: pa.Table, writer: Writer) -> pa.Table:
    """``rows`` without the columns that the table no longer has."""
    return rows.select(writer.region.rows.plain.names)


async def _opened(acting: Acting, rows: pa.Table, route: Route) -> Writer:
    io, interpretation = acting.place.table, acting.place.interpretation
    state = await latest(io)
    spec = regions.active_spec(state.mem_wal)
    wanted = route(spec, rows, state) if spec is not None else None
    registered = await register(io, wanted, interpretation=interpretation)
    known = await regions.known(io, registered.state, interpretation)
    (row,) = (row for row in known if row.region_id == registered.region_id)
    spec_change.check_governed(row, registered.state)
    writer = await open_writer(region_of(io, registered.state, row, interpretation=interpretation))
    await spec_change.admit(io, row, interpretation=interpretation)
    return writer


async def flush(acting: Acting) -> None:
    """Flush the MemTable of the process's writer."""
    if acting.writer is not None:
        await acting.writer.flush()


async def closed(acting: Acting) -> None:
    """Forget the writer: the next put opens one anew."""
    acting.writer = None


async def merge(acting: Acting) -> None:
    """Merge every generation of every region."""
    for region in sorted(await regions.discover(acting.place.table, (await latest(acting.place.table)).revision)):
        await merge_region(acting.place.table, region, acting.place.interpretation)


def add_spec(request: SpecRequest) -> Step:
    """The step that makes ``request`` the active spec; a refusal is noted, and the process goes on."""

    async def step(acting: Acting) -> None:
        try:
            await spec_change.add_spec(acting.place.table, request, interpretation=acting.place.interpretation)
        except InvalidArgument as refused:
            await acting.place.table.note("refused", clause=refused.clause)

    return step


def remove_spec(spec_id: int) -> Step:
    """The step that removes a spec; a refusal is noted, and the process goes on."""

    async def step(acting: Acting) -> None:
        try:
            await spec_change.remove_spec(acting.place.table, SpecId(spec_id), acting.place.interpretation)
        except InvalidArgument as refused:
            await acting.place.table.note("refused", clause=refused.clause)

    return step


def drop_column(name: str) -> Step:
    """The step that drops a column of the table; a refusal is noted, and the process goes on."""
    from memwal.index import guards
    from memwal.table import columns

    async def step(acting: Acting) -> None:
        io = acting.place.table
        try:
            await columns.drop(io, [name], guards.may_drop(io, acting.place.interpretation))
        except InvalidArgument as refused:
            await io.note("refused", clause=refused.clause)

    return step


async def drain(acting: Acting) -> None:
    """Open, flush and merge every region; whoever writes to one is fenced."""
    io, interpretation = acting.place.table, acting.place.interpretation
    state = await latest(io)
    for row in await regions.known(io, state, interpretation):
        writer = await open_writer(region_of(io, state, row, interpretation=interpretation))
        await writer.flush()
        await merge_region(io, row.region_id, interpretation)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is found after a crash: (key, value) pairs, sorted."""

    remote: Pairs
    """Strong read by a process of its own."""
    held: tuple[tuple[str, tuple[str, ...]], ...]
    """Keys of the rows of each region that are not in the base table, after its recovery."""
    merged: Pairs
    """The base table alone, after every region was flushed and merged."""


async def surviving(io: Io, interpretation: Interpretation) -> Seen:
    """Read, recover each region as a fresh writer, flush and merge it, and read the base."""
    remote = ground.pairs(await scan.scan(io, interpretation=interpretation))
    state = await latest(io)
    registered = {row.region_id: row for row in await regions.known(io, state, interpretation)}
    held = []
    for region, manifest in sorted((await regions.discover(io, state.revision, interpretation)).items()):
        row = RegionRow(region_id=region, spec_id=manifest.spec_id, values=(), manifest=None)
        opened = region_of(io, state, registered.get(region, row), interpretation=interpretation)
        writer = await open_writer(opened)
        keys = set(writer.memtable.table().column(KEY).to_pylist())
        for listed in unmerged(manifest, state.mem_wal.progress(region)):
            keys.update((await open_generation(opened.io, listed.path, [KEY])).column(KEY).to_pylist())
        held.append((str(region), tuple(sorted(keys))))
        await writer.flush()
        await merge_region(io, region, interpretation)
    merged = ground.pairs(await table_read.scan(io, await latest(io)))
    return Seen(remote, tuple(held), merged)


def judge(found: Seen, ghosts: Writes) -> Violation | None:
    """No key is in two regions, or twice in a read; the writes explain the rows; and merging changes none."""
    owners: dict[str, str] = {}
    for region, keys in found.held:
        for key in keys:
            if key in owners:
                reason = f"rows of key {key} wait to be merged in region {owners[key]} and in region {region}"
                return Violation("REGION-002", "a key is in one region", reason, (("read", str(found.remote)),))
            owners[key] = region
    if len(dict(found.remote)) < len(found.remote):
        return Violation("READ-002", "each key is there once", f"a read finds a key twice: {found.remote}")
    violation = writes.judge(dict(found.remote), ghosts)
    if violation is None and found.merged != found.remote:
        reason = f"the table holds {found.remote}, and its base {found.merged} after the merge"
        violation = Violation("MERGE-001", "a merge keeps all rows", reason)
    return violation


_REGISTRATION = ("regions_have_distinct_values", "region_specs_are_listed", "region_specs_never_change")


async def _registration(io: Io) -> list[invariants.Violation]:
    """Violations of the invariants of specs and of the registration of regions, in the newest version."""
    found: list[invariants.Violation] = []
    known: dict[SpecId, RegionSpec] = {}
    for number in await versions(io):
        state = await load(io, number)
        if state.mem_wal_entry is None:
            continue
        found += region_specs_never_change(known, state)
        known |= {spec.spec_id: spec for spec in state.mem_wal.specs}
    details = state.mem_wal
    values = {}
    for row in await regions.known(io, state):
        own = registered_values(row.values, regions.spec_of(details, row.spec_id))
        if row.spec_id and own is not None:
            values[row.region_id] = row.spec_id, own
    found += registration.regions_have_distinct_values(values, paths.MEM_WAL)
    for region in await regions.discover(io, state.revision):
        found += registration.region_specs_are_listed(await view(io, region, state.revision), details)
    return found


def world(setting: Setting, contents: Contents, *processes: Process, before: Sequence[Process] = ()) -> World:
    """``processes`` on a table, after those of ``before`` ran alone, one after another; with the oracles of all."""
    ghosts = Writes()
    for process in before:
        alone = ground.after(contents, process)
        contents = alone.contents
        for note in alone.notes:
            ghosts = observe_writes(ghosts, process.name, note)
    survivor = Process("survivor", partial(surviving, TABLE, setting.interpretation))
    return World(
        contents=contents,
        processes=processes,
        ghosts=ghosts,
        observe=observe_writes,
        heard=HEARD,
        oracles=(
            after_crash(survivor, judge),
            *inspected(Process("registrar", partial(_registration, TABLE)), _REGISTRATION),
            *ground.stored_invariants(),
        ),
    )
