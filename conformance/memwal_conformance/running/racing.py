"""Races: operations of several actors in chosen orders of their requests, each judged by what holds in all orders."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from memwal_sim.store import Contents, dump

from ..gate import Address, Schedule, Stuck
from ..gate.schedule import Step, actor_in
from ..protocol import Json
from ..verdicts import CaseResult, Verdict
from . import addressing
from .runner import ScenarioRun
from .scenarios import SuiteScenario
from .summing import summed
from .testbed import LIMITS

GATED = ("wal", "manifest", "hint")
"""Classes of requests whose order is chosen; the others run free."""
SETTLE_MS = 3.0
SAMPLE = 100
"""Random orders where all are asked for."""
_STAYS = 0.75
"""Probability that a random order continues with the actor that moved last."""

Choose = Callable[[Sequence[Step]], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How to choose among possible steps."""

    name: str
    make: Callable[[], Choose]
    """A chooser that begins anew."""


def gated() -> tuple[Address, ...]:
    """Addresses of the requests that are held."""
    return tuple(Address(class_=class_, occurrence=None) for class_ in GATED)


def actor_of(step: Step) -> str:
    """Who moves in a step."""
    return actor_in(step.get("go") or step.get("release") or step["crash"])


def one_by_one(actors: Sequence[str], stop: int | None) -> Choose:
    """The first of ``actors`` until it has made ``stop`` requests (None: all), then the others, then it again."""
    made, others = 0, [*actors[1:], actors[0]]

    def choose(steps: Sequence[Step]) -> Step:
        nonlocal made
        mine = next((step for step in steps if actor_of(step) == actors[0]), None)
        if mine is not None and (stop is None or made <= stop):
            made += "release" in mine
            if stop is None or "go" in mine or made <= stop:
                return mine
        return next(step for actor in others for step in steps if actor_of(step) == actor)

    return choose


def at_random(seed: str) -> Choose:
    """Any step, more often one of the actor that moved last."""
    chance = random.Random(seed)
    last: list[str] = []

    def choose(steps: Sequence[Step]) -> Step:
        same = [step for step in steps if last and actor_of(step) == last[0]]
        step = chance.choice(same if same and chance.random() < _STAYS else list(steps))
        last[:] = [actor_of(step)]
        return step

    return choose


@dataclass(frozen=True, slots=True)
class RacedOrder:
    """One order that was run."""

    result: CaseResult
    steps: tuple[Step, ...]
    contents: Contents


Race = Callable[[Order], RacedOrder]
"""Runs one order."""


class RaceRun:
    """One order under way: what `runner.run` calls between the steps and what comes afterwards."""

    def __init__(self, scenario: SuiteScenario, order: Order) -> None:
        assert scenario.race is not None
        self._operations: dict[str, list[Json]] = scenario.race["operations"]
        self._order = order
        self.steps: tuple[Step, ...] = ()
        self.contents = Contents()

    def __call__(self, running: ScenarioRun) -> None:
        """Run the operations. What they raise is raised, and `AdapterTimeout` for an actor that does not answer."""
        assert running.testbed is not None
        gate = running.testbed.gate
        actors = dict.fromkeys(map(actor_in, self._operations))
        for actor in actors:
            running.begin(actor)
        processes = [running.actors[actor] for actor in actors]
        limit_s = min(process.limit_s for process in processes)
        schedule = Schedule(gate, gated(), settle_ms=SETTLE_MS, limit_s=limit_s)
        doing = {lane: [partial(running.step, step) for step in todo] for lane, todo in self._operations.items()}
        for process in processes:
            process.limit_s = LIMITS.life_s  # the schedule counts the time: it is the one that holds actors up
        try:
            results = schedule.run(doing, self._order.make())
        except Stuck as stuck:
            running.hung(stuck.actor, limit_s)
        finally:
            self.steps, self.contents = tuple(schedule.steps), gate.contents
            gate.use(None)
            for process in processes:
                process.limit_s = limit_s
        for future in (future for futures in results.values() for future in futures):
            future.result()


def run(
    scenario: SuiteScenario,
    race: Race,
    once: Callable[[SuiteScenario], CaseResult],
    *,
    most: int | None,
    seed: str,
    keep: Path | None,
) -> CaseResult:
    """Try orders, ``most`` of them spread over all that there are; the first that fails is saved below ``keep``."""
    assert scenario.race is not None
    results: list[CaseResult] = []

    def tried(order: Order) -> RacedOrder:
        raced = race(order)
        results.append(_judged(raced, order, once, keep))
        return raced

    if "preemptions" not in scenario.race:
        for number in range(SAMPLE if most is None else most):
            tried(Order(name=f"random {seed}-{number}", make=partial(at_random, f"{seed}/{number}")))
        return summed(scenario, results, f"{len(results)} random orders")
    found: list[Order] = []
    for actors in permutations(scenario.race["operations"]):
        whole = tried(Order(name=" then ".join(actors), make=partial(one_by_one, actors, None)))
        requests = sum(step.get("release") == actors[0] for step in whole.steps)
        if scenario.race["preemptions"]:
            stops = [(f"{actors[0]} stops at {n + 1}", n) for n in range(requests)]
            found += [Order(name=name, make=partial(one_by_one, actors, n)) for name, n in stops]
    for order in found if most is None else spread(found, most):
        tried(order)
    text = f"{len(results)} of {len(found) + len(results)} orders with one preemption at most"
    return summed(scenario, results, text if most is not None else f"{len(results)} orders")


def spread(found: Sequence[Order], most: int) -> Sequence[Order]:
    """So many of ``found`` at most, from its beginning to its end."""
    return [found[number * len(found) // most] for number in range(most)] if most < len(found) else found


def _judged(
    raced: RacedOrder, order: Order, once: Callable[[SuiteScenario], CaseResult], keep: Path | None
) -> CaseResult:
    """The result of an order. A failure becomes faults by name, which are run, and kept if they fail too.

    Where an actor does several things at once, no rule can say which of them a request is of: the order stays as it is.
    """
    result = raced.result
    if result.verdict is Verdict.PASS or result.scenario is None:
        return result
    text = f"order: {order.name}\n" + "".join(f"  {json.dumps(step)}\n" for step in raced.steps)
    if any("/" in lane for lane in result.scenario["race"]["operations"]):
        if keep is not None:
            _save(keep, raced, order, None)
        return replace(result, text=f"{result.text}\n{text}")
    addressed = addressing.addressed(result.scenario, raced.steps)
    again = once(addressed)
    same = again.verdict is result.verdict
    if keep is not None:
        _save(keep, raced, order, addressed.described if same else None)
    faults = "the same faults by name fail too" if same else f"the same faults by name end in {again.verdict}"
    return replace(again if same else result, text=f"{result.text}\n{text}{faults}")


def _save(keep: Path, raced: RacedOrder, order: Order, scenario: Json | None) -> None:
    folder = keep / "".join(c if c.isalnum() else "-" for c in order.name)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "schedule.json", list(raced.steps))
    _write(folder / "requests.json", list(raced.result.requests))
    if scenario is not None:
        _write(folder / "scenario.json", scenario)
    if not (folder / "store").exists():
        dump(raced.contents, folder / "store")


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
