"""Columns that come and go beside writers of one registered region, for scenarios."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from memwal.effects import Io, Protocol
from memwal.errors import InvalidArgument
from memwal.index import regions
from memwal.index.registration import register
from memwal.index.transforms import bucket
from memwal.jobs import column_change
from memwal.jobs.opening import open_region
from memwal.table.state import TableState, latest

from . import sharded
from .actors import Acting, Action
from .ground import KEY
from .scripts import Words
from .sharded import GROUP

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
    """The step that changes the columns of the table; a refusal is noted, and the process continues."""

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
"""What clients and administrators of a table of one region may do."""
