"""Scenarios of a region's first seconds: each kind of reader beside registration, claim, first entry and first flush.

A table that nobody damaged is never called damaged, and what a reader finds is explained by the writes around it.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from memwal import invariants
from memwal.errors import ArtifactError
from memwal.index.transforms import bucket
from memwal.read import lookup, scan, vector
from memwal.read.query import Query
from memwal.table import schema as schemas

from ..world import World
from . import indexed, scripts, sharded
from .actors import Acting, Place, read_by
from .ground import KEY, VALUE, rows_table
from .one_region import world
from .scenario import Scenario, Setting
from .scripts import Words, process
from .writes import reads_are_explained

AT = "at"
"""A column of vectors, so that the table can be searched."""
SCHEMA = schemas.with_primary_key(
    pa.schema([pa.field(KEY, pa.string()), pa.field(VALUE, pa.string()), pa.field(AT, pa.list_(pa.float32(), 1))]),
    [KEY],
)
SPEC = bucket("one", KEY, 1)
"""One region for all rows: the first write registers it."""
WRITTEN = {"k": "v1", "l": "v2"}
"""Key -> value of the first two writes."""


def _row(key: str, value: str) -> pa.Table:
    return pa.table([[key], [value], pa.array([[1.0]], SCHEMA.field(AT).type)], schema=SCHEMA)


async def _streamed(place: Place) -> pa.Table:
    parts = [part async for part in scan.stream(place.table, Query())]
    return pa.concat_tables([SCHEMA.remove_metadata().empty_table(), *parts])


async def _looked_up(place: Place) -> pa.Table:
    return (await lookup.lookup(place.table, pa.table({KEY: list(WRITTEN)}), Query()))[0]


async def _searched(place: Place) -> pa.Table:
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
        raise ArtifactError(first.clause, first.path, f"{first.invariant}: {first.reason}")


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
PUTS = tuple({"rows": {key: value}} for key, value in WRITTEN.items())


def _beside(reading: str, setting: Setting) -> World:
    """A client registers the region of its first row, claims it, puts twice and flushes, beside one reader."""
    here = sharded.place(setting)
    return world(
        setting,
        sharded.table(setting.revision, SPEC, schema=SCHEMA),
        process(here, "writer", *PUTS, "flush", words=WORDS),
        process(here, "reader", reading, words=WORDS),
        oracles=(reads_are_explained,),
    )


def _beside_builder(setting: Setting) -> World:
    """The same beside an index builder, on a table with an index that lacks a row; the region has no spec."""
    here = sharded.place(setting)
    return world(
        setting,
        indexed.table(setting.revision, indexed.BY_VALUE),
        process(here, "writer", *PUTS, "flush", words=INDEXED),
        process(here, "indexer", {"index": indexed.BY_VALUE}, words=INDEXED),
        before=(process(here, "client", {"append": {"x": "v0"}}, words=INDEXED),),
        ghosts=indexed.BEGUN,
        oracles=indexed.audited(),
    )


READERS: dict[str, tuple[str, str]] = {
    "scan": ("read", "a strong scan"),
    "scan_eventual": ("read_eventually", "an eventual scan"),
    "batches": ("batches", "a scan in parts"),
    "get": ("get", "a lookup of keys"),
    "search": ("search", "a search by vectors"),
    "snapshot": ("snapshot", "a snapshot builder"),
    "verify": ("verify", "a verification"),
}
"""Each kind of reader, and what it is."""

SCENARIOS = (
    *(
        Scenario(
            name=f"first_seconds_{name}",
            title=f"{what} beside the first seconds of a region",
            build=partial(_beside, reading),
            sometimes=("flushed",),
            hazards=("AMB-06",),
        )
        for name, (reading, what) in READERS.items()
    ),
    Scenario(
        name="first_seconds_indexer",
        title="an index builder beside the first seconds of a region",
        build=_beside_builder,
        sometimes=("flushed", "caught_up"),
        hazards=("AMB-69",),
    ),
)
