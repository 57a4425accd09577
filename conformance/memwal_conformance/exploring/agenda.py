"""What is run next: one run of each kind before a second one of any, and what finds most before the rest.

A plan's kind is what it does in words without names and numbers: the operation, the class of the object, the request,
and what befalls it. Kinds are counted over all lives, since a life that repeats what another one showed shows least.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from .plans import Plan

AGAIN, ELSEWHERE = 4, 1
"""How much less a run of a kind is worth behind one of the same life, and behind one of another, in ranks of plans."""


@dataclass(slots=True)
class Agenda:
    """Plans of one life that were not run yet, by their kinds."""

    waiting: dict[str, deque[Plan]] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    """Way -> how many plans of it were taken."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The same by kind."""

    def add(self, found: Iterable[Plan]) -> None:
        """Plans behind those of their kind that are there already."""
        for plan in found:
            self.waiting.setdefault(plan.kind, deque()).append(plan)

    def best(self, done: Counter[str]) -> tuple[int, int, str] | None:
        """The kind to run next, behind how little it is worth after so many runs of each, and what was taken so far.

        Of kinds that are worth the same, the ways take turns. None: nothing is left.
        """
        if not self.waiting:
            return None

        def worth(kind: str) -> tuple[int, int]:
            plan = self.waiting[kind][0]
            return _cost(plan, done[kind], self.kinds[kind]), self.taken[plan.way]

        kind = min(self.waiting, key=worth)
        return worth(kind)[0], self.taken.total(), kind

    def take(self, kind: str) -> Plan:
        """The next plan of a kind that is there."""
        found = self.waiting[kind]
        plan = found.popleft()
        self.taken[plan.way] += 1
        self.kinds[kind] += 1
        if not found:
            del self.waiting[kind]
        return plan


def _cost(plan: Plan, done: int, here: int) -> int:
    return plan.rank + (done if plan.crash is not None else AGAIN * here + ELSEWHERE * (done - here))
