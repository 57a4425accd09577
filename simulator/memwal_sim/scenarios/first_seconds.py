"""Readers of each kind, and tables that have no region yet, for scenarios of a region's first seconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from memwal import invariants
from memwal.errors import ArtifactError
from memwal.index.transforms import bucket
from memwal.read import lookup, scan, vector
from memwal.read.query import Query
from memwal.table import schema as schemas

from ..process import Process
from ..world import World
from . import indexed, scripts, sharded
from .actors import Acting, Workplace, read_by
from .ground import KEY, VALUE, rows_table
from .one_region import world
from .scenario import ScenarioSetting
from .scripts import Words
from .writes import reads_are_explained

AT = "at"
"""A column of vectors, so that the table can be searched."""
SCHEMA = schemas.with_primary_key(
    pa.schema([pa.field(KEY, pa.string()), pa.field(VALUE, pa.string()), pa.field(AT, pa.list_(pa.float32(), 1))]),
    [KEY],
)
SPEC = bucket("one", KEY, 1)
"""One region for all rows: the first write registers it."""
WRITTEN = ("k", "l")
"""Keys that are ever written."""


def _row(key: str, value: str) -> pa.Table:
    return pa.table([[key], [value], pa.array([[1.0]], SCHEMA.field(AT).type)], schema=SCHEMA)


async def _streamed(place: Workplace) -> pa.Table:
    parts = [part async for part in scan.stream(place.table, Query())]
    return pa.concat_tables([SCHEMA.remove_metadata().empty_table(), *parts])


async def _looked_up(place: Workplace) -> pa.Table:
    return (await lookup.lookup(place.table, pa.table({KEY: WRITTEN}), Query()))[0]


async def _searched(place: Workplace) -> pa.Table:
    asked = vector.Nearest(column=AT, vector=[0.0], k=len(WRITTEN) + 1)
    return (await vector.search(place.table, asked, Query()))[0]


async def batches(acting: Acting) -> None:
    """Read the table strongly, part by part."""
    await read_by(acting, partial(_streamed, acting.place))


async def get(acting: Acting) -> None:
    """Look up every key that is ever written."""
    await read_by(acting, partial(_looked_up, acting.place))


async def search(acting: Acting) -> None:
    """Search for more rows than there ever are, by their vectors."""
    await read_by(acting, partial(_searched, acting.place))


async def verify(acting: Acting) -> None:
    """Verify the table; raises `ArtifactError` for the first finding of a report that is of one moment."""
    report = await invariants.verify(acting.place.table)
    if report.findings and not report.moved:
        first = report.findings[0]
        raise ArtifactError(first.clause, first.path, f"{first.oracle}: {first.reason}")


WORDS: Words = {
    **scripts.WORDS,
    "rows": sharded.row(rows=_row),
    "flush": lambda _: sharded.flush,
    "batches": lambda _: batches,
    "get": lambda _: get,
    "search": lambda _: search,
    "verify": lambda _: verify,
}
INDEXED: Words = {
    **indexed.WORDS,
    "rows": sharded.row(rows=lambda key, value: rows_table({key: value})),
    "flush": lambda _: sharded.flush,
}


def with_vectors(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
    """A world on a table with a spec of one region, that can be searched."""
    contents = sharded.table(setting.revision, SPEC, schema=SCHEMA)
    return world(setting, contents, *processes, before=before, oracles=(reads_are_explained,))


def with_an_index(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
    """A world on a table without specs that has an index."""
    contents = indexed.table(setting.revision, indexed.BY_VALUE)
    return world(setting, contents, *processes, before=before, ghosts=indexed.BEGUN, oracles=indexed.audited())
