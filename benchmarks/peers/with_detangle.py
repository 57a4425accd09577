"""The protocol under detangle, as its README wants it: `asyncio.gather` in an async function, given to `explore`.

Run in an environment that has detangle: `python with_detangle.py SECONDS SEEDS`; prints one JSON object. Shrinking, the
database of examples and tracing are off, which is its fastest way; the verdict is asked for once, at the end of a run.
It stops by the clock on the wall; all seconds that are reported are those of the processor.
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

import detangle
from memory import MemoryStore
from protocol import BUGS, WRITERS, Region, collector, judge, merger, writer

STRATEGIES = ("random", "pct:3", "auto", "dfs:3")


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
    """Runs and distinct schedules, as detangle counts them, in about ``seconds``."""
    started = time.process_time()
    stats = detangle.explore(
        world(""),
        runs=10**9,
        strategy=strategy,
        seed=1,
        max_duration=seconds,
        shrink=False,
        database=False,
    )
    return {
        "strategy": strategy,
        "runs": stats.runs,
        "distinct": stats.distinct_schedules,
        "steps": stats.total_steps,
        "seconds": time.process_time() - started,
        "exhausted": stats.exhausted,
    }


def find(bug: str, strategy: str, seed: int, seconds: float) -> dict[str, Any]:
    """Seconds and runs until ``bug`` is found."""
    started = time.process_time()
    try:
        stats = detangle.explore(
            world(bug), runs=10**9, strategy=strategy, seed=seed, max_duration=seconds, shrink=False, database=False
        )
    except detangle.BugFound as found:
        return {"found": True, "runs": found.report.runs, "seconds": time.process_time() - started}
    return {"found": False, "runs": stats.runs, "seconds": time.process_time() - started}


def main() -> None:
    """Measure all strategies, and the time to find each bug with each."""
    seconds, seeds = float(sys.argv[1]), int(sys.argv[2])
    rates = [rate(strategy, seconds) for strategy in STRATEGIES]
    finds = []
    for bug, strategy in itertools.product(BUGS, STRATEGIES):
        tries = [find(bug, strategy, seed, seconds) for seed in range(1 if strategy.startswith("dfs") else seeds)]
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
                "side": f"detangle {detangle.__version__}",
                "python": sys.version.split()[0],
                "rates": rates,
                "finds": finds,
            }
        )
    )


if __name__ == "__main__":
    main()
