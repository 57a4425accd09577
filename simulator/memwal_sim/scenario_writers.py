"""Scenarios of writers of one region: claim, put, flush, by two or more at once, and recovery after every crash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from memwal import paths
from memwal.effects import Io
from memwal.ids import RegionId
from memwal.keys import newest
from memwal.region.rows import Rows
from memwal.region.writer import Region, Writer, open_writer
from memwal.table import read
from memwal.table.state import latest

from . import writes
from .oracles import after_crash
from .process import Process
from .scenario import Scenario, Setting
from .store import Contents
from .world import Violation, World
from .writes import WRITE_ACKNOWLEDGED, WRITE_INVOKED, Writes, observe_writes

REGION = RegionId("00000000-0000-4000-8000-000000000001")
"""The one region of these scenarios."""
KEY, VALUE = "id", "value"
SCHEMA = pa.schema([pa.field(KEY, pa.string(), nullable=False), pa.field(VALUE, pa.string())])
"""Rows of these scenarios: a text key and a text value."""

RowsWritten = Mapping[str, str]
"""Key -> value."""


def region(setting: Setting) -> Region:
    """The region under ``setting``, at the root of a table without a base."""
    return Region(
        io=Io(paths.region(REGION)),
        region_id=REGION,
        revision=setting.revision,
        rows=Rows(table=SCHEMA, key=(KEY,), revision=setting.revision),
        interpretation=setting.interpretation,
    )


def table(rows: RowsWritten) -> pa.Table:
    """``rows`` as the client passes them to a put."""
    return pa.table({KEY: list(rows), VALUE: list(rows.values())}, schema=SCHEMA)


async def client(region: Region, name: str, rows: RowsWritten, *, flush: bool) -> None:
    """Open the region, write ``rows`` in one put called ``name``, and flush the MemTable."""
    writer = await open_writer(region)
    await region.io.note(WRITE_INVOKED, write=name, rows=tuple(rows.items()))
    await writer.put(table(rows))
    await region.io.note(WRITE_ACKNOWLEDGED, write=name)
    if flush:
        await writer.flush()


async def recovery(region: Region) -> tuple[dict[str, str], dict[str, str]]:
    """What a fresh writer finds: all rows after its recovery, and all rows after it then flushed."""
    writer = await open_writer(region)
    before = await rows_of(writer)
    await writer.flush()
    return before, await rows_of(writer)


async def rows_of(writer: Writer) -> dict[str, str]:
    """Key -> newest value over the writer's generations, oldest first, and its MemTable."""
    parts = []
    for flushed in writer.manifest.flushed:
        io = writer.region.io.child(flushed.path)
        parts.append(await read.scan(io, await latest(io)))
    parts.append(writer.memtable.table())
    rows = pa.concat_tables([part.select([KEY, VALUE]) for part in parts])
    found = rows.take(newest(rows, (KEY,)))
    return dict(zip(found.column(KEY).to_pylist(), found.column(VALUE).to_pylist(), strict=True))


def judge(found: tuple[dict[str, str], dict[str, str]], ghosts: Writes) -> Violation | None:
    """The rows are explained by the writes, and the recovered writer's flush changes none of them."""
    before, after = found
    violation = writes.judge(before, ghosts)
    if violation is None and after != before:
        reason = f"the recovered writer sees {before}, and {after} after its own flush"
        violation = Violation("FLUSH-004", "a flush keeps all rows", reason)
    return violation


def writers_on(setting: Setting, writes_of: Mapping[str, RowsWritten], *, flush: bool) -> World:
    """One client per entry of ``writes_of`` (process name -> rows of its one put), all on the same new region."""
    where = region(setting)
    return World(
        contents=Contents(),
        processes=tuple(
            Process(name, partial(client, where, name, rows, flush=flush)) for name, rows in writes_of.items()
        ),
        ghosts=Writes(),
        observe=observe_writes,
        oracles=(after_crash(Process("recovery", partial(recovery, where)), judge),),
    )


def _two_writers(setting: Setting) -> World:
    """Two writers claim one new region, put one row each under the same key, and flush."""
    return writers_on(setting, {"writer-1": {"k": "v1"}, "writer-2": {"k": "v2"}}, flush=True)


def _two_writers_two_keys(setting: Setting) -> World:
    """As two_writers, with a key each: a lost row cannot hide behind the other's."""
    return writers_on(setting, {"writer-1": {"k1": "v1"}, "writer-2": {"k2": "v2"}}, flush=True)


def _two_writers_no_flush(setting: Setting) -> World:
    """As two_writers, without MemTable flushes: claims, barriers and WAL entries only."""
    return writers_on(setting, {"writer-1": {"k": "v1"}, "writer-2": {"k": "v2"}}, flush=False)


def _one_writer(setting: Setting) -> World:
    """One writer claims a new region, puts two rows in one write, and flushes; it may crash anywhere."""
    return writers_on(setting, {"writer-1": {"k1": "v1", "k2": "v1"}}, flush=True)


SCENARIOS = (
    Scenario(name="one_writer", title="one writer: claim, put two rows at once, flush", build=_one_writer),
    Scenario(
        name="two_writers",
        title="two writers on one region: claim, put the same key, flush",
        build=_two_writers,
        hazards=("AMB-13", "AMB-14", "AMB-24", "AMB-28", "AMB-29"),
    ),
    Scenario(
        name="two_writers_two_keys",
        title="two writers on one region: claim, put a key each, flush",
        build=_two_writers_two_keys,
        hazards=("AMB-13", "AMB-14", "AMB-24", "AMB-28", "AMB-29"),
    ),
    Scenario(
        name="two_writers_no_flush",
        title="two writers on one region: claim, put the same key",
        build=_two_writers_no_flush,
        hazards=("AMB-13", "AMB-14", "AMB-28"),
    ),
)
