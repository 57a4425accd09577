"""One Lance table without regions: processes that append, delete, upsert and set keys of its config, all at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from memwal.effects import Io
from memwal.errors import InvalidArgument, NotFound, Outcome
from memwal.ids import TableVersion
from memwal.table import cloning, columns, compaction, whole, write
from memwal.table import read as table_read
from memwal.table.state import latest
from memwal.violations import Violation

from ..actor import Arguments
from ..histories.history import Call, History, Rows
from ..histories.linearization import ObjectStep, linearization
from ..histories.notes import READ_INVOKED, READ_RETURNED, WRITE_ACKNOWLEDGED, WRITE_INVOKED, WRITE_REFUSED
from ..oracles import after_crash
from ..process import Process
from ..scenarios import ground
from ..scenarios.scenario import ScenarioSetting
from ..store import Contents
from ..world import Oracle
from .verdicts import LOST, final
from .workload import Workload


async def committer(setting: ScenarioSetting, name: str, arguments: Arguments) -> None:
    """Follow ``script``; keys are those of rows, and values are named after the process and the step.

    ``append``, ``upsert``, ``update``, ``delete``, ``overwrite``: keys. ``restore``: null, for version 1, which is
    empty. ``add_column``, ``drop_column``: a name. ``clone``: whether it is shallow. ``compact``, ``configure``,
    ``read``: null. ``insists``: continue where a step fails. What the table forbids is no failure: it was not done.
    """
    for number, step in enumerate(arguments["script"], 1):
        ((word, argument),) = step.items()
        try:
            await _take(Telling(setting.table, word, argument, f"{name}/{number}", f"{name}.{number}"))
        except Outcome:
            if not arguments.get("insists", False):
                raise


@dataclass(frozen=True, slots=True)
class Telling:
    """One step of a script."""

    table: Io
    word: str
    argument: Any
    call: str
    """Name of the call."""
    value: str
    """For rows that it writes."""


async def _take(told: Telling) -> None:
    io = told.table
    if told.word == "read":
        await io.note(READ_INVOKED, read=told.call)
        await io.note(READ_RETURNED, read=told.call, rows=await _rows(io))
        return
    if told.word not in ROWS and told.word != "restore":
        await _maintain(told)
        return
    keys = told.argument if told.word in ROWS else ()
    rows = tuple((key, None if told.word == "delete" else told.value) for key in keys)
    call = f"{told.word} {told.call}"
    await io.note(WRITE_INVOKED, write=call, rows=rows)
    try:
        await (ROWS[told.word](told) if told.word in ROWS else _restore(io))
    except (InvalidArgument, NotFound):
        await io.note(WRITE_REFUSED, write=call)
        return
    await io.note(WRITE_ACKNOWLEDGED, write=call)


def _table(told: Telling) -> pa.Table:
    return ground.rows_table(dict.fromkeys(told.argument, told.value))


def _select(keys: Sequence[str], rows: pa.Table) -> npt.NDArray[np.bool_]:
    return np.array([key in keys for key in rows.column(ground.KEY).to_pylist()], dtype=np.bool_)


def _selecting(told: Telling) -> Callable[[pa.Table], npt.NDArray[np.bool_]]:
    return partial(_select, tuple(told.argument))


def _valued(told: Telling, rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index(ground.VALUE)
    return rows.set_column(place, ground.VALUE, pa.array([told.value] * rows.num_rows, pa.string()))


async def _fitting(table: Io, rows: pa.Table) -> pa.Table:
    """``rows`` with NULL in columns that the table has besides."""
    schema = (await latest(table)).schema
    columns = [
        rows[name] if name in rows.schema.names else pa.nulls(len(rows), schema.field(name).type)
        for name in schema.names
    ]
    return pa.table(columns, schema=schema)


async def _append(told: Telling) -> None:
    await write.append(told.table, await _fitting(told.table, _table(told)))


async def _delete(told: Telling) -> None:
    await write.delete(told.table, _selecting(told), f"{ground.KEY} IN {told.argument}")


async def _update(told: Telling) -> None:
    await write.update(told.table, _selecting(told), partial(_valued, told))


async def _upsert(told: Telling) -> None:
    rows = await _fitting(told.table, _table(told))
    await write.retried(told.table, lambda state: write.merge_insert(told.table, state, rows))


async def _overwrite(told: Telling) -> None:
    await whole.overwrite(told.table, _table(told))


async def _restore(table: Io) -> None:
    await whole.restore(table, TableVersion(1))


ROWS: Mapping[str, Callable[[Telling], Coroutine[Any, Any, None]]] = MappingProxyType(
    {"append": _append, "delete": _delete, "update": _update, "upsert": _upsert, "overwrite": _overwrite}
)
"""Steps that change rows, whose argument is keys."""


async def _maintain(told: Telling) -> None:
    """What changes no row."""
    io = told.table
    with suppress(InvalidArgument):
        match told.word:
            case "compact":
                await compaction.compact(io)
            case "configure":
                await write.set_config(io, {f"key.{told.value}": told.value})
            case "add_column":
                await columns.add(io, pa.schema([pa.field(told.argument, pa.string())]))
            case "drop_column":
                await columns.drop(io, [told.argument])
            case "clone":
                await cloning.clone(io.child(f"clones/{told.value}"), io, shallow=told.argument)
            case _:
                raise InvalidArgument(f"a committer cannot {told.word!r}")


async def compactor(setting: ScenarioSetting, name: str, _arguments: Arguments) -> None:
    """Compact the table."""
    await committer(setting, name, {"script": [{"compact": None}]})


async def configurer(setting: ScenarioSetting, name: str, _arguments: Arguments) -> None:
    """Set a key of the table's config."""
    await committer(setting, name, {"script": [{"configure": None}]})


