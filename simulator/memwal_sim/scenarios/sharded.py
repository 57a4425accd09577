"""A table whose region spec decides where rows go, and what its clients and administrators do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import pyarrow as pa
from memwal.codec.index_details import IndexDetails, RegionSpec
from memwal.errors import InvalidArgument
from memwal.ids import Milliseconds, SpecId
from memwal.index import guards, mem_wal, regions, transforms
from memwal.index.opening import region_of
from memwal.index.registration import register
from memwal.index.transforms import SpecRequest, bucket, identity
from memwal.jobs import spec_change
from memwal.jobs.merger import merge_region, merge_regions
from memwal.region.opening import open_writer
from memwal.region.writer import RegionWriter
from memwal.revisions import CONFIG_REVISION, Revision
from memwal.table import columns, write
from memwal.table import schema as schemas
from memwal.table.state import TableState, latest

from ..histories.notes import WRITE_ACKNOWLEDGED, WRITE_INVOKED
from ..process import Process
from ..store import Contents
from . import actors, ground
from .actors import Acting, Action, Workplace
from .ground import KEY, TABLE, VALUE
from .scenario import ScenarioSetting
from .scripts import Given, Words

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


def place(setting: ScenarioSetting) -> Workplace:
    """Where clients of the table work. They choose regions themselves; the one of the place belongs to none of them."""
    return Workplace(region=ground.region(setting))


def table(revision: Revision, *requests: SpecRequest, schema: pa.Schema = SCHEMA) -> Contents:
    """Contents of a store with an empty table that has the specs ``requests``, the last one active."""
    return _table(revision, requests, schema)


@lru_cache
def _table(revision: Revision, requests: tuple[SpecRequest, ...], schema: pa.Schema) -> Contents:
    return ground.after(Contents(), Process("creator", partial(_enabled, revision, requests, schema))).contents


async def _enabled(revision: Revision, requests: Sequence[SpecRequest], schema: pa.Schema) -> TableState:
    created = await write.create(TABLE, schema, None, {CONFIG_REVISION: revision.name})
    specs = tuple(
        transforms.resolve(request, SpecId(number), created.schema, created.field_ids, revision)
        for number, request in enumerate(requests, 1)
    )
    details = IndexDetails(snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, specs=specs)
    return await mem_wal.enable(TABLE, created, details)


def put(key: str, value: str, route: Route = by_engine, *, rows: Callable[[str, str], pa.Table] = rows_table) -> Action:
    """The step that writes one row, durably, through the region that ``route`` names; it is registered if it is new.

    ``rows``: the one row of a key and a value.

    A writer that the process has stays open, and takes the row, whatever became of the specs since.
    """

    async def step(acting: Acting) -> None:
        io = acting.place.table
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await io.note(WRITE_INVOKED, write=name, rows=((key, value),))
        row = rows(key, value)
        if acting.writer is None:
            acting.writer = await open_for(acting, row, route)
        await acting.writer.put(_known(row, acting.writer))
        await io.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def _known(rows: pa.Table, writer: RegionWriter) -> pa.Table:
    """``rows`` without the columns that the table no longer has, and NULL in those that came."""
    for field in writer.region.rows.plain:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(writer.region.rows.plain.names)


async def open_for(acting: Acting, rows: pa.Table, route: Route = by_engine) -> RegionWriter:
    """A writer of the region of ``rows``, which are of one region; it is registered if it is new."""
    io = acting.place.table
    state = await latest(io)
    spec = regions.active_spec(state.mem_wal)
    wanted = route(spec, rows, state) if spec is not None else None
    registered = await register(io, wanted)
    known = await regions.known(io, registered.state)
    (row,) = (row for row in known if row.region_id == registered.region_id)
    spec_change.check_governed(row, registered.state)
    writer = await open_writer(region_of(io, registered.state, row))
    await spec_change.admit(io, row)
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
        await merge_region(acting.place.table, region)


async def merge_together(acting: Acting) -> None:
    """Merge every generation of every region; the next ones of all regions share a commit."""
    io = acting.place.table
    await merge_regions(io, sorted(await regions.discover(io, (await latest(io)).revision)))


def add_spec(request: SpecRequest) -> Action:
    """The step that makes ``request`` the active spec; a refusal is noted, and the process continues."""

    async def step(acting: Acting) -> None:
        try:
            await spec_change.add_spec(acting.place.table, request)
        except InvalidArgument as refused:
            await acting.place.table.note("refused", clause=refused.clause)

    return step


def remove_spec(spec_id: int) -> Action:
    """The step that removes a spec; a refusal is noted, and the process continues."""

    async def step(acting: Acting) -> None:
        try:
            await spec_change.remove_spec(acting.place.table, SpecId(spec_id))
        except InvalidArgument as refused:
            await acting.place.table.note("refused", clause=refused.clause)

    return step


def drop_column(name: str) -> Action:
    """The step that drops a column of the table; a refusal is noted, and the process continues."""

    async def step(acting: Acting) -> None:
        io = acting.place.table
        try:
            await columns.drop(io, [name], guards.may_drop(io))
        except InvalidArgument as refused:
            await io.note("refused", clause=refused.clause)

    return step


async def drain(acting: Acting) -> None:
    """Open, flush and merge every region; a writer to one is fenced."""
    io = acting.place.table
    state = await latest(io)
    for row in await regions.known(io, state):
        writer = await open_writer(region_of(io, state, row))
        await writer.flush()
        await merge_region(io, row.region_id)


def spec(argument: Any) -> SpecRequest:
    """The region spec that a script asks for: a number of buckets of the key, or a mapping.

    ``name``; ``of``, a column or several, the key if nothing is said; ``buckets``, without which the values themselves
    decide; ``immutable``, whether an update leaves the columns as they are.
    """
    if isinstance(argument, int):
        return bucket(f"buckets_{argument}", KEY, argument)
    of, immutable = argument.get("of", KEY), argument.get("immutable", False)
    if "buckets" in argument:
        return bucket(argument["name"], of, argument["buckets"], immutable=immutable)
    return identity(argument["name"], of, immutable=immutable)


def row(route: Route = by_engine, *, rows: Callable[[str, str], pa.Table] = rows_table) -> Callable[[Given], Action]:
    """The word whose argument is one key and its value; the others as for `put`."""

    def made(given: Given) -> Action:
        ((key, value),) = given.argument.items()
        return put(key, value, route, rows=rows)

    return made


WORDS: Words = {
    "put": lambda given: put(given.argument, given.value),
    "rows": row(),
    "flush": lambda _: flush,
    "close": lambda _: closed,
    "merge": lambda _: merge,
    "merge_together": lambda _: merge_together,
    "drain": lambda _: drain,
    "add_spec": lambda given: add_spec(spec(given.argument)),
    "remove_spec": lambda given: remove_spec(given.argument),
    "drop_column": lambda given: drop_column(given.argument),
    "snapshot": lambda _: actors.snapshot,
    "read": lambda _: actors.read,
}
"""What a client or an administrator of the table may do: ``put`` one key through its region, ``add_spec``, …"""
