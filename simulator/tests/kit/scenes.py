"""Small histories to look at, with objects of every kind in them."""

from __future__ import annotations

import random
from functools import partial

import pyarrow as pa
from memwal import paths
from memwal.codec import hint, region_manifest, wal
from memwal.codec.region_manifest import RegionManifest
from memwal.codec.wal import WalEntry
from memwal.effects import Io
from memwal.errors import OutcomeUnknown
from memwal.ids import Epoch, Generation, ManifestVersion, RegionId, SpecId, WalPosition
from memwal.revisions import STRICT, B
from memwal_sim.outcomes import FREE, Fate, fates
from memwal_sim.process import Process
from memwal_sim.simulation import Simulation
from memwal_sim.store import Contents, Traits
from memwal_sim.traces.recording import step
from memwal_sim.traces.trace import Header, Trace
from memwal_sim.viewer.film import Film, film_of
from memwal_sim.world import World

REGIONS = tuple(RegionId(f"00000000-0000-4000-8000-00000000000{number}") for number in (1, 2))
HEADER = Header(
    scenario="toy",
    revision="B",
    profile="strict",
    readings={},
    bugs=(),
    faults=0,
    preemptions=None,
    engine="0123456789abcdef",
    title="A toy",
    description="",
    violation=None,
)


def manifest(region: RegionId, version: int, epoch: int) -> bytes:
    """Bytes of a region manifest without generations."""
    state = RegionManifest(
        version=ManifestVersion(version),
        region_id=region,
        spec_id=SpecId(0),
        epoch=Epoch(epoch),
        position_replay_after=WalPosition(0),
        position_last_seen=WalPosition(0),
        generation_current=Generation(1),
    )
    return region_manifest.encode(state, B)


def entry(epoch: int, **rows: str) -> bytes:
    """Bytes of a WAL entry with a row for each of ``rows``; without any it is a barrier."""
    table = pa.table({"id": pa.array(rows, pa.string()), "value": pa.array(rows.values(), pa.string())})
    return wal.encode(WalEntry(epoch=Epoch(epoch), rows=table, barrier=not rows), B)


async def _writing(region: RegionId, number: int, puts: int) -> None:
    """Write to a region what its writers do, without asking who owns it."""
    io = Io(paths.region(region), interpretation=STRICT)
    for put in range(puts):
        position = WalPosition(1000 * number + put)
        for name, data in (
            (paths.wal(position, B.wal_suffix), entry(number + 1, **{f"k{put % 7}": f"v{put}"})),
            (paths.manifest(ManifestVersion(position + 1)), manifest(region, position + 1, number + 1)),
            (paths.VERSION_HINT, hint.encode(ManifestVersion(position + 1))),
        ):
            try:
                await io.put(name, data)
            except OutcomeUnknown:
                await io.note("unknown", name=name)
        await io.get(paths.VERSION_HINT)
        if put % 9 == 8:
            await io.delete(paths.wal(WalPosition(position - 5), B.wal_suffix))


def busy(actors: int) -> World:
    """``actors`` writers of two regions, each with plenty to do."""
    return World(
        contents=Contents({"readme": b"toy"}),
        processes=tuple(
            Process(f"writer-{number}", partial(_writing, REGIONS[number % 2], number, 500)) for number in range(actors)
        ),
    )


def at_random(world: World, steps: int, *, faults: float = 0.0, seed: int = 1) -> Trace:
    """A history of ``world`` in which a share of the requests fails, and some of those land late."""
    chance, simulation, made = random.Random(seed), Simulation(world), []
    while len(made) < steps:
        if simulation.under_way and chance.random() < 0.1:
            taken = simulation.land(*chance.choice(simulation.under_way))
        else:
            actor = chance.choice([name for name in simulation.running if simulation.waiting(name) is not None])
            request = simulation.waiting(actor)
            assert request is not None
            safe = fates(request, frozenset({Fate.LOST, Fate.APPLIED, Fate.LATE}))
            fate = chance.choice(safe) if chance.random() < faults else Fate.NORMAL
            taken = simulation.step(actor, fate)
        made.append(step(len(made) + 1, taken, simulation.contents))
    return Trace(HEADER, tuple(made))


def filmed(world: World, *moves: tuple[str, Fate | None], header: Header = HEADER) -> Film:
    """The film of a history: (actor, fate), or (actor, None) for its oldest request under way, which lands."""
    simulation, made = Simulation(world), []
    for actor, fate in moves:
        if fate is None:
            done = simulation.land(*next(each for each in simulation.under_way if each[0] == actor))
        else:
            done = simulation.step(actor, fate)
        made.append(step(len(made) + 1, done, simulation.contents))
    return film_of(world, Trace(header, tuple(made)), "toy.jsonl")


def two_writers_of_one_object() -> World:
    """p0 and p1 put an object each, and p0 another one."""

    async def twice() -> None:
        for name in ("x", "y"):
            try:
                await Io(interpretation=STRICT).put(name, b"0")
            except OutcomeUnknown:
                continue

    async def once() -> None:
        await Io(interpretation=STRICT).note("begun")
        await Io(interpretation=STRICT).put("x", b"1")
        await Io(interpretation=STRICT).note("stored", name="x")

    return World(contents=Contents(), processes=(Process("p0", twice), Process("p1", once)))


ALL_FAULTS = tuple(fate for fate in Fate if fate not in FREE)


def one_of_each() -> World:
    """p0 creates an object and reads it, on a store that remembers its last change; p1 puts another one."""

    async def creates() -> None:
        await Io(interpretation=STRICT).put_if_absent("x", b"0")

    async def reads() -> None:
        await Io(interpretation=STRICT).get("x")

    async def puts() -> None:
        await Io(interpretation=STRICT).put("y", b"0")

    starts = (("creator", creates), ("reader", reads), ("putter", puts))
    contents = Contents(traits=Traits(lags=True))
    return World(contents=contents, processes=tuple(Process(name, start) for name, start in starts))


def meeting(fate: Fate) -> Film:
    """A step with ``fate`` and a normal one."""
    world = one_of_each()
    request = Simulation(world).waiting("creator")
    assert request is not None
    actor = "creator" if fate in fates(request, frozenset(Fate)) else "reader"
    return filmed(world, (actor, fate), ("putter", Fate.NORMAL))
