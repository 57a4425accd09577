"""One Lance table without regions: processes that append, delete, upsert and set keys of its config, all at once."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from memwal.table import read as table_read
from memwal.table import write
from memwal.table.state import latest

from .. import ground
from ..cast import Arguments
from ..linearization import Step, linearization
from ..oracles import after_crash
from ..process import Process
from ..scenario import Setting
from ..store import Contents
from ..world import Oracle, Violation
from ..writes import READ_INVOKED, READ_RETURNED, WRITE_ACKNOWLEDGED, WRITE_INVOKED
from .account import FINAL, LOST, Account, Call, Rows
from .play import Play


async def committer(_setting: Setting, name: str, arguments: Arguments) -> None:
    """Follow ``script``: ``{"append": {key: value}}``, ``{"upsert": {key: value}}``, ``{"delete": [key]}``."""
    io = ground.TABLE
    for number, step in enumerate(arguments["script"], 1):
        ((what, told),) = step.items()
        call = f"{what} {name}/{number}"
        rows = tuple((key, None) for key in told) if what == "delete" else tuple(told.items())
        await io.note(WRITE_INVOKED, write=call, rows=rows)
        if what == "append":
            await write.append(io, ground.rows_table(told))
        elif what == "delete":
            await write.delete(io, partial(_named, tuple(told)), f"{ground.KEY} IN {told}")
        else:
            await write.retried(io, partial(_upsert, told))
        await io.note(WRITE_ACKNOWLEDGED, write=call)


def _named(keys: tuple[str, ...], rows: pa.Table) -> npt.NDArray[np.bool_]:
    return np.array([key in keys for key in rows.column(ground.KEY).to_pylist()], dtype=np.bool_)


async def _upsert(rows: dict[str, str], state: Any) -> Any:
    return await write.merge_insert(ground.TABLE, state, ground.rows_table(rows))


async def configurer(_setting: Setting, name: str, _arguments: Arguments) -> None:
    """Set a key of the table's config."""
    await write.set_config(ground.TABLE, {f"key.{name}": name})


async def reader(_setting: Setting, name: str, arguments: Arguments) -> None:
    """Read the newest version, ``times`` times."""
    for number in range(1, arguments["times"] + 1):
        await ground.TABLE.note(READ_INVOKED, read=f"{name}/{number}")
        await ground.TABLE.note(READ_RETURNED, read=f"{name}/{number}", rows=await _rows())


async def _rows() -> Rows:
    """All rows of the newest version, sorted; a key may be there several times."""
    found = await table_read.scan(ground.TABLE, await latest(ground.TABLE))
    return tuple(sorted(zip(found.column(ground.KEY).to_pylist(), found.column(ground.VALUE).to_pylist(), strict=True)))


def judge(found: Rows, calls: Account) -> Violation | None:
    """Some order of the commits explains every read and the rows that are there."""
    end = calls.clock + 1
    last = Call(name=FINAL, reading=True, rows=found, invoked=end, returned=end, outcome="ok")
    history = [call for call in (*calls.calls, last) if not call.reading or call.outcome == "ok"]
    if linearization(map(_step, history), ()) is not None:
        return None
    shown = tuple((call.name, f"{call.outcome} [{call.invoked}, {call.returned}] {call.rows}") for call in history)
    return Violation("TXN-002", LOST, f"no order of the commits explains the rows {found}", shown)


def _step(call: Call) -> Step[Rows]:
    unheard = call.outcome == "unknown"
    return Step(
        name=call.name,
        invoked=call.invoked,
        returned=None if unheard else call.returned,
        optional=unheard,
        reading=call.reading,
        apply=partial(_applied, call),
    )


def _applied(call: Call, rows: Rows) -> Rows | None:
    if call.reading:
        return rows if rows == call.rows else None
    if call.name.startswith("append"):
        return tuple(sorted((*rows, *call.rows)))
    named = {key for key, _ in call.rows}
    left = [row for row in rows if row[0] not in named]
    return tuple(sorted(left if call.name.startswith("delete") else (*left, *call.rows)))


def oracles(_setting: Setting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    return (after_crash(Process("last-reader", _rows), judge, clause="TXN-004"),)


@lru_cache
def _table() -> Contents:
    creator = Process("creator", partial(write.create, ground.TABLE, ground.SCHEMA))
    return ground.after(Contents(), creator).contents


PLAY = Play(
    name="committing",
    title="one table whose rows several processes append, delete and upsert",
    roles={"committer": committer, "configurer": configurer, "reader": reader},
    contents=lambda _setting: _table(),
    oracles=oracles,
)
