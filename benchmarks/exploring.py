"""Which planted bugs the exploration of other implementations finds by itself, and how soon.

    python benchmarks/exploring.py [--most 60] [--seconds 60] [--only NAME ...] [--minutes M] [--folder FOLDER] [--json]

Asked are the bugs of ``faults/bugs`` that some case of the suite shows from outside the process (`deaths.jsonl`):
others no foreign process is known to show. Each is planted in the engine behind the reference's adapter, which is then
explored as a stranger's would be, all lives of the suite in turn, under the revision of the bug, until the first
finding, for ``--most`` plans, or for ``--seconds``. A finding is seen again before it counts, and is not made small.
First comes the reference without a bug, under each revision, where every finding is a false alarm; ``--seed`` is that
of random orders. With ``--folder`` what was measured before is not measured again, and with ``--minutes`` the program
ends after so many with exit code 75; the same command continues. Adapters are forks of one process that has imported
the reference, since two thirds of the time would go into starting them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memwal_conformance.adapters.harness import players
from memwal_conformance.exploring import adapters, lives
from memwal_conformance.exploring.explorer import ForeignExploration
from memwal_sim import bugs
from warm_adapters import Warm, warm

DEATHS = Path(__file__).parents[1] / "conformance" / "deaths.jsonl"
HONEST = {f"the reference, {revision}": revision for revision in "ABR"}
CONTINUE = 75


@cache
def shown_from_outside() -> dict[str, str]:
    """Bugs that a case of the suite notices, each with the revision under which it is explored.

    That is the revision of the bug, or, where no case is one of that and some are of others, the first of these.
    """
    known, found = bugs.load(), dict[str, set[str]]()
    for name, by, *_ in map(json.loads, DEATHS.read_text("utf-8").splitlines()):
        if name in known and by.startswith("case "):
            found.setdefault(name, set()).update({by.rpartition("::")[2]} & {*HONEST.values()})
    return {
        name: known[name].revision if known[name].revision in of or not of else min(of)
        for name, of in sorted(found.items())
    }


@dataclass(frozen=True, slots=True)
class Budget:
    """For one bug."""

    most: int
    seconds: float
    seed: int


def explored(name: str, budget: Budget, warmed: Warm) -> dict[str, Any]:
    """What exploring the reference with the bug ``name`` found first."""
    honest = name in HONEST
    revision = HONEST[name] if honest else shown_from_outside()[name]
    command = warmed.command() if honest else warmed.command("--bug", name)
    harness = adapters.explored(command, {}, dict.fromkeys(players("suite"), warmed.roles))
    said: list[str] = []
    try:
        made = ForeignExploration(
            harnesses=[harness],
            revision=revision,
            lives=list(lives.load().values()),
            seconds=budget.seconds,
            most=budget.most,
            enough=None if honest else 1,
            seed=budget.seed,
            smaller=False,
            say=said.append,
        )
        started = time.monotonic()
        made.run()
    finally:
        harness.close()
    found = [f"{each.life['name']}: {each.sentence}" for each in made.notebook.errors]
    return {
        "found": found,
        "plans": made.begun,
        "runs": made.runs,
        "seconds": round(time.monotonic() - started, 1),
        "said": said,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=60, help="plans for each bug")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each bug")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="these bugs; default: all")
    parser.add_argument("--minutes", type=float, help="end after so many")
    parser.add_argument("--folder", type=Path, help="what was measured is kept here")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kept = given.folder / "measured.json" if given.folder else None
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    measured = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else {}
    ends = time.monotonic() + 60 * given.minutes if given.minutes else None
    asked = [*HONEST, *shown_from_outside()] if given.only is None else given.only
    with warm() as warmed:
        for name in asked:
            if name in measured:
                continue
            if ends is not None and time.monotonic() > ends:
                return CONTINUE
            one = measured[name] = explored(name, Budget(given.most, given.seconds, given.seed), warmed)
            if not given.json:
                print(f"{name:<34} {one['seconds']:5.1f} s {one['plans']:3} plans  {one['found']}", flush=True)
            if kept is not None:
                kept.write_text(json.dumps(measured, indent=1), "utf-8")
    of_bugs = {name: each for name, each in measured.items() if name not in HONEST}
    missed = sorted(name for name, each in of_bugs.items() if not each["found"])
    alarms = [each["found"] for name, each in measured.items() if name in HONEST]
    if given.json:
        print(json.dumps({"measured": measured, "asked": len(of_bugs), "missed": missed}))
    else:
        print(f"{len(of_bugs) - len(missed)} of {len(of_bugs)} bugs found; false alarms: {alarms}; missed: {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
