"""What must hold of a table whose region spec decides where rows go: a key has one region, and no write is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from memwal import paths
from memwal.codec.index_details import RegionSpec
from memwal.effects import Io
from memwal.ids import SpecId
from memwal.index import regions
from memwal.index.opening import region_of
from memwal.index.snapshot import RegionRow
from memwal.invariants import registration, view
from memwal.invariants.index import region_specs_never_change
from memwal.invariants.rows import registered_values
from memwal.jobs.merger import merge_region
from memwal.read import scan
from memwal.read.sources import open_generation, unmerged
from memwal.region.opening import open_writer
from memwal.table import read as table_read
from memwal.table.state import latest, load, versions
from memwal.violations import Violation

from ..histories.history import History
from ..histories.notes import HEARD, observe_condensed
from ..oracles import after_crash, inspected
from ..process import Process
from ..store import Contents
from ..world import Oracle, World, says
from . import ground, writes
from .clients import NOBODY, after_all
from .ground import KEY, TABLE, Pairs
from .scenario import ScenarioSetting


@dataclass(frozen=True, slots=True)
class SeenRegion:
    """What is found after a crash: (key, value) pairs, sorted."""

    remote: Pairs
    """Strong read by a process of its own."""
    held: tuple[tuple[str, tuple[str, ...]], ...]
    """Keys of the rows of each region that are not in the base table, after its recovery."""
    merged: Pairs
    """The base table alone, after every region was flushed and merged."""


async def surviving(io: Io) -> SeenRegion:
    """Read, recover each region as a fresh writer, flush and merge it, and read the base."""
    remote = ground.pairs(await scan.scan(io))
    state = await latest(io)
    registered = {row.region_id: row for row in await regions.known(io, state)}
    held = []
    for region, manifest in sorted((await regions.discover(io, state.revision)).items()):
        row = RegionRow(region_id=region, spec_id=manifest.spec_id, values=(), manifest=None)
        opened = region_of(io, state, registered.get(region, row))
        writer = await open_writer(opened)
        keys = {key for memtable in writer.unflushed() for key in memtable.table().column(KEY).to_pylist()}
        for listed in unmerged(manifest, state.mem_wal.progress(region)):
            keys.update((await open_generation(opened.io, listed.path, [KEY])).column(KEY).to_pylist())
        held.append((str(region), tuple(sorted(keys))))
        await writer.flush()
        await merge_region(io, region)
    merged = ground.pairs(await table_read.scan(io, await latest(io)))
    return SeenRegion(remote, tuple(held), merged)


@says("a key is in one region", "each key is there once", "a merge keeps all rows", writes.SURVIVE)
def judge(found: SeenRegion, ghosts: History) -> Violation | None:
    """No key is in two regions, or twice in a read; the writes explain the rows; and merging changes none."""
    owners: dict[str, str] = {}
    for region, keys in found.held:
        for key in keys:
            if key in owners:
                reason = f"rows of key {key} wait to be merged in region {owners[key]} and in region {region}"
                return Violation("REGION-002", "a key is in one region", reason, (("read", str(found.remote)),))
            owners[key] = region
    if len(dict(found.remote)) < len(found.remote):
        return Violation("READ-002", "each key is there once", f"a read finds a key twice: {found.remote}")
    violation = writes.judge(dict(found.remote), ghosts)
    if violation is None and found.merged != found.remote:
        reason = f"the table holds {found.remote}, and its base {found.merged} after the merge"
        violation = Violation("MERGE-001", "a merge keeps all rows", reason)
    return violation


_REGISTRATION = ("regions_have_distinct_values", "region_specs_are_listed", "region_specs_never_change")


async def _registration(io: Io) -> list[Violation]:
    """Violations of the invariants of specs and of the registration of regions, in the newest version."""
    found: list[Violation] = []
    known: dict[SpecId, RegionSpec] = {}
    for number in await versions(io):
        state = await load(io, number)
        if state.mem_wal_entry is None:
            continue
        found += region_specs_never_change(known, state)
        known |= {spec.spec_id: spec for spec in state.mem_wal.specs}
    details = state.mem_wal
    values = {}
    for row in await regions.known(io, state):
        own = registered_values(row.values, regions.spec_of(details, row.spec_id))
        if row.spec_id and own is not None:
            values[row.region_id] = row.spec_id, own
    found += registration.regions_have_distinct_values(values, paths.MEM_WAL)
    for region in await regions.discover(io, state.revision):
        found += registration.region_specs_are_listed(await view(io, region, state.revision), details)
    return found


def world(
    setting: ScenarioSetting,
    contents: Contents,
    *processes: Process,
    before: Sequence[Process] = (),
    ghosts: History = NOBODY,
    oracles: Sequence[Oracle] = (),
) -> World:
    """``processes`` on a table, after those of ``before`` ran alone, one after another; with the oracles of all.

    ``ghosts``: of what was written to ``contents`` before. ``oracles``: more than those of all.
    """
    contents, ghosts = after_all(contents, before, ghosts)
    survivor = Process("survivor", partial(surviving, setting.table))
    return World(
        contents=contents,
        processes=processes,
        ghosts=ghosts,
        observe=observe_condensed,
        heard=HEARD,
        oracles=(
            after_crash(survivor, judge),
            *oracles,
            *inspected(Process("registrar", partial(_registration, TABLE)), _REGISTRATION),
            *ground.stored_invariants(),
        ),
    )
