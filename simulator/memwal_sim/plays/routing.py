"""Region specs and routing: processes that change the spec, and writers that follow the one that they know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from memwal.ids import SpecId
from memwal.index import regions, spec_requests, transforms
from memwal.index.opening import region_of
from memwal.jobs import spec_change
from memwal.jobs.merger import merge_region
from memwal.region.writer import open_writer
from memwal.table.state import TableState, latest

from .. import ground
from ..cast import Arguments
from ..oracles import after_crash
from ..process import Process
from ..scenario import Setting
from ..store import Contents
from ..world import Oracle, Violation
from ..writes import WRITE_ACKNOWLEDGED, WRITE_INVOKED
from . import account
from .account import Account
from .play import Play
from .region import reader, seen

FIELD = "b"
"""The one field of every spec."""


async def changer(setting: Setting, _name: str, arguments: Arguments) -> None:
    """Make a spec with ``buckets`` buckets of the key govern new writes."""
    request = spec_requests.bucket(FIELD, ground.KEY, arguments["buckets"])
    await spec_change.add_spec(ground.TABLE, request, interpretation=setting.interpretation)


async def routed_writer(setting: Setting, name: str, arguments: Arguments) -> None:
    """Look up the region of ``key``, register it if it is new, open it, and put ``values`` one after another.

    ``flush``: flush after the last one.
    """
    io, key = ground.TABLE, arguments["key"]
    state = await latest(io)
    if regions.active_spec(state.mem_wal) is None:
        return
    wanted = _region_value(state, key)
    registered = await regions.register(io, wanted, interpretation=setting.interpretation)
    known = await regions.known(io, registered.state, setting.interpretation)
    (row,) = (row for row in known if row.region_id == registered.region_id)
    opened = await open_writer(region_of(io, registered.state, row, interpretation=setting.interpretation))
    await spec_change.admit(io, row, interpretation=setting.interpretation)
    for number, value in enumerate(arguments["values"], 1):
        await io.note(WRITE_INVOKED, write=f"{name}/{number}", rows=((key, value),))
        await opened.put(ground.rows_table({key: value}))
        await io.note(WRITE_ACKNOWLEDGED, write=f"{name}/{number}")
    if arguments["flush"]:
        await opened.flush()


def _region_value(state: TableState, key: str) -> dict[str, object]:
    spec = regions.active_spec(state.mem_wal)
    assert spec is not None
    names = {number: column for column, number in state.field_ids.items()}
    (found,) = transforms.evaluate(spec, ground.rows_table({key: ""}), names, revision=state.revision).to_pylist()
    return dict(found)


async def drainer(setting: Setting, _name: str, _arguments: Arguments) -> None:
    """Flush and merge every region, so that another spec can follow."""
    await _drain(setting)


async def _drain(setting: Setting) -> None:
    io = ground.TABLE
    state = await latest(io)
    for row in sorted(await regions.known(io, state, setting.interpretation), key=lambda row: row.region_id):
        opened = await open_writer(region_of(io, state, row, interpretation=setting.interpretation))
        await opened.flush()
        await merge_region(io, row.region_id, setting.interpretation)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there when everybody has crashed, key -> value, and the specs."""

    remote: dict[str, str]
    drained: dict[str, str]
    """After every region was flushed and merged."""
    specs: tuple[SpecId, ...]


async def aftermath(setting: Setting) -> Seen:
    """Read, drain every region, and read again."""
    remote = await seen(setting.interpretation)
    await _drain(setting)
    state = await latest(ground.TABLE)
    specs = tuple(spec.spec_id for spec in state.mem_wal.specs)
    return Seen(remote, await seen(setting.interpretation), specs)


def judge(found: Seen, calls: Account) -> Violation | None:
    """Each key is one register, whatever spec its writers followed; spec ids are used once."""
    violation = account.judge(found.remote, calls, together=False)
    if violation is None and found.drained != found.remote:
        reason = f"the table holds {found.remote}, and {found.drained} after every region was drained"
        violation = Violation("MERGE-001", "a merge keeps all rows", reason)
    if violation is None and len(set(found.specs)) < len(found.specs):
        violation = Violation("REGION-008", "spec ids are used once", f"the table lists the specs {found.specs}")
    return violation


def oracles(setting: Setting) -> tuple[Oracle, ...]:
    """What must hold of the table at any time."""

    def after() -> Any:
        return aftermath(setting)

    return (after_crash(Process("aftermath", after), judge), *ground.stored_invariants())


def _contents(setting: Setting) -> Contents:
    creator = Process("first-spec", partial(changer, setting, "first-spec", {"buckets": 1}))
    return ground.after(ground.table(setting.revision), creator).contents


PLAY = Play(
    name="routing",
    title="changes of region specs, and writers that follow the spec that they know",
    roles={"writer": routed_writer, "changer": changer, "drainer": drainer, "reader": reader},
    contents=_contents,
    oracles=oracles,
)
