"""What the processes of scenarios do: the engine's own protocol code, called as its users call it, and announced.

A process does one thing after another: `opened`, `put`, `flush`, `merge`, `collect`, … Each announces what clients see
of it by notes that the `memwal_sim.histories.notes` understands. Nothing here decides anything that the
engine decides. `memwal_sim.scenarios.scripts` has the words for all of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from memwal import paths
from memwal.effects import Io, Join, Spawn
from memwal.errors import ArtifactError, InvalidArgument, NotFound, Outcome
from memwal.ids import TableVersion
from memwal.index import guards, regions
from memwal.jobs import collector
from memwal.jobs.collector import Policy
from memwal.jobs.index_builder import catch_up
from memwal.jobs.merger import merge_region
from memwal.read import scan
from memwal.read.sources import MemoryView
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.region.region import Region
from memwal.region.writer import RegionWriter
from memwal.table import tags, whole, write
from memwal.table.state import latest, load

from ..histories.notes import READ_INVOKED, READ_RETURNED, WRITE_ACKNOWLEDGED, WRITE_INVOKED
from . import ground

EAGER = Policy(retain_versions=1)
"""A collector that keeps the newest table version only, and waits for no process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Where processes work."""

    region: Region

    @property
    def table(self) -> Io:
        """The root of the store."""
        return replace(self.region.io, root="")


@dataclass(slots=True)
class Acting:
    """A process under way."""

    place: Workplace
    name: str
    writer: RegionWriter | None = None
    """Its writer, once it has opened the region."""
    version: TableVersion | None = None
    """The table version that it has read last."""
    writes: int = 0
    reads: int = 0
    buffered: tuple[str, ...] = ()
    """Its writes that were not asked to be durable, and that nothing said to be stored yet."""

    async def opened(self) -> RegionWriter:
        """Its writer; opens the region if it has none."""
        if self.writer is None:
            self.writer = await open_writer(self.place.region)
        return self.writer


Action: TypeAlias = Callable[[Acting], Awaitable[None]]
"""One thing that a process does."""


async def act(place: Workplace, name: str, steps: Sequence[Action], *, insists: bool = False) -> None:
    """The protocol of a process called ``name`` that does ``steps`` in order.

    ``insists``: it continues with the next one where one fails with an `Outcome` or is refused, as a client may.
    """
    acting = Acting(place, name)
    for step in steps:
        try:
            await step(acting)
        except (Outcome, InvalidArgument):
            if not insists:
                raise


async def opened(acting: Acting) -> None:
    """Open the region, anew if it was opened before: claim, replay, barrier."""
    acting.writer = None
    await acting.opened()


def opened_with(limits: Limits, *, background: bool = False) -> Action:
    """As `opened`, with other limits, and with a background if there is to be one."""

    async def step(acting: Acting) -> None:
        acting.writer = await open_writer(acting.place.region, limits=limits)
        acting.writer.background = background

    return step


def together(*branches: Sequence[Action]) -> Action:
    """The step that does the steps of each branch in a coroutine of its own, and waits for all, whatever fails."""

    async def step(acting: Acting) -> None:
        tasks = [await Spawn(partial(_in_turn, acting, branch)) for branch in branches]
        failures = []
        for task in tasks:
            try:
                await Join(task)
            except Outcome as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    return step


async def _in_turn(acting: Acting, steps: Sequence[Action]) -> None:
    for step in steps:
        await step(acting)


def put(values: Mapping[str, str | None], *, durable: bool = True) -> Action:
    """The step that writes ``values`` (key -> value, None deletes the key) as one write.

    One that is not ``durable`` is acknowledged by `stored` or `closed`.
    """

    async def step(acting: Acting) -> None:
        writer = await acting.opened()
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await acting.place.table.note(WRITE_INVOKED, write=name, rows=tuple(values.items()))
        kept = {key: value for key, value in values.items() if value is not None}
        if kept:
            await writer.put(ground.rows_table(kept), durable=durable)
        else:
            await writer.delete(pa.table({ground.KEY: list(values)}), durable=durable)
        if durable:
            await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)
        else:
            acting.buffered = (*acting.buffered, name)

    return step


async def stored(acting: Acting) -> None:
    """Store what is buffered in the WAL."""
    waited = acting.buffered
    await (await acting.opened()).flush_wal()
    await _acknowledged(acting, waited)


async def closed(acting: Acting) -> None:
    """Close the writer."""
    waited = acting.buffered
    await (await acting.opened()).close()
    await _acknowledged(acting, waited)


async def _acknowledged(acting: Acting, writes: Sequence[str]) -> None:
    acting.buffered = tuple(name for name in acting.buffered if name not in writes)
    for name in writes:
        await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)


async def flush(acting: Acting) -> None:
    """Flush the MemTable."""
    await (await acting.opened()).flush()


async def freeze(acting: Acting) -> None:
    """Seal the MemTable; nothing is flushed."""
    await (await acting.opened()).freeze()


async def flush_frozen(acting: Acting) -> None:
    """Flush the oldest sealed MemTable."""
    writer = await acting.opened()
    await writer.flush_oldest()
    writer.release()


async def merge(acting: Acting) -> None:
    """Merge every generation of the region."""
    await merge_region(acting.place.table, acting.place.region.region_id)


def collect(policy: Policy = EAGER) -> Action:
    """The step that is one run of the collector."""

    async def step(acting: Acting) -> None:
        await collector.collect(acting.place.table, policy, report=False)

    return step


async def lose_hint(acting: Acting) -> None:
    """Delete the region's version hint, which is a hint and may be lost."""
    await acting.place.region.io.delete(paths.VERSION_HINT)


