"""Scenarios of committers of one Lance table, by each way in which a version can be created."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa
from memwal.effects import Commits, Io
from memwal.ids import TableVersion
from memwal.table import read as reading
from memwal.table import versions, write
from memwal.table.state import latest
from memwal.violations import Violation

from ..histories.history import History
from ..histories.notes import HEARD, WRITE_ACKNOWLEDGED, WRITE_INVOKED, observe_condensed
from ..oracles import after_crash
from ..process import Process
from ..store import Contents, Traits
from ..world import World, says
from . import ground, writes
from .scenario import Scenario, ScenarioSetting


async def _appending(io: Io, name: str, key: str) -> None:
    """Append one row, in a commit called ``name``."""
    await io.note(WRITE_INVOKED, write=name, rows=((key, name),))
    await write.append(io, ground.rows_table({key: name}))
    await io.note(WRITE_ACKNOWLEDGED, write=name)


@dataclass(frozen=True, slots=True)
class SeenCommits:
    """What readers see after a crash."""

    unaware: TableVersion
    """Newest version for a reader that does not know an external store, before any other process reads."""
    rows: ground.Pairs
    """Keys and values of a reader that knows how the table is committed, sorted."""
    version: TableVersion
    """Its version."""
    unaware_after: TableVersion
    """Newest version for the first reader, after the second has read."""


async def rows(io: Io) -> pa.Table:
    """All rows of the newest version."""
    return await reading.scan(io, await latest(io))


async def _looking(io: Io) -> SeenCommits:
    plain = replace(io, commits=Commits.PUT)
    before = (await versions.listing(plain)).versions[-1]
    newest = await latest(io)
    found = await reading.scan(io, newest)
    return SeenCommits(before, ground.pairs(found), newest.version, (await versions.listing(plain)).versions[-1])


@says(writes.SURVIVE, "each commit is applied once", "at most one version behind", "a reader finishes the commit")
def _judge(seen: SeenCommits, ghosts: History) -> Violation | None:
    violation = writes.judge(dict(seen.rows), ghosts)
    if len(dict(seen.rows)) < len(seen.rows):
        violation = Violation("TXN-002", "each commit is applied once", f"the table holds {seen.rows}")
    if violation is None and seen.version - seen.unaware > 1:
        reason = f"a reader that is not aware of the external store is at {seen.unaware}, the table at {seen.version}"
        violation = Violation("EXT-003", "at most one version behind", reason)
    if violation is None and seen.unaware_after != seen.version:
        reason = f"version {seen.version} was read, and another reader finds {seen.unaware_after}"
        violation = Violation("EXT-011", "a reader finishes the commit", reason)
    return violation


_STORES = {
    Commits.PUT: Traits(renames_if_absent=False),
    Commits.RENAME: Traits(puts_if_absent=False),
    Commits.EXTERNAL: Traits(puts_if_absent=False, renames_if_absent=False),
}
"""What the store offers: no more than the way of committing needs (AMB-121)."""


@lru_cache
def table(commits: Commits) -> Contents:
    """A store that offers what this way of committing needs, with an empty table."""
    creator = Process("creator", partial(write.create, replace(ground.TABLE, commits=commits), ground.SCHEMA))
    return ground.after(Contents(traits=_STORES[commits]), creator).contents


def _committers(commits: Commits, setting: ScenarioSetting) -> World:
    """Two processes append a row each to one table."""
    io = replace(setting.table, commits=commits)
    return World(
        contents=table(commits),
        processes=tuple(
            Process(name, partial(_appending, io, name, f"k{number}"))
            for number, name in enumerate(("committer-1", "committer-2"), 1)
        ),
        ghosts=History(),
        observe=observe_condensed,
        heard=HEARD,
        oracles=(after_crash(Process("reader", partial(_looking, io)), _judge, clause="TXN-004"),),
    )


SCENARIOS = tuple(
    Scenario(
        name=f"two_commits_{commits.value}",
        title=f"two commits to one table, versions created by {words}",
        about="Two processes append a row each to one table.",
        build=partial(_committers, commits),
        canary="canary_commits",
        sometimes=("rebased",),
        hazards=hazards,
    )
    for commits, words, hazards in (
        (Commits.PUT, "put-if-not-exists", ()),
        (Commits.RENAME, "rename-if-not-exists", ()),
        (Commits.EXTERNAL, "an external manifest store", ("AMB-124", "AMB-125")),
    )
)
