"""The protocol under simloom, as its README wants it: `asyncio.gather` in an async function, given to `explore`.

Run in an environment that has simloom: `python with_simloom.py SECONDS SEEDS`; prints one JSON object. No world is
built (`world=False`), the clock is not patched and causes are not recorded, which is its fastest way; the verdict is
asked for once, at the end of a run. `explore` keeps no schedules, so that its runs are made one by one with `run`,
which is what it does itself, and their tapes are compared; systematic schedules are distinct by construction. All
seconds are those of the processor.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import simloom
from memory import MemoryStore
from protocol import BUGS, WRITERS, Region, collector, judge, merger, writer

STRATEGIES = ("random", "pct:auto", "systematic:3")
CHUNK = 50
SYSTEMATIC = "systematic:"


def world(bug: str) -> Callable[[], Coroutine[Any, Any, None]]:
    """The test: every process at once, then the verdict."""

    async def everybody() -> None:
        store = MemoryStore()
        region = Region(store, bug)
        await asyncio.gather(*(writer(region, name) for name in WRITERS), merger(region), collector(region))
        wrong = judge(store.objects, store.acks)
        assert not wrong, wrong

    return everybody


def rate(strategy: str, seconds: float) -> dict[str, Any]:
    """Runs and distinct schedules in about ``seconds``."""
    if strategy.startswith(SYSTEMATIC):
        return systematic_rate(strategy, seconds)
    main = world("")
    scheduler = concrete(main, strategy)
    tapes, steps, runs = set(), 0, 0
    started = time.process_time()
    while time.process_time() - started < seconds:
        result = simloom.run(main, seed=runs, raise_on_error=False, scheduler=scheduler, world=False)
        assert result.error is None, result.error
        runs += 1
        if strategy == "random":
            tapes.add(hash(tuple(draw.value for draw in result.tape)))
        else:
            order = [event["ran"] for event in result.log if event["kind"] == "step"]
            tapes.add(hash(tuple(order)))
            steps = len(order)
    spent = time.process_time() - started
    return {"strategy": strategy, "runs": runs, "distinct": len(tapes), "steps": steps * runs, "seconds": spent}


def concrete(main: Callable[[], Coroutine[Any, Any, None]], strategy: str) -> str:
    """``strategy`` with its horizon measured once, as `explore` does, and not before each run."""
    if not strategy.startswith("pct:auto"):
        return strategy
    return simloom.run(main, seed=0, raise_on_error=False, scheduler=strategy, world=False).scheduler


def systematic_rate(strategy: str, seconds: float) -> dict[str, Any]:
    """Schedules of the systematic search: as many as it makes in about ``seconds``."""
    delays, schedules = int(strategy.removeprefix(SYSTEMATIC)), CHUNK
    while True:
        started = time.process_time()
        result = simloom.explore_systematic(world(""), max_delays=delays, max_schedules=schedules, world=False)
        spent = time.process_time() - started
        assert not result.failed
        if spent >= seconds / 2 or result.exhaustive:
            break
        schedules = int(schedules * min(8, max(2, seconds / spent)))
    return {
        "strategy": strategy,
        "runs": result.schedules,
        "distinct": result.schedules,
        "steps": 0,
        "seconds": spent,
        "exhausted": result.exhaustive,
    }


def find(bug: str, strategy: str, seed: int, seconds: float) -> dict[str, Any]:
    """Seconds and runs until ``bug`` is found."""
    main = world(bug)
    started = time.process_time()
    if strategy.startswith(SYSTEMATIC):
        most = max(1000, int(seconds * 500))
        result = simloom.explore_systematic(
            main, max_delays=int(strategy.removeprefix(SYSTEMATIC)), max_schedules=most, world=False
        )
        return {"found": result.failed, "runs": result.schedules, "seconds": time.process_time() - started}
    scheduler, runs = concrete(main, strategy), 0
    while time.process_time() - started < seconds:
        found = simloom.explore(main, runs=CHUNK, start_seed=seed * 10**9 + runs, scheduler=scheduler, world=False)
        runs += found.runs
        if found.failed:
            return {"found": True, "runs": runs, "seconds": time.process_time() - started}
    return {"found": False, "runs": runs, "seconds": time.process_time() - started}


def main() -> None:
    """Measure all strategies, and the time to find each bug with each."""
    seconds, seeds = float(sys.argv[1]), int(sys.argv[2])
    rates = [rate(strategy, seconds) for strategy in STRATEGIES]
    finds = []
    for bug, strategy in itertools.product(BUGS, STRATEGIES):
        tries = [find(bug, strategy, seed, seconds) for seed in range(1 if SYSTEMATIC in strategy else seeds)]
        finds.append(
            {
                "bug": bug,
                "strategy": strategy,
                "found": sum(each["found"] for each in tries),
                "tries": len(tries),
                "runs": statistics.median(each["runs"] for each in tries),
                "seconds": statistics.median(each["seconds"] for each in tries),
            }
        )
    print(
        json.dumps(
            {
                "side": f"simloom {simloom.__version__}",
                "python": sys.version.split()[0],
                "rates": rates,
                "finds": finds,
            }
        )
    )


if __name__ == "__main__":
    main()