async def snapshot(acting: Acting) -> None:
    """Write the region snapshot of the MemWAL index anew."""
    await regions.build_snapshot(acting.place.table)


def index(name: str) -> Action:
    """The step that extends the index ``name`` over merged data."""

    async def step(acting: Acting) -> None:
        await catch_up(acting.place.table, name)

    return step


def restore(version: int) -> Action:
    """The step that makes the base table what it was in ``version``, as far as that is allowed."""

    async def step(acting: Acting) -> None:
        may_revert = guards.may_revert(acting.place.table)
        await whole.restore(acting.place.table, TableVersion(version), may_revert)

    return step


def delete_from_base(key: str) -> Action:
    """The step that deletes ``key`` from the base table, past all regions, as a write of its own."""

    async def step(acting: Acting) -> None:
        acting.writes += 1
        name = f"{acting.name}/{acting.writes}"
        await acting.place.table.note(WRITE_INVOKED, write=name, rows=((key, None),))
        await write.delete(acting.place.table, lambda rows: np.array(rows.column(ground.KEY)) == key, f"id = '{key}'")
        await acting.place.table.note(WRITE_ACKNOWLEDGED, write=name)

    return step


async def read(acting: Acting) -> None:
    """Read the table strongly, as a process without a writer does."""
    await read_by(acting, partial(seen, acting.place))


async def read_with_memory(acting: Acting) -> None:
    """Read the table strongly, in the process of an open writer."""
    writer = await acting.opened()
    await read_by(acting, lambda: seen(acting.place, memory_of(writer)))


async def read_eventually(acting: Acting) -> None:
    """Read the newest version of the table with the snapshot that it has."""
    acting.version = None
    await read_again(acting)


async def read_again(acting: Acting) -> None:
    """Read the version again that was read last; the newest, if none was."""
    name = await _begun(acting, strong=False)
    acting.version = acting.version or (await latest(acting.place.table)).version
    found = ground.pairs(await seen_at(acting.place, acting.version))
    await acting.place.table.note(READ_RETURNED, read=name, rows=found, version=acting.version)


async def read_while_retained(acting: Acting) -> None:
    """As `read_again`; a version that was expired meanwhile may be gone, in part or as a whole."""
    try:
        await read_again(acting)
    except (ArtifactError, NotFound) as failure:
        assert acting.version is not None
        if await _is_retained(acting.place.table, acting.version):
            reason = f"the version is retained, and cannot be read: {failure}"
            raise ArtifactError("GC-003", f"version {acting.version}", reason) from failure
        acting.version = None


async def _is_retained(table: Io, version: TableVersion) -> bool:
    try:
        await load(table, version)
    except NotFound:
        return False
    return True


async def tag(acting: Acting) -> None:
    """Tag the newest table version with the name of the process, or leave the tag where it is."""
    table = acting.place.table
    if acting.name not in await tags.versions(table):
        await tags.create(table, acting.name, (await latest(table)).version)


async def read_by(acting: Acting, rows: Callable[[], Awaitable[pa.Table]]) -> None:
    """Announce a strong read that is made by ``rows``."""
    name = await _begun(acting, strong=True)
    found = ground.pairs(await rows())
    await acting.place.table.note(READ_RETURNED, read=name, rows=found)


async def _begun(acting: Acting, *, strong: bool) -> str:
    acting.reads += 1
    name = f"{acting.name}/{acting.reads}"
    await acting.place.table.note(READ_INVOKED, read=name, strong=strong)
    return name


async def seen(place: Workplace, *memory: MemoryView) -> pa.Table:
    """The rows of a strong read."""
    return await scan.scan(place.table, memory=memory)


async def seen_at(place: Workplace, version: TableVersion) -> pa.Table:
    """The rows of a read of ``version`` and its snapshot."""
    state = await load(place.table, version)
    return await scan.scan(place.table, version=state)


def memory_of(writer: RegionWriter) -> MemoryView:
    """What ``writer`` holds in memory, for readers in its process."""
    held = [*writer.frozen, writer.memtable]
    return MemoryView(writer.region.region_id, writer.epoch, tuple((each.generation, each.table()) for each in held))
