"""Linearization by search: an order of steps, each inside its own interval, that a sequential object allows.

The object is whatever `ObjectStep.apply` makes of it: a register, a set of registers, a table. Exact for any object and
any values; the time grows with how many steps are under way at once, and states that were seen are not searched again.

Source: Wing and Gong, "Testing and Verifying Concurrent Objects" (1993); Lowe, "Testing for Linearizability" (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStep(Generic[State]):
    """One operation on the object."""

    name: str
    invoked: float
    """When it began. A step that returned before this one was invoked comes before it; equal times say nothing."""
    returned: float | None
    """When it came back; None: never, or not known."""
    optional: bool = False
    """It may have happened or not."""
    reading: bool = False
    """It never changes the object."""
    apply: Callable[[State], State | None]
    """The object after the step; None if the step cannot have happened, or answered, like that in this state."""


def linearization(steps: Iterable[ObjectStep[State]], initial: State) -> tuple[ObjectStep[State], ...] | None:
    """An order of the steps that starts at ``initial`` and respects their intervals; None if there is none.

    All steps that are not optional are in it, and some of the others.
    """
    searching = _DepthFirst(sorted(steps, key=lambda step: (_end(step), step.invoked)))
    return searching.run(initial)


def _end(step: ObjectStep[State]) -> float:
    return float("inf") if step.returned is None else step.returned


class _DepthFirst(Generic[State]):
    """Depth first over (steps done, object), steps by number in the order of their ends."""

    def __init__(self, steps: list[ObjectStep[State]]) -> None:
        self.steps = steps
        self.ends = [_end(step) for step in steps]
        self.needed = sum(1 << number for number, step in enumerate(steps) if not step.optional)

    def run(self, initial: State) -> tuple[ObjectStep[State], ...] | None:
        path: list[tuple[int, State, list[int]]] = [(0, initial, self.next(0, initial))]
        order: list[int] = []
        seen: set[tuple[int, State]] = {(0, initial)}
        while path:
            done, state, left = path[-1]
            if not self.needed & ~done:
                return tuple(self.steps[number] for number in order)
            if not left:
                path.pop()
                if order:
                    order.pop()
                continue
            number = left.pop()
            after = self.steps[number].apply(state)
            if after is None or (done | 1 << number, after) in seen:
                continue
            done |= 1 << number
            seen.add((done, after))
            order.append(number)
            path.append((done, after, self.next(done, after)))
        return None

    def next(self, done: int, state: State) -> list[int]:
        """The steps that may come next, the most urgent last. A read that fits stands alone: now is as good as ever."""
        deadline = next((end for number, end in enumerate(self.ends) if not done >> number & 1), float("inf"))
        found = [
            number for number, step in enumerate(self.steps) if not done >> number & 1 and step.invoked <= deadline
        ]
        for number in found:
            step = self.steps[number]
            if step.reading and step.apply(state) is not None:
                return [number]
        return found[::-1]
