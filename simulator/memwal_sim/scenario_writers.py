"""Scenarios of writers of one region: claim, put, flush, by two or more at once, and recovery after every crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from memwal.read import scan
from memwal.read.sources import MemoryView
from memwal.region.region import Region
from memwal.region.writer import Writer, open_writer
from memwal.revisions import Interpretation

from . import ground, writes
from .oracles import after_crash
from .process import Process
from .scenario import Scenario, Setting
from .world import Violation, World
from .writes import WRITE_ACKNOWLEDGED, WRITE_INVOKED, Writes, observe_writes

RowsWritten = Mapping[str, str]
"""Key -> value."""


async def client(region: Region, name: str, rows: RowsWritten, *, flush: bool) -> None:
    """Open the region, write ``rows`` in one put called ``name``, and flush the MemTable."""
    writer = await open_writer(region)
    await region.io.note(WRITE_INVOKED, write=name, rows=tuple(rows.items()))
    await writer.put(ground.rows_table(rows))
    await region.io.note(WRITE_ACKNOWLEDGED, write=name)
    if flush:
        await writer.flush()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a fresh writer and strong readers see after a crash, key -> value."""

    recovered: dict[str, str]
    """Strong read with the memory of the writer that recovered."""
    remote: dict[str, str]
    """Strong read without it, by a process of its own."""
    flushed: dict[str, str]
    """Strong read after the writer flushed."""


async def recovery(region: Region) -> Seen:
    """Recover the region as a fresh writer, and read."""
    writer = await open_writer(region)
    recovered = await read(writer.region.interpretation, memory_of(writer))
    remote = await read(writer.region.interpretation)
    await writer.flush()
    return Seen(recovered, remote, await read(writer.region.interpretation, memory_of(writer)))


async def read(interpretation: Interpretation, *memory: MemoryView) -> dict[str, str]:
    """Key -> value of a strong read of the table."""
    return ground.rows_of(await scan.scan(ground.TABLE, memory=memory, interpretation=interpretation))


def memory_of(writer: Writer) -> MemoryView:
    """What ``writer`` holds in memory, for readers in its process."""
    held = [*writer.frozen, writer.memtable]
    return MemoryView(writer.region.region_id, writer.epoch, tuple((each.generation, each.table()) for each in held))


def judge(seen: Seen, ghosts: Writes) -> Violation | None:
    """The rows are explained by the writes; remote readers see them; the recovered writer's flush changes none."""
    violation = writes.judge(seen.recovered, ghosts)
    if violation is None and seen.remote != seen.recovered:
        reason = f"the recovered writer's process reads {seen.recovered}, and another process reads {seen.remote}"
        violation = Violation("AMB-141", "strong reads agree", reason)
    if violation is None and seen.flushed != seen.recovered:
        reason = f"the table holds {seen.recovered} after recovery, and {seen.flushed} after the writer's flush"
        violation = Violation("FLUSH-004", "a flush keeps all rows", reason)
    return violation


def writers_on(setting: Setting, writes_of: Mapping[str, RowsWritten], *, flush: bool) -> World:
    """One client per entry of ``writes_of`` (process name -> rows of its one put), all on the same new region."""
    where = ground.region(setting)
    return World(
        contents=ground.table(setting.revision),
        processes=tuple(
            Process(name, partial(client, where, name, rows, flush=flush)) for name, rows in writes_of.items()
        ),
        ghosts=Writes(),
        observe=observe_writes,
        oracles=(after_crash(Process("recovery", partial(recovery, where)), judge), *ground.stored_invariants()),
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
