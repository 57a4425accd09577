"""A table with two indexes that MemTables carry too, clients that keep them, and what must hold of searches by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from memwal.codec.index_details import IndexDetails
from memwal.effects import Io
from memwal.ids import Milliseconds
from memwal.index import mem_wal
from memwal.invariants.index import catch_up_is_not_ahead_of_merging, catch_up_never_goes_back
from memwal.maintained import base_index
from memwal.read import scan
from memwal.region.opening import open_writer
from memwal.region.writer import RegionWriter
from memwal.revisions import CONFIG_REVISION, Revision
from memwal.table import write
from memwal.table.coverage import covered, index_names
from memwal.table.origins import merged_fragments
from memwal.table.state import TableState, latest, load, versions
from memwal.violations import Violation

from .. import fixtures
from ..histories.history import Call, History
from ..histories.notes import HEARD, WRITE_ACKNOWLEDGED, WRITE_INVOKED, observe_condensed
from ..oracles import after_crash, inspected
from ..process import Process
from ..store import Contents
from ..world import Oracle, World, says
from . import ground, scripts, searching
from .actors import Acting, Action, Workplace, memory_of
from .clients import after_all
from .ground import TABLE
from .scenario import ScenarioSetting
from .scripts import Words
from .searching import Hit
from .survivor import survives
from .writes import reads_are_explained

BY_VALUE = "by_value"
FIXTURE = "indexed_table"
BASE = Call(name="fixture/1", rows=(("base", "v0"),), invoked=0, returned=0, outcome="ok")
"""The write of the row that the table begins with."""
BEGUN = History((BASE,))
"""What was written to the table before anything else."""
SEARCH = "a search equals a scan"
CREDIT = "an index covers what it is credited with"


def place(setting: ScenarioSetting) -> Workplace:
    """The one region, and the table around it."""
    return Workplace(region=ground.region(setting))


def table(revision: Revision, *maintained: str) -> Contents:
    """Contents of a store with the table of the fixture, MemWAL enabled, and MemTables that carry ``maintained``."""
    return _table(revision, maintained)


@lru_cache
def _table(revision: Revision, maintained: tuple[str, ...]) -> Contents:
    enabler = Process("administrator-0", partial(_enabled, revision, maintained))
    return ground.after(fixtures.load(FIXTURE), enabler).contents


async def _enabled(revision: Revision, maintained: tuple[str, ...]) -> TableState:
    configured = await write.set_config(TABLE, {CONFIG_REVISION: revision.name})
    details = IndexDetails(
        snapshot_ts_ms=Milliseconds(0), num_regions=0, inline_snapshots=None, maintained_indexes=maintained
    )
    return await mem_wal.enable(TABLE, configured, details)


async def opened(acting: Acting) -> None:
    """Open the region, anew if it was opened before, with the indexes that the table maintains."""
    acting.writer = await _opened(acting.place)


async def _opened(place: Workplace) -> RegionWriter:
    maintained = await base_index.load(place.table, await latest(place.table))
    return await open_writer(place.region, maintained=maintained)


def put_together(rows: Mapping[str, str]) -> Action:
    """The step that makes one write of each row, stores all of them as one WAL entry, and then acknowledges them."""

    async def step(acting: Acting) -> None:
        writer, names = await acting.opened(), []
        for key, value in rows.items():
            acting.writes += 1
            names.append(f"{acting.name}/{acting.writes}")
            await acting.place.table.note(WRITE_INVOKED, write=names[-1], rows=((key, value),))
            await writer.put(ground.rows_table({key: value}), durable=False)
        await writer.flush_wal()
        for name in names:
            await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def append(values: Mapping[str, str]) -> Action:
    """The step that appends rows (key -> value) to the base table, past all regions."""

    async def step(acting: Acting) -> None:
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await acting.place.table.note(WRITE_INVOKED, write=name, rows=tuple(values.items()))
        await write.append(acting.place.table, ground.rows_table(values))
        await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


def maintain_unrecorded(*names: str) -> Action:
    """The step that makes ``names`` the maintained indexes as an engine does that records no catch-up for them."""

    async def derive(_: TableState, details: IndexDetails) -> IndexDetails:
        return replace(details, maintained_indexes=names)

    async def step(acting: Acting) -> None:
        await mem_wal.change(acting.place.table, derive)

    return step


WORDS: Words = {
    **scripts.WORDS,
    "open": lambda _: opened,
    "put_together": lambda given: put_together(given.argument),
    "append": lambda given: append(given.argument),
    "maintain_unrecorded": lambda given: maintain_unrecorded(*given.argument),
}
"""What a client of the table may do: its writers carry the indexes that the table maintains."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a reader in the process of a writer that has just recovered finds."""

    scanned: ground.Pairs
    """By a scan: (key, value) pairs, sorted."""
    found: tuple[Hit, ...]
    """By searches for all values, sorted."""


