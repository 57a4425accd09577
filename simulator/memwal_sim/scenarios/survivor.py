"""What must be possible after a crash of every process: recovery, and then every job, without a row changing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from memwal.jobs.merger import merge_region
from memwal.region.opening import open_writer
from memwal.table import read as table_read
from memwal.table.state import latest
from memwal.violations import Violation

from ..oracles import after_crash
from ..process import Process
from ..world import Oracle, says
from . import ground, writes
from .actors import Workplace, memory_of, seen
from .ground import Pairs


@dataclass(frozen=True, slots=True)
class SeenRows:
    """What readers see after a crash: (key, value) pairs, sorted."""

    remote: Pairs
    """Strong read by a process of its own."""
    recovered: Pairs
    """Strong read with the memory of the writer that recovered."""
    flushed: Pairs
    """Strong read after the writer flushed."""
    merged: Pairs
    """The base table alone, after everything was merged."""


async def surviving(place: Workplace) -> SeenRows:
    """Read, recover the region as a fresh writer, read, flush, read, merge, and read the base."""
    remote = ground.pairs(await seen(place))
    writer = await open_writer(place.region)
    recovered = ground.pairs(await seen(place, memory_of(writer)))
    await writer.flush()
    flushed = ground.pairs(await seen(place, memory_of(writer)))
    await merge_region(place.table, place.region.region_id)
    merged = ground.pairs(await table_read.scan(place.table, await latest(place.table)))
    return SeenRows(remote, recovered, flushed, merged)


_STAGES = (
    (
        "recovered",
        "AMB-141",
        "strong reads agree",
        "another process reads {before}, and the recovered writer's {after}",
    ),
    ("flushed", "FLUSH-004", "a flush keeps all rows", "the table holds {before}, and {after} after the flush"),
    ("merged", "MERGE-001", "a merge keeps all rows", "the table holds {before}, and its base {after} after the merge"),
)
"""What is compared with the rows before it: field, clause, oracle, reason."""
ONCE = "each key is there once"
_OBJECTIONS = (ONCE, writes.SURVIVE, *(oracle for _, _, oracle, _ in _STAGES))


Explained: TypeAlias = Callable[[Mapping[str, str], Any], Violation | None]
"""Whether what clients did, which are ghosts of any kind, explains rows (key -> value)."""


@says(*_OBJECTIONS)
def judge(found: SeenRows, ghosts: Any, explained: Explained = writes.judge) -> Violation | None:
    """The writes explain the rows, each key is there once, and neither recovery, flush nor merge changes any."""
    for pairs in (found.remote, found.recovered, found.flushed, found.merged):
        twice = next((one for one, other in zip(pairs, pairs[1:], strict=False) if one[0] == other[0]), None)
        if twice is not None:
            reason = f"a read finds key {twice[0]} twice: {pairs}"
            return Violation("READ-002", ONCE, reason)
    violation = explained(dict(found.recovered), ghosts)
    before = found.remote
    for field, clause, oracle, reason in _STAGES:
        after: Pairs = getattr(found, field)
        if violation is None and after != before:
            violation = Violation(clause, oracle, reason.format(before=before, after=after))
        before = after
    return violation


def survives(place: Workplace, explained: Explained = writes.judge) -> Oracle:
    """The oracle that after a crash of every process the region recovers, flushes and merges to what was written.

    ``explained``: by something else than the order of writes.
    """
    judged = says(*_OBJECTIONS)(partial(judge, explained=explained))
    return after_crash(Process("survivor", partial(surviving, place)), judged)
