"""States per second of the explorer on the real engine, and what leaving out and merging save.

One run, one core: a scenario explored in full in each of the four ways, which reach the same final contents; then the
large scenario, without a fault and with one unknown outcome, for as long as it is allowed to take.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from memwal_sim.exploring.exploration import Bounds, Exploration, memory_mib
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import Fate
from memwal_sim.scenarios.scenario import find, setting

SMALL, LARGE = "two_writers", "two_writers_merger_collector"
WAYS = ((False, False), (True, False), (False, True), (True, True))
"""(reduced, merged)."""


def run(scenario: str, bounds: Bounds) -> Exploration:
    """Explore a scenario of revision B in the strict profile."""
    return explore(find(scenario).build(setting()), bounds)


def line(scenario: str, bounds: Bounds, found: Exploration) -> dict[str, object]:
    """What is reported of one exploration."""
    return {
        "scenario": scenario,
        "faults": bounds.faults,
        "reduced": bounds.reduce,
        "merged": bounds.merge,
        "states": found.states,
        "steps": found.transitions,
        "interleavings": found.interleavings,
        "stores": found.stores,
        "final stores": len(found.terminal_stores),
        "seconds": round(found.seconds, 1),
        "states/s": round(found.rate),
        "complete": found.complete,
        "memory MiB": round(memory_mib()),
    }


def show(row: dict[str, object]) -> None:
    """Print one line."""
    print(
        "  ".join(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in row.items())
    )


def main() -> None:
    """Measure, print, and write the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="limit for each run of the large scenario")
    parser.add_argument("--quick", action="store_true", help="leave the large scenario out")
    parser.add_argument("--out", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    rows = []
    ends = set()
    for reduced, merged in WAYS:
        bounds = Bounds(reduce=reduced, merge=merged)
        found = run(SMALL, bounds)
        ends.add(found.terminal_stores)
        rows.append(line(SMALL, bounds, found))
        show(rows[-1])
    print(f"the same final contents: {'yes' if len(ends) == 1 else 'NO'}")
    for faults in () if asked.quick else (0, 1):
        bounds = Bounds(faults=faults, kinds=frozenset({Fate.LATE}), reduce=True, merge=True, seconds_max=asked.seconds)
        rows.append(line(LARGE, bounds, run(LARGE, bounds)))
        show(rows[-1])
    if asked.out is not None:
        asked.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
