"""What the abstract machine costs: its proofs, and refinement in an exploration beside one without it.

    python benchmarks/machine.py [--write]

Both explorations of a pair have the same bounds and alternate, three times; the middle one counts. ``--write`` keeps
the figures in `FIGURES`, of which docs/model.md is made.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from memwal_model.logic import obligations
from memwal_model.page import FIGURES
from memwal_sim.exploring.exploration import Bounds
from memwal_sim.exploring.explorer import explore
from memwal_sim.outcomes import FAULTS
from memwal_sim.scenarios import scenario as scenarios
from memwal_sim.traces.study import Study

SCENARIOS = ("two_writers", "merger_and_collector", "stalled_writer", "two_indexers", "restored_table")
BOUNDS = Bounds(merge=True, reduce=True, faults=1, kinds=FAULTS, states_max=2_000)


def proofs() -> dict[str, Any]:
    """How many obligations there are, and how long the solver takes."""
    found = list(obligations())
    slowest = max(found, key=lambda each: each.seconds)
    return {
        "obligations": len(found),
        "proved": sum(each.proved for each in found),
        "seconds": round(sum(each.seconds for each in found), 1),
        "slowest": f"{slowest.step} keeps {slowest.statement}",
        "slowest_ms": round(slowest.seconds * 1000),
    }


def refinement(name: str, revision: str) -> dict[str, Any]:
    """States and processor time of one scenario, without the machine and with it."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    states: dict[bool, int] = {}
    for turn in range(3):
        for refine in (False, True) if turn % 2 == 0 else (True, False):
            study = Study(scenario=scenarios.find(name), revision=revision, bounds=BOUNDS, refine=refine)
            world, began = study.world(), time.process_time()
            run = explore(world, BOUNDS)
            seconds[refine].append(time.process_time() - began)
            assert run.violation is None, run.violation
            states[refine] = run.states
    without, with_it = (statistics.median(seconds[each]) for each in (False, True))
    return {
        "scenario": name,
        "revision": revision,
        "states": states[True],
        "states_without": states[False],
        "ratio": round(with_it / without, 2),
    }


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    figures: dict[str, Any] = {"proofs": proofs(), "refinement": []}
    print(figures["proofs"], flush=True)
    for name in SCENARIOS:
        for revision in "ABR":
            figures["refinement"].append(refinement(name, revision))
            print(figures["refinement"][-1], flush=True)
    if write:
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
