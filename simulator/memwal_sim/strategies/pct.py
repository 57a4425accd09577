"""Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: ASPLOS 2010).

Each process gets a priority at random, and the one with the highest always moves; at d - 1 steps chosen at random the
process that has just moved falls below all others. A bug of depth d, that is one that shows whenever d pairs of steps
come in one order, is found by a run with probability 1 / (n * k**(d - 1)) or more, for n processes and k steps.
A stall is a fall in priority, and a crash is one to the bottom: neither needs to be drawn besides.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..exploring.unfolding import Lanes
from .draws import Draws
from .mishaps import PlannedFaults
from .strategy import Run, Terms
from .walking import Pick, Walk, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What one run promises."""

    processes: int
    """n: processes, and one more for each request that may be left under way."""
    steps: int
    """k, as measured by a first run without mishaps. For bugs that need more steps than that nothing is promised."""
    depth: int
    """d."""
    faults: int
    """Requests that fail; each must do so at one of the k steps and in one of the kinds that there are."""
    kinds: int
    """Kinds of fault that may happen."""

    @property
    def probability(self) -> float:
        """Least probability that one run finds a given bug of this depth that needs these faults."""
        order = self.processes * self.steps ** (self.depth - 1)
        return 1.0 / float(order * (self.steps * self.kinds) ** self.faults)


def guarantee(terms: Terms) -> Guarantee:
    """What `pct` promises under ``terms``."""
    return Guarantee(
        processes=len(terms.unfolding.tries) + terms.faults,
        steps=terms.steps,
        depth=terms.depth,
        faults=terms.faults,
        kinds=len(terms.unfolding.kinds),
    )


def pct(terms: Terms) -> Run:
    """Runs by priorities that change at ``terms.depth`` - 1 steps."""
    unfolding, lanes = terms.unfolding, len(terms.unfolding.tries) + terms.faults

    def run(seed: int) -> Walk:
        draws = Draws(seed)
        faults = PlannedFaults(draws, terms.faults, terms.steps)
        changes = {1 + draws.below(terms.steps): value for value in range(terms.depth - 1)}
        priorities = draws.shuffled(range(terms.depth, terms.depth + lanes))
        return walk(unfolding, by_priority(priorities, changes), faults)

    return run


def by_priority(priorities: list[int], changes: dict[int, int]) -> Pick:
    """The lane with the highest of ``priorities``; the one that makes step number s, from 1, then gets ``changes[s]``.

    The result counts its calls as steps and changes ``priorities``, so that it is good for one run.
    """
    step = 0
    of = priorities.__getitem__

    def pick(lanes: Lanes) -> int:
        nonlocal step
        step += 1
        lane = max(lanes, key=of)
        lower = changes.get(step)
        if lower is not None:
            priorities[lane] = lower
        return lane

    return pick
