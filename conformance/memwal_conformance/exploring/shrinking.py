"""What shows a finding, made small: the fewest faults and preemptions, and then the shortest life."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from . import orders, plans
from .judging import Symptom
from .lived import Lived
from .lives import ForeignLife
from .orders import InOrder
from .plans import ALONE, Plan


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What one run showed."""

    plan: Plan
    lived: Lived
    symptoms: list[Symptom]
    states: int = 0
    """Crash states that were judged."""
    left_out: int = 0
    """Those that were not, since nothing like them had been judged."""
    drive: InOrder | None = None
    """What chose the order; None: the operations ran one after another."""
    cut: bool = False
    """Its time was over before all was run and judged."""


def smallest(run: Callable[[ForeignLife, Plan], ShownRun], small: ShownRun, over: Callable[[], bool]) -> ShownRun:
    """A run under simpler plans, then without operations, as long as it shows the same and not ``over``.

    ``run`` gives no symptoms where it does not show the same.
    """

    def twice(life: ForeignLife, plan: Plan) -> ShownRun:
        again = run(life, plan)  # one run may show it by luck of timing
        return run(life, plan) if again.symptoms else again

    life, waiting = small.lived.life, list(simpler(small.plan))
    while waiting:
        if over():
            return replace(small, cut=True)
        less = twice(life, waiting.pop(0))
        if less.symptoms:
            small, waiting = less, list(simpler(less.plan))
    for number in reversed(range(len(life.steps))):
        if len(small.lived.life.steps) == 1:
            break
        if over():
            return replace(small, cut=True)
        less = twice(small.lived.life.without(number), small.plan)
        small = less if less.symptoms else small
    return small


def simpler(plan: Plan) -> Iterator[Plan]:
    """Plans that do less than this one, those first that do least."""
    if plan.undisturbed:
        return
    yield ALONE
    if not plan.ordered:
        yield from plans.simpler(plan)
        return
    switches = dict(plan.switches or {})
    if plan.fault is not None:
        yield plan.fault
        yield orders.plan_of(switches)
    elif switches or plan.random:
        yield orders.plan_of({})
    if len(switches) > 1:
        for left_out in reversed(switches):
            fewer = {number: actor for number, actor in switches.items() if number != left_out}
            yield orders.plan_of(fewer, plan.fault)
    if plan.fault is not None:
        yield from (orders.plan_of(switches, fault) for fault in plans.simpler(plan.fault))
