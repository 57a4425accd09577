"""From a schedule that was found to a scenario of faults by name: who is held at which request, and until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..gate.schedule import Step
from ..protocol import Json
from . import scenarios
from .scenarios import SuiteScenario


def addressed(described: Json, steps: Sequence[Step]) -> SuiteScenario:
    """The scenario that orders requests as ``steps`` does, the schedule of a race, with rules that hold requests.

    Only where one actor stops in the middle of an operation and another one continues is anything held.
    """
    race = described["race"]["operations"]
    rules, holds = _holds(steps)
    found_steps: list[Json] = []
    begun: Counter[str] = Counter()
    waiting: dict[str, list[str]] = {}
    for number, step in enumerate(steps):
        if "go" in step:
            actor = step["go"]
            waiting[actor] = [label for place, label in holds if _in_operation(steps, actor, number, place)]
            found_steps.append({**race[actor][begun[actor]], **({"meanwhile": True} if waiting[actor] else {})})
            begun[actor] += 1
            if waiting[actor]:
                found_steps.append({"reached": waiting[actor][0]})
        elif "release" in step and (label := dict(holds).get(number)) is not None:
            actor = step["release"]
            waiting[actor].remove(label)
            found_steps.append({"release": label})
            found_steps.append({"reached": waiting[actor][0]} if waiting[actor] else {"await": actor})
    found = {name: value for name, value in described.items() if name not in ("race", "afterwards")}
    found["gate"] = {"rules": rules}
    found["steps"] = [*described["steps"], *found_steps, *described["afterwards"]]
    return scenarios.made(found, Path("found.json"))


def _holds(steps: Sequence[Step]) -> tuple[list[Json], list[tuple[int, str]]]:
    """A rule for each request that waits while another actor moves, with the number of the step that releases it."""
    rules: list[Json] = []
    holds: list[tuple[int, str]] = []
    met: Counter[tuple[str, str, str]] = Counter()
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        actor = step.get("go") or step.get("release") or step["crash"]
        if "release" in step:
            request = (actor, step["operation"], step["name"])
            met[request] += 1
            if last[actor] != number - 1:
                label = f"hold {len(rules) + 1}"
                at = {"actor": actor, "operation": request[1], "name": request[2], "occurrence": met[request]}
                rules.append({"label": label, "at": at, "do": "hold_before"})
                holds.append((number, label))
        last[actor] = number
    return rules, holds


def _in_operation(steps: Sequence[Step], actor: str, begin: int, place: int) -> bool:
    """Whether the step ``place`` releases a request of the operation that ``actor`` began in the step ``begin``."""
    if steps[place].get("release") != actor or place < begin:
        return False
    return not any(step.get("go") == actor for step in steps[begin + 1 : place])
