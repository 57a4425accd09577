"""A crash at each change of a life: record it once, then kill the actor before or after each change that it made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from ..gate import S3Operation
from ..gate.calls import GROUP_OF
from ..protocol import Json
from ..verdicts import CaseResult, Finding, Verdict
from . import scenarios
from .scenarios import SuiteScenario
from .summing import summed

When = Literal["before", "after"]
WHEN: tuple[When, ...] = get_args(When)
RunOnce = Callable[[SuiteScenario], CaseResult]
"""Runs a scenario that is neither a crash nor a race."""
_CHANGES = {"PUT", "DELETE"}


def points(requests: Iterable[Json], actor: str) -> list[Json]:
    """An address for each change of the store that ``actor`` made, in order; ``requests``: log of the recorded life.

    They go by class and number, since names of files may have random parts, and their order may vary.
    """
    met: Counter[tuple[str, str]] = Counter()
    found = []
    for request in requests:
        group = GROUP_OF[S3Operation(request["operation"])]
        if request["actor"] == actor and group in _CHANGES:
            met[request["class"], group] += 1
            number = met[request["class"], group]
            found.append({"actor": actor, "class": request["class"], "operation": group, "occurrence": number})
    return found


def crashed(scenario: SuiteScenario, point: Json, when: When) -> SuiteScenario:
    """The scenario in which the actor dies at one point, as data of its own."""
    label = f"crash {when} {point['class']} {point['operation'].lower()} {point['occurrence']}"
    described = {name: value for name, value in scenario.described.items() if name not in ("crash", "afterwards")}
    described["gate"] = {"rules": [{"label": label, "at": point, "do": f"kill_{when}"}]}
    described["steps"] = [*scenario.steps, *scenario.afterwards]
    return scenarios.made(described, scenario.file)


def run(scenario: SuiteScenario, when: When, once: RunOnce, *, every: int, first: int = 0) -> CaseResult:
    """Each ``every``-th point from the one with the index ``first`` on, and at least one."""
    assert scenario.crash is not None
    recorded = once(scenarios.made(_life(scenario), scenario.file))
    if recorded.verdict is not Verdict.PASS:
        return recorded
    found = points(recorded.requests, scenario.crash)
    chosen = chosen_of(found, every, first)
    if not chosen:
        nothing = f"{scenario.crash} changes nothing in its life"
        witness = Finding(clauses=(), broken=nothing, witness=True)
        return replace(recorded, verdict=Verdict.INCONCLUSIVE, findings=(witness,), text=nothing)
    results = [once(crashed(scenario, point, when)) for point in chosen]
    return summed(scenario, results, f"{len(chosen)} of {len(found)} changes of {scenario.crash}")


def chosen_of(found: Sequence[Json], every: int, first: int) -> Sequence[Json]:
    """Each ``every``-th, beginning with the index ``first``; that of the end if there are too few."""
    return found[first % every :: every] or found[-1:]


def _life(scenario: SuiteScenario) -> Json:
    return {name: value for name, value in scenario.described.items() if name not in ("crash", "afterwards")}
