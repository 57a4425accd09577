"""Scenarios of columns that come and go beside writers, mergers and readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
from memwal.effects import Io, Protocol
from memwal.errors import InvalidArgument
from memwal.index import regions
from memwal.index.registration import register
from memwal.index.transforms import bucket
from memwal.jobs import column_change
from memwal.jobs.opening import open_region
from memwal.table.state import TableState, latest

from ..world import World
from . import scripts, sharded
from .actors import Acting, Action
from .ground import KEY
from .one_region import world
from .scenario import Scenario, Setting
from .scripts import Words
from .sharded import GROUP, place, table
from .writes import reads_are_explained

FEW = bucket("few", KEY, 1)
"""One region for all rows."""
EXTRA = pa.schema([pa.field("extra", pa.string())])


async def opened(acting: Acting) -> None:
    """Open the one region as `memwal.Table.writer` does; it is registered if it is new."""
    io = acting.place.table
    state = await latest(io)
    registered = await register(io, {"few": 0})
    known = await regions.known(io, registered.state)
    (row,) = (row for row in known if row.region_id == registered.region_id)
    acting.writer, _ = await open_region(io, state, row)


Change = Callable[[Io], Protocol[TableState]]


def changed(change: Change) -> Action:
    """The step that changes the columns of the table; a refusal is noted, and the process goes on."""

    async def step(acting: Acting) -> None:
        try:
            await change(acting.place.table)
        except InvalidArgument as refused:
            await acting.place.table.note("refused", clause=refused.clause)

    return step


def _add(table: Io) -> Protocol[TableState]:
    return column_change.add(table, EXTRA)


def _drop(table: Io) -> Protocol[TableState]:
    return column_change.drop(table, [GROUP])


WORDS: Words = {
    **sharded.WORDS,
    "open": lambda _: opened,
    "add": lambda _: changed(_add),
    "drop": lambda _: changed(_drop),
}
process = partial(scripts.process, words=WORDS)


def _beside_a_writer(setting: Setting) -> World:
    """One column is dropped and another one added while a writer opens the region and puts, and somebody merges."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, FEW),
        process(here, "administrator", "drop", "add"),
        process(here, "writer", "open", {"rows": {"k": "v1"}}),
        process(here, "merger", "merge"),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v0"}}, "flush"),),
    )


def _beside_a_reader(setting: Setting) -> World:
    """One column is dropped and another one added while somebody reads; rows wait in a generation and in the WAL."""
    here = place(setting)
    begun = world(
        setting,
        table(setting.revision, FEW),
        process(here, "administrator", "drop", "add"),
        process(here, "reader", "read"),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v0"}}, "flush", {"rows": {"l": "v1"}}),),
    )
    return replace(begun, oracles=(*begun.oracles, reads_are_explained))


def _two_changes(setting: Setting) -> World:
    """One process drops a column, and another one adds one, while a writer opens the region and puts."""
    here = place(setting)
    return world(
        setting,
        table(setting.revision, FEW),
        process(here, "dropper", "drop"),
        process(here, "adder", "add"),
        process(here, "writer", "open", {"rows": {"k": "v1"}}),
        before=(process(here, "writer-0", "open", {"rows": {"k": "v0"}}),),
    )


SCENARIOS = (
    Scenario(
        name="columns_beside_a_writer",
        title="columns that come and go beside a writer and a merger",
        build=_beside_a_writer,
        preemptions=1,
        sometimes=("ChangeLost", "Fenced", "spec_change_stopped", "flushed", "merged"),
        hazards=("AMB-50",),
    ),
    Scenario(
        name="columns_beside_a_reader",
        canary="canary_reads",
        title="columns that come and go beside a reader",
        build=_beside_a_reader,
        preemptions=2,
        sometimes=("flushed", "read_again"),
    ),
    Scenario(
        name="two_column_changes",
        title="two processes that change columns beside a writer",
        build=_two_changes,
        preemptions=1,
        sometimes=("ChangeLost", "Fenced", "spec_change_stopped", "flushed"),
    ),
)
"""No acknowledged row is lost or becomes unreadable when the columns of the table change."""
