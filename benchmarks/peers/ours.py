"""The same protocol under memwal's simulator, and beside it the engine itself with real bytes.

Four ways to go through schedules: runs at random, one by one (as `memwal explore hunt`); a walk through the tree of
schedules, depth first, where schedules that begin alike share their beginning; the explorer (`memwal explore`), where
states that are reached on several ways share what comes after them; and, to know how many schedules the explorer has
covered, a count of the paths through the graph of its states, which is exact. Every state is judged, not only the last
of a run.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from functools import lru_cache, partial
from typing import Any

from memwal.effects import Io, Note
from memwal.errors import AlreadyExists, NotFound
from memwal.revisions import STRICT
from memwal.violations import Violation
from memwal_sim import bugs as planting
from memwal_sim.exploring.exploration import Bounds, memory_mib
from memwal_sim.exploring.explorer import explore
from memwal_sim.exploring.tables import FATE_BITS
from memwal_sim.exploring.unfolding import START, Unfolding
from memwal_sim.process import Process
from memwal_sim.scenarios import scenario as scenarios
from memwal_sim.store import Contents
from memwal_sim.strategies.draws import Draws
from memwal_sim.strategies.strategy import Terms
from memwal_sim.strategies.uniform import any_of, uniform, usual_length
from memwal_sim.strategies.walking import walk
from memwal_sim.world import World
from protocol import BUGS, EMPTY, WRITERS, Region, collector, judge, merger, writer

IO = Io("", interpretation=STRICT)
ACKNOWLEDGED = "acknowledged"
ENGINE_SCENARIO = "two_writers_merger_collector"
"""Two writers (claim, 2 puts, flush), a merger and a collector."""
MEMORY_MIB = 3000


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


decoded = lru_cache(maxsize=1 << 16)(json.loads)


class SimulatedStore:
    """The protocol's store on requests of the simulator; values are JSON."""

    async def get(self, name: str) -> Any:
        try:
            return json.loads(await IO.get(name))
        except NotFound:
            return None

    async def list(self, prefix: str) -> list[str]:
        return list(await IO.list(prefix.rstrip("/")))

    async def put(self, name: str, value: Any) -> None:
        await IO.put(name, encoded(value))

    async def put_if_absent(self, name: str, value: Any) -> bool:
        try:
            await IO.put_if_absent(name, encoded(value))
        except AlreadyExists:
            return False
        return True

    async def delete(self, name: str) -> None:
        await IO.delete(name)

    async def acknowledged(self, key: str, value: str) -> None:
        await IO.note(ACKNOWLEDGED, key=key, value=value)


def observe(ghosts: frozenset[tuple[str, str]], _actor: str, note: Note) -> frozenset[tuple[str, str]]:
    """Ghosts: what was acknowledged."""
    fields = dict(note.fields)
    return ghosts | {(str(fields["key"]), str(fields["value"]))} if note.event == ACKNOWLEDGED else ghosts


def verdict(contents: Contents, ghosts: frozenset[tuple[str, str]]) -> Violation | None:
    """The protocol's own verdict on one state."""
    wrong = judge({name: decoded(data) for name, data in contents.objects.items()}, dict(ghosts))
    return Violation("MODEL", "the model's verdict", wrong) if wrong else None


def model(bug: str = "") -> World:
    """The coarse model."""
    region = Region(SimulatedStore(), bug)
    roles = [(name, partial(writer, region, name)) for name in WRITERS]
    roles += [("merger", partial(merger, region)), ("collector", partial(collector, region))]
    return World(
        contents=Contents({name: encoded(value) for name, value in EMPTY.items()}),
        processes=tuple(Process(name, start) for name, start in roles),
        ghosts=frozenset(),
        observe=observe,
        oracles=(verdict,),
    )


def engine() -> World:
    """The engine's own code."""
    return scenarios.find(ENGINE_SCENARIO).build(scenarios.setting())


def at_random(world: World, seconds: float) -> dict[str, Any]:
    """Distinct schedules of uniform runs, one by one; no process stalls or crashes, so that each goes to the end."""
    unfolding = Unfolding(world)
    schedules: set[int] = set()
    runs = steps = 0
    started = time.process_time()
    while time.process_time() - started < seconds and memory_mib() < MEMORY_MIB:
        for _ in range(16):
            made = walk(unfolding, any_of(Draws(runs)))
            assert made.violation is None, made.violation
            schedules.add(hash(made.keys))
            runs += 1
            steps += len(made.keys)
        unfolding.trim()
    spent = time.process_time() - started
    return {"strategy": "random", "runs": runs, "distinct": len(schedules), "steps": steps, "seconds": spent}