async def looking(place: Workplace) -> Looked:
    """Scan, and search by the index over values."""
    writer = await _opened(place)
    rows = ground.pairs(await scan.scan(place.table, memory=[memory_of(writer)]))
    view = await scan.strong_view(place.table)
    return Looked(rows, await searching.hits(view, writer, place.table, BY_VALUE))


@says(SEARCH)
def judge(looked: Looked, _ghosts: Any) -> Violation | None:
    """A search for each value finds the rows that a scan has with it, each once, and no others."""
    wanted: list[Hit] = [(value, key, value) for key, value in looked.scanned]
    shown = (("scan", str(looked.scanned)), ("searches", str(looked.found)))
    for hit in looked.found:
        if looked.found.count(hit) > wanted.count(hit):
            asked, key, value = hit
            reason = f"a search for {asked} finds {key}={value} more often than a scan"
            return Violation("READ-002", SEARCH, reason, shown)
    for _, key, value in wanted:
        if (value, key, value) not in looked.found:
            return Violation("READ-001", SEARCH, f"a search for {value} does not find {key}, and a scan does", shown)
    return None


async def _audit(io: Io) -> list[Violation]:
    """Violations of what catch-up records promise, in the newest version, and along all retained ones."""
    found: list[Violation] = []
    before: TableState | None = None
    for number in await versions(io):
        state = await load(io, number)
        if state.mem_wal_entry is None:
            continue
        if before is not None:
            found += catch_up_never_goes_back(before, state)
        before = state
    found += catch_up_is_not_ahead_of_merging(state, state.mem_wal)
    made = await merged_fragments(io, state)
    for name in index_names(state):
        missing = {
            (region, generation)
            for region, generations in made.items()
            for generation, fragments in generations.items()
            if not fragments <= covered(state, name)
        }
        found += _beyond(state, name, missing)
    return found


def _beyond(state: TableState, name: str, missing: set[tuple[Any, Any]]) -> list[Violation]:
    recorded = next((dict(c.generations) for c in state.mem_wal.catchup if c.index_name == name), {})
    return [
        Violation("CATCHUP-001", CREDIT, _lacks(name, region, generation), path=state.path)
        for region, generation in sorted(missing)
        if generation <= recorded.get(region, 0)
    ]


def _lacks(name: str, region: str, generation: int) -> str:
    return f"index {name} lacks generation {generation} of region {region}, up to which it counts as caught up"


_AUDIT = ("catch_up_never_goes_back", "catch_up_is_not_ahead_of_merging", CREDIT)


def audited() -> tuple[Oracle, ...]:
    """What must hold of what the indexes are credited with."""
    return inspected(Process("auditor", partial(_audit, TABLE)), _AUDIT)


def index_oracles(here: Workplace) -> tuple[Oracle, ...]:
    """What must hold of the indexes: searches by them, and what they are credited with."""
    searcher = Process("searcher", partial(looking, here))
    return (after_crash(searcher, judge, clause="CATCHUP-012", name=SEARCH), *audited())


def world(
    setting: ScenarioSetting,
    contents: Contents,
    *processes: Process,
    before: Sequence[Process] = (),
    oracles: Sequence[Oracle] = (),
) -> World:
    """``processes`` on a table with indexes, after those of ``before`` ran alone, one after another."""
    contents, ghosts = after_all(contents, before, BEGUN)
    here = place(setting)
    return World(
        contents=contents,
        processes=processes,
        ghosts=ghosts,
        observe=observe_condensed,
        heard=HEARD,
        oracles=(
            survives(here),
            reads_are_explained,
            *index_oracles(here),
            *oracles,
            *ground.stored_invariants(),
        ),
    )
