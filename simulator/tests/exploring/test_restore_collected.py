"""A Restore at the same time as a collector that expires the version that is restored."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import pytest
from memwal.effects import Io
from memwal.errors import InvalidArgument, NotFound
from memwal.ids import TableVersion
from memwal.index import guards
from memwal.jobs import collector
from memwal.revisions import STRICT, B
from memwal.table import read, state, whole, write
from memwal.violations import Violation
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore
from memwal_sim.oracles import after_crash
from memwal_sim.process import Process, run_alone
from memwal_sim.scenarios import ground
from memwal_sim.store import Contents
from memwal_sim.world import World

IO = Io(interpretation=STRICT)


async def _history() -> int:
    """Rows that only the version returned has."""
    await write.append(IO, ground.rows_table({"k1": "a"}))
    held = await write.append(IO, ground.rows_table({"k2": "b"}))
    await write.delete(IO, lambda table: np.full(table.num_rows, fill_value=True), "true")
    return held.version


@lru_cache
def _begun() -> tuple[Contents, TableVersion]:
    alone = run_alone(Process("history", _history), ground.table(B))
    assert alone.end.failure is None, alone.end.failure
    return alone.contents, TableVersion(alone.end.result)  # type: ignore[arg-type]


async def _restoring(version: TableVersion) -> None:
    try:
        await whole.restore(IO, version, guards.may_revert(IO))
        await IO.note("restored")
    except (NotFound, InvalidArgument):
        await IO.note("refused")


async def _collecting() -> None:
    await collector.collect(IO, collector.Policy(retain_versions=1))


async def _reading() -> tuple[str, ...]:
    found = await read.scan(IO, await state.latest(IO))
    return tuple(sorted(found.column(ground.KEY).to_pylist()))


def _judge(keys: tuple[str, ...], ghosts: tuple[str, ...]) -> Violation | None:
    wanted = [("k1", "k2")] if "restored" in ghosts else [()] if "refused" in ghosts else [(), ("k1", "k2")]
    return None if keys in wanted else Violation("TXN-035", "a restore is whole", f"{keys} after {ghosts}")


@pytest.mark.clause("TXN-035", "GC-003", "TXN-003")
def test_a_restored_version_keeps_its_files_in_every_interleaving_with_a_collector() -> None:
    contents, version = _begun()
    world = World(
        contents=contents,
        processes=(Process("restore", partial(_restoring, version)), Process("collector", _collecting)),
        ghosts=(),
        observe=lambda ghosts, actor, note: (*ghosts, note.event) if note.event in ("restored", "refused") else ghosts,
        oracles=(after_crash(Process("reader", _reading), _judge, clause="TXN-035"),),
    )
    found = explore(world, Bounds(preemptions=3))
    assert found.complete, found.violation
