"""One region's life: writers that claim it, write, flush, stall and die, and readers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from memwal.read import scan
from memwal.read.sources import MemoryView
from memwal.region.writer import Writer, open_writer
from memwal.revisions import Interpretation

from .. import ground
from ..cast import Arguments
from ..oracles import after_crash
from ..process import Process
from ..scenario import Setting
from ..world import Oracle, Violation
from ..writes import READ_INVOKED, READ_RETURNED, WRITE_ACKNOWLEDGED, WRITE_INVOKED
from . import account
from .account import Account
from .play import Play

_KEYS = pa.schema([ground.SCHEMA.field(ground.KEY)])


async def writer(setting: Setting, name: str, arguments: Arguments) -> None:
    """Open the region and follow ``script``: ``{"put": {key: value}}``, ``{"delete": [key]}``, ``{"flush": null}``.

    ``collected``: whether WAL entries and manifest versions of the region may be collected.
    """
    collected = arguments.get("collected", False)
    opened = await open_writer(ground.region(setting, wal_collection=collected, manifest_collection=collected))
    await following(opened, name, arguments["script"])


async def following(opened: Writer, name: str, script: Sequence[Mapping[str, Any]]) -> None:
    """Do what ``script`` says with an open writer; its n-th step is announced as the write ``name``/n."""
    for number, step in enumerate(script, 1):
        ((what, told),) = step.items()
        if what == "flush":
            await opened.flush()
            continue
        write, io = f"{name}/{number}", opened.region.io
        rows = tuple(told.items()) if what == "put" else tuple((key, None) for key in told)
        await io.note(WRITE_INVOKED, write=write, rows=rows)
        if what == "put":
            await opened.put(ground.rows_table(told))
        else:
            await opened.delete(pa.table({ground.KEY: list(told)}, schema=_KEYS))
        await io.note(WRITE_ACKNOWLEDGED, write=write)


async def reader(setting: Setting, name: str, arguments: Arguments) -> None:
    """Read the whole table strongly, ``times`` times."""
    for number in range(1, arguments["times"] + 1):
        await ground.TABLE.note(READ_INVOKED, read=f"{name}/{number}")
        found = await seen(setting.interpretation)
        await ground.TABLE.note(READ_RETURNED, read=f"{name}/{number}", rows=tuple(sorted(found.items())))


async def seen(interpretation: Interpretation, *memory: MemoryView) -> dict[str, str]:
    """Key -> value of a strong read of the table."""
    return ground.rows_of(await scan.scan(ground.TABLE, memory=memory, interpretation=interpretation))


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there when everybody has crashed and one writer recovers, key -> value."""

    remote: dict[str, str]
    """Strong read before anybody recovered."""
    recovered: dict[str, str]
    """Strong read with the memory of the writer that recovered."""
    flushed: dict[str, str]
    """Strong read after it flushed."""


async def recovery(setting: Setting) -> Seen:
    """Read, recover the region as a fresh writer, read, flush, and read again."""
    remote = await seen(setting.interpretation)
    opened = await open_writer(ground.region(setting))
    recovered = await seen(setting.interpretation, memory_of(opened))
    await opened.flush()
    return Seen(remote, recovered, await seen(setting.interpretation))


def memory_of(opened: Writer) -> MemoryView:
    """What ``opened`` holds in memory, for readers in its process."""
    held = opened.unflushed()
    return MemoryView(opened.region.region_id, opened.epoch, tuple((each.generation, each.table()) for each in held))


def judge(found: Seen, calls: Account) -> Violation | None:
    """The rows are explained by the calls; recovery and flush change none."""
    violation = account.judge(found.remote, calls)
    if violation is None and found.recovered != found.remote:
        reason = f"the table holds {found.remote}, and {found.recovered} after recovery"
        violation = Violation("AMB-141", "recovery keeps all rows", reason)
    if violation is None and found.flushed != found.recovered:
        reason = f"the table holds {found.recovered} after recovery, and {found.flushed} after the writer's flush"
        violation = Violation("FLUSH-004", "a flush keeps all rows", reason)
    return violation


def oracles(setting: Setting) -> tuple[Oracle, ...]:
    """What must hold of the region at any time."""

    def recovering() -> Any:
        return recovery(setting)

    return (after_crash(Process("recovery", recovering), judge), *ground.stored_invariants())


PLAY = Play(
    name="region_life",
    title="writers of one region that write, flush, stall and die, and strong readers",
    roles={"writer": writer, "reader": reader},
    contents=lambda setting: ground.table(setting.revision),
    oracles=oracles,
)