async def reader(setting: ScenarioSetting, name: str, arguments: Arguments) -> None:
    """Read the newest version, as often as ``script`` says."""
    await committer(setting, name, {"script": [{"read": None}], **arguments})


async def _rows(table: Io) -> Rows:
    """All rows of the newest version, sorted; a key may be there several times."""
    found = await table_read.scan(table, await latest(table))
    return tuple(sorted(zip(found.column(ground.KEY).to_pylist(), found.column(ground.VALUE).to_pylist(), strict=True)))


def judge(found: Rows, history: History) -> Violation | None:
    """Some order of the commits explains every read and the rows that are there."""
    calls = [call for call in (*history.calls, final(history, found)) if call.counts]
    if linearization(map(_step, calls), ()) is not None:
        return None
    shown = tuple((call.name, f"{call.outcome} [{call.invoked}, {call.returned}] {call.rows}") for call in calls)
    return Violation("TXN-002", LOST, f"no order of the commits explains the rows {found}", shown)


def _step(call: Call) -> ObjectStep[Rows]:
    return ObjectStep(
        name=call.name,
        invoked=call.invoked,
        returned=call.returned,
        optional=call.outcome == "unknown",
        reading=call.kind == "read",
        apply=partial(_applied, call),
    )


def _applied(call: Call, rows: Rows) -> Rows | None:
    if call.kind == "read":
        return rows if rows == call.rows else None
    if call.name.startswith("append"):
        return tuple(sorted((*rows, *call.rows)))
    if call.name.startswith("overwrite"):
        return tuple(sorted(call.rows))
    if call.name.startswith("restore"):
        return ()
    named = {key for key, _ in call.rows}
    if call.name.startswith("update"):
        changed = dict(call.rows)
        return tuple(sorted((key, changed.get(key, value)) for key, value in rows))
    left = [row for row in rows if row[0] not in named]
    return tuple(sorted(left if call.name.startswith("delete") else (*left, *call.rows)))


def oracles(setting: ScenarioSetting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""
    return (after_crash(Process("last-reader", partial(_rows, setting.table)), judge, clause="TXN-004"),)


@lru_cache
def _created() -> Contents:
    creator = Process("creator", partial(write.create, ground.TABLE, ground.SCHEMA))
    return ground.after(Contents(), creator).contents


WORKLOAD = Workload(
    name="committing",
    title="one table whose rows, columns and config several processes change",
    roles={"committer": committer, "compactor": compactor, "configurer": configurer, "reader": reader},
    contents=lambda _setting: _created(),
    oracles=oracles,
)
