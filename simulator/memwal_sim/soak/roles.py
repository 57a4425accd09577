"""Who runs in a soak: a client with a writer for each region, mergers, builders, a collector, readers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import simpy
from memwal.effects import Protocol
from memwal.ids import Milliseconds
from memwal.index import regions
from memwal.index.snapshot import RegionRow
from memwal.jobs import collector, index_builder, merger, spec_change
from memwal.maintained import base_index
from memwal.read import scan
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.region.writer import RegionWriter
from memwal.table import read
from memwal.table.state import latest
from memwal.violations import Violation

from .actor import SoakActor, Steps
from .founding import INDEX, KEY, VALUE, opened, rows_of, table_of
from .world import PUT_BEGUN, PUT_DONE, SoakWorld

WRITER, MERGER, SNAPSHOTS, INDEXER, COLLECTOR = "writer", "merger", "snapshot builder", "index builder", "collector"
STRONG_READER, EVENTUAL_READER, DRAIN = "strong reader", "eventual reader", "drain"

Job = Callable[[SoakWorld], Protocol[Any]]


async def write(world: SoakWorld, row: RegionRow, actor: SoakActor) -> None:
    """Claim the region of ``row``, and put until the soak closes: what a client does with one writer."""
    settings, env, history = world.settings, world.env, world.history
    limits = Limits(memtable_entries=settings.flush_entries)
    writer = await _open(world, row, limits)
    await spec_change.admit(world.io, row)
    keys = world.table.keys[row.region_id]
    while not world.closing:
        await world.io.sleep(Milliseconds(int(actor.random.exponential(settings.put_every_ms))))
        if world.closing:
            break
        count = min(settings.rows_per_put, len(keys))
        chosen = tuple(keys[at] for at in sorted(actor.random.choice(len(keys), count, replace=False).tolist()))
        number, value = history.begin(actor.name, chosen, env.now)
        await world.io.note(PUT_BEGUN, put=number)
        rows = table_of(dict.fromkeys(chosen, value))
        world.user_bytes += rows.nbytes
        await writer.put(rows)
        history.acknowledge(number, env.now)
        await world.io.note(PUT_DONE, put=number)
        await writer.keep_limits()
    await writer.close()


async def _open(world: SoakWorld, row: RegionRow, limits: Limits) -> RegionWriter:
    """Open a writer with the indexes that the table maintains now, as `memwal.Table.writer` does."""
    region = opened(world.io, world.table, row)
    maintained = await base_index.load(world.io, await latest(world.io))
    return await open_writer(region, limits=limits, maintained=maintained)


def keep_writing(world: SoakWorld, row: RegionRow) -> Steps[None]:
    """One writer of a region after the other; a successor comes when one ends, or stalls and is taken for dead."""
    settings, env = world.settings, world.env
    number = 0
    while not world.closing:
        number += 1
        actor = world.actor(f"writer {row.region_id[:8]}.{number}", WRITER, mortal=False)
        suspected = env.event()
        _mortal(world, actor, suspected)
        life = env.process(world.lived(actor, actor.run(write(world, row, actor))))
        yield life | suspected
        if not world.closing:
            yield env.timeout(settings.failover_ms)


def _mortal(world: SoakWorld, actor: SoakActor, suspected: simpy.Event) -> None:
    settings, now_ms = world.settings, world.env.now
    if settings.crash_every_ms:
        actor.crash_at_ms = now_ms + float(actor.random.exponential(settings.crash_every_ms))
    if settings.stall_every_ms:
        actor.stall_at_ms = now_ms + float(actor.random.exponential(settings.stall_every_ms))
        actor.stall_ms = float(actor.random.exponential(settings.stall_ms))
        actor.stalled = suspected.succeed


def repeat(world: SoakWorld, role: str, every_ms: int, job: Job, *, name: str = "") -> Steps[None]:
    """Run ``job`` again and again, each time as a new process, until the soak closes; never where ``every_ms`` is 0."""
    if not every_ms:
        return
    name = name or role
    pauses = world.actor(f"{name} pauses", role, mortal=False).random
    number = 0
    while True:
        yield world.env.timeout(world.drawn(pauses, every_ms))
        if world.closing:
            return
        number += 1
        actor = world.actor(f"{name} {number}", role)
        yield from world.lived(actor, actor.run(job(world)))


async def merge_all(world: SoakWorld) -> None:
    """Merge all regions, in common commits, as `memwal.Table.merge` does."""
    found = sorted(await regions.discover(world.io, world.settings.revision_()))
    await merger.merge_regions(world.io, found, commit_every=world.settings.commit_every)


async def build_snapshot(world: SoakWorld) -> None:
    """Rebuild the region snapshot."""
    await regions.build_snapshot(world.io)


async def catch_up(world: SoakWorld) -> None:
    """Extend the index over what was merged."""
    await index_builder.catch_up(world.io, INDEX)


async def collect(world: SoakWorld) -> None:
    """Collect what nothing needs."""
    await collector.collect(world.io, world.settings.policy())


def read_strongly(world: SoakWorld) -> Steps[None]:
    """Strong reads of the whole table by a process of its own, judged by the history."""
    every_ms = world.settings.strong_read_every_ms
    if not every_ms:
        return
    pauses = world.actor("strong reader pauses", STRONG_READER, mortal=False).random
    number = 0
    while True:
        yield world.env.timeout(world.drawn(pauses, every_ms))
        if world.closing:
            return
        number += 1
        actor = world.actor(f"{STRONG_READER} {number}", STRONG_READER)
        handle = world.history.start_read(world.env.now)
        found = yield from world.lived(actor, actor.run(scan.scan(world.io)))
        if found is None:
            world.history.drop_read(handle)
            continue
        world.reads[STRONG_READER] += 1
        world.judge(world.history.end_read(handle, rows_of(found), world.env.now))


async def eventual(world: SoakWorld) -> tuple[dict[str, str], dict[str, str]]:
    """Key -> value of the newest table version with its own region snapshot, and of its base table alone.

    The latter is not part of the read: it is looked up at once, for the oracle.
    """
    newest = await latest(world.io)
    base = rows_of(world.at_once(read.scan(world.io, newest, [KEY, VALUE])))
    return rows_of(await scan.scan(world.io, version=newest)), base


def read_eventually(world: SoakWorld) -> Steps[None]:
    """Eventual reads, each of the newest version; they never go back."""
    every_ms = world.settings.eventual_read_every_ms
    if not every_ms:
        return
    pauses = world.actor("eventual reader pauses", EVENTUAL_READER, mortal=False).random
    before: dict[str, str] = {}
    number = 0
    while True:
        yield world.env.timeout(world.drawn(pauses, every_ms))
        if world.closing:
            return
        number += 1
        actor = world.actor(f"{EVENTUAL_READER} {number}", EVENTUAL_READER)
        found = yield from world.lived(actor, actor.run(eventual(world)))
        if found is not None:
            rows, base = found
            world.reads[EVENTUAL_READER] += 1
            world.judge(world.history.went_back(before, rows))
            world.judge(world.history.went_back(base, rows, words="in the base table", clause="AMB-88"))
            before = rows


def everybody(world: SoakWorld) -> list[Steps[None]]:
    """The processes of a soak."""
    settings = world.settings
    return [
        *(keep_writing(world, row) for row in world.table.rows),
        *(
            repeat(world, MERGER, settings.merge_every_ms, merge_all, name=f"{MERGER} {number + 1}")
            for number in range(settings.mergers)
        ),
        repeat(world, SNAPSHOTS, settings.snapshot_every_ms, build_snapshot),
        repeat(world, INDEXER, settings.index_every_ms, catch_up),
        repeat(world, COLLECTOR, settings.collect_every_ms, collect),
        read_strongly(world),
        read_eventually(world),
    ]


async def flush_all(world: SoakWorld) -> None:
    """Recover every region and flush what its WAL holds."""
    for row in world.table.rows:
        writer = await _open(world, row, Limits())
        await writer.flush()
        await writer.close()


DRAINING: tuple[Callable[[SoakWorld], Coroutine[Any, Any, Any]], ...] = (flush_all, merge_all, build_snapshot)
"""What is done after the last put, in order, so that every row is in the base table."""


def drain(world: SoakWorld) -> Steps[None]:
    """Carry out `DRAINING`, catch up, and collect; a failure here ends the soak, since there are no faults any more."""
    steps = [*DRAINING, *([catch_up] if world.settings.index_every_ms else []), collect]
    for step in steps:
        actor = world.actor(f"{DRAIN} {step.__name__}", DRAIN, mortal=False)
        before = world.ends[DRAIN, "done"]
        yield from world.lived(actor, actor.run(step(world)))
        if world.ends[DRAIN, "done"] == before:
            how = next(how for (role, how), count in world.ends.items() if role == DRAIN and how != "done" and count)
            world.judge(_stuck(step.__name__, how))


def _stuck(step: str, how: str) -> Violation:
    return Violation("WRITER-013", "the table can be drained", f"{step} ended in {how}, and there are no faults")
