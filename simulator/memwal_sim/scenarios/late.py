"""Rows and attempts that come late, for scenarios: writers that compare (AMB-148), tasks that leave marks (AMB-149).

A row's value is its sequence, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memwal.codec import marks as coding
from memwal.codec.marks import Mark
from memwal.ids import SpecId
from memwal.index.snapshot import RegionRow
from memwal.jobs import marks
from memwal.jobs.opening import open_region
from memwal.region.sequences import SequenceBy
from memwal.table.state import latest
from memwal.violations import Violation

from ..histories.history import Call, History
from ..histories.notes import HEARD, WRITE_ACKNOWLEDGED, WRITE_INVOKED, observe_condensed
from ..oracles import Asking
from ..process import Process
from ..world import World, says
from . import ground
from .actors import Acting, Action
from .clients import COLLECTED, after_all, everything_can_finish, place
from .ground import VALUE
from .scenario import ScenarioSetting
from .scripts import WORDS as OF_ONE_REGION
from .scripts import Given, Words
from .survivor import survives
from .writes import SURVIVE


async def opened(acting: Acting) -> None:
    """Open the region as `memwal.Table.writer` does, with the value as sequence column."""
    io = acting.place.table
    row = RegionRow(region_id=acting.place.region.region_id, spec_id=SpecId(0), values=(), manifest=None)
    sequence = SequenceBy(column=VALUE)
    acting.writer, _ = await open_region(io, await latest(io), row, registered=False, sequence=sequence)


def task(given: Given) -> Action:
    """An attempt of a task, as the data source of Spark makes it. Argument: ``batch`` and ``rows``.

    It is over where the task is finished already: before the claim, or in what the claim finds.
    """
    batch, rows = int(given.argument["batch"]), dict(given.argument["rows"])
    mark = Mark(application="job", batch=batch, partitions=(0,))

    async def step(acting: Acting) -> None:
        io, region = acting.place.table, acting.place.region
        if coding.is_done(await marks.done(io, region), mark):
            return await io.note("task_skipped", batch=batch)
        await opened(acting)
        writer = await acting.opened()
        held = [each for memtable in writer.unflushed() for each in memtable.done]
        if coding.is_done(await marks.done(io, writer.region, held), mark):
            return await io.note("task_skipped", batch=batch)
        name = f"{batch}/{acting.name}"
        await io.note(WRITE_INVOKED, write=name, rows=tuple(rows.items()))
        await writer.put(ground.rows_table(rows))
        await io.note(WRITE_ACKNOWLEDGED, write=name)
        await io.note(WRITE_INVOKED, write=f"{name}/{FINISHED}", rows=())
        await writer.finish(mark)
        return await io.note(WRITE_ACKNOWLEDGED, write=f"{name}/{FINISHED}")

    return step


FINISHED = "finished"
"""Of a task's attempt the write that says so, which has no rows, ends with it; each begins with the batch."""
WORDS: Words = {**OF_ONE_REGION, "open": lambda _: opened, "task": task}
"""What a client may do; each that puts opens the region first."""


def world(setting: ScenarioSetting, processes: Sequence[Process], before: Sequence[Process]) -> World:
    """``processes`` on an empty table whose WAL may be collected, after those of ``before`` ran alone."""
    begun, ghosts = after_all(ground.table(setting.revision, **COLLECTED), before)
    where = place(setting, collected=True)
    return World(
        contents=begun,
        processes=tuple(processes),
        ghosts=ghosts,
        observe=observe_condensed,
        heard=HEARD,
        oracles=(survives(where, explained=highest), finished_tasks_put_nothing, *ground.stored_invariants()),
        liveness=(everything_can_finish(where),),
    )


@says(SURVIVE)
def highest(rows: Mapping[str, str], history: History) -> Violation | None:
    """Each key holds what was put, and nothing that is lower than what was acknowledged."""
    for write in history.acknowledged:
        for key, value in write.rows:
            found = rows.get(key)
            if value is not None and (found is None or found < value):
                reason = f"write {write.name} put {key}={value} and was acknowledged, and {key} holds {found}"
                shown = (("acknowledged", ", ".join(each.name for each in history.acknowledged)),)
                return Violation("AMB-148", SURVIVE, reason, shown)
    put = {row for write in history.writes for row in write.rows}
    for row in sorted(rows.items()):
        if row not in put:
            return Violation("AMB-22", SURVIVE, f"{row[0]}={row[1]} is there, and was never put", ())
    return None


ONCE = "a finished task puts nothing"
"""Name of the oracle for marks."""


@says(ONCE)
def _told(_contents: object, history: History) -> Violation | None:
    """Nothing is put for a task, or for an older batch, after it was acknowledged that the task is finished."""
    tasks = [call for call in history.acknowledged if call.name[0].isdigit()]
    for finish in (call for call in tasks if call.name.endswith(FINISHED)):
        for put in (call for call in tasks if call.rows and finish.precedes(call) and _batch(call) <= _batch(finish)):
            reason = f"{put.name} put its rows, and batch {_batch(finish)} was finished before: {finish.name}"
            return Violation("AMB-149", ONCE, reason, ())
    return None


def _batch(call: Call) -> int:
    return int(call.name.partition("/")[0])


finished_tasks_put_nothing = Asking(_told)
"""Oracle over what the attempts were told; it looks at nothing that is stored."""