def depth_first(world: World, seconds: float) -> dict[str, Any]:
    """Schedules of a walk through their tree: each is another one."""
    unfolding = Unfolding(world)
    lanes_of, after, play = unfolding.lanes, unfolding.after, unfolding.play
    schedules = steps = 0
    stack = [START]
    started = time.process_time()
    while stack and memory_mib() < MEMORY_MIB:
        for _ in range(4096):
            if not stack:
                break
            state = stack.pop()
            steps += 1
            lanes = lanes_of[state]
            if not lanes:
                schedules += 1
            known = after[state]
            for lane in lanes:
                key = lane << FATE_BITS
                successor = known.get(key)
                stack.append(play(state, key) if successor is None else successor)
        if time.process_time() - started >= seconds:
            break
    spent = time.process_time() - started
    assert not unfolding.violations
    return {"strategy": "depth first", "runs": schedules, "distinct": schedules, "steps": steps, "seconds": spent}


def explored(world: World, seconds: float, *, reduce: bool) -> dict[str, Any]:
    """States of the explorer, and how long it took."""
    bounds = Bounds(seconds_max=seconds, memory_mib_max=MEMORY_MIB, reduce=reduce)
    started = time.process_time()
    run = explore(world, bounds)
    spent = time.process_time() - started
    assert run.violation is None, run.violation
    return {"states": run.states, "seconds": spent, "complete": run.complete, "depth": run.depth, "limit": run.limit}


def counted(world: World, seconds: float) -> dict[str, Any]:
    """Schedules from the start to every process's end, exactly; if time runs out: beginnings of ``depth`` steps."""
    unfolding = Unfolding(world)
    layer: dict[int, int] = {START: 1}
    schedules = depth = states = 0
    started = time.process_time()
    while layer and time.process_time() - started < seconds and memory_mib() < MEMORY_MIB:
        following: dict[int, int] = {}
        for state, ways in layer.items():
            lanes = unfolding.lanes[state]
            if not lanes:
                schedules += ways
            for lane in lanes:
                successor = unfolding.play(state, lane << FATE_BITS)
                following[successor] = following.get(successor, 0) + ways
        states += len(layer)
        layer = following
        depth += bool(layer)
    assert not unfolding.violations
    return {
        "schedules": str(schedules + sum(layer.values())),
        "complete": not layer,
        "states": states,
        "depth": depth,
        "seconds": time.process_time() - started,
    }


def find_in_model(bug: str, seed: int, seconds: float) -> dict[str, Any]:
    """Runs and seconds until a uniform run meets ``bug``."""
    started = time.process_time()
    world = model(bug)
    run = uniform(Terms(unfolding=Unfolding(world), faults=0, steps=usual_length(world), depth=1))
    runs = 0
    while time.process_time() - started < seconds:
        runs += 1
        if run(seed * 10**9 + runs).violation is not None:
            return {"found": True, "runs": runs, "seconds": time.process_time() - started}
    return {"found": False, "runs": runs, "seconds": time.process_time() - started}


def explore_model(bug: str) -> dict[str, Any]:
    """States and seconds until the explorer meets ``bug``, by a shortest history."""
    started = time.process_time()
    run = explore(model(bug))
    return {"found": run.violation is not None, "runs": run.states, "seconds": time.process_time() - started}


def explore_engine(name: str) -> dict[str, Any]:
    """The same on the engine, in the scenario of the planted bug."""
    (bug,) = planting.choose([name])
    setting = scenarios.setting(bug.revision, overrides=planting.readings([bug]))
    started = time.process_time()
    with planting.planted([bug]):
        run = explore(scenarios.find(bug.scenario).build(setting), Bounds(faults=bug.faults), only=bug.oracle)
    return {"found": run.violation is not None, "runs": run.states, "seconds": time.process_time() - started}


def finds(seeds: int, seconds: float) -> list[dict[str, Any]]:
    """Every bug by every means."""
    found = []
    for bug in BUGS:
        tries = {
            "random": [find_in_model(bug, seed, seconds) for seed in range(seeds)],
            "explore": [explore_model(bug)],
            "explore, the engine": [explore_engine(bug)],
        }
        for strategy, each in tries.items():
            found.append(
                {
                    "bug": bug,
                    "strategy": strategy,
                    "found": sum(one["found"] for one in each),
                    "tries": len(each),
                    "runs": statistics.median(one["runs"] for one in each),
                    "seconds": statistics.median(one["seconds"] for one in each),
                }
            )
    return found


def main() -> None:
    """Measure; prints one JSON object."""
    seconds, seeds, what = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    build = {"model": model, "engine": engine}[what]
    limit = 60.0 if what == "model" else 5 * seconds
    result = {
        "side": f"memwal, {what}",
        "python": sys.version.split()[0],
        "rates": [at_random(build(), seconds), depth_first(build(), seconds)],
        "explored": explored(build(), limit, reduce=False),
        "reduced": explored(build(), limit, reduce=True),
        "counted": counted(build(), limit),
        "finds": finds(seeds, seconds) if what == "model" else [],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
