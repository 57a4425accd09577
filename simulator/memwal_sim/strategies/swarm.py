"""Swarm: each run leaves some of its means out (Groce, Zhang, Eide, Chen, Regehr: ISSTA 2012).

A bug that needs many steps of one process, or faults of one kind only, drowns where everything happens to all. So
each run draws which kinds of fault happen, whether processes stall, whether they crash, and how eager each of them is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..exploring.unfolding import Lanes
from .draws import BITS, Draws
from .mishaps import PlannedFaults, plan_absences, without_absent
from .strategy import Run, Terms
from .walking import Pick, Walk, walk

EAGERNESS = (1, 1, 4, 16)
"""Weights, of which each lane gets one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a run makes use of."""

    kinds: frozenset[int]
    """Fates that requests may meet; none: no request fails."""
    stalls: bool
    crashes: bool
    weights: tuple[int, ...]
    """Lane -> how eager it is."""


def means(draws: Draws, lanes: int, kinds: Collection[int]) -> Means:
    """Each of the ``kinds`` of fault, stalls and crashes with probability one half; a weight for each lane."""
    return Means(
        kinds=frozenset(int(kind) for kind in sorted(kinds) if draws.one_in(2)),
        stalls=draws.one_in(2),
        crashes=draws.one_in(2),
        weights=tuple(draws.one_of(EAGERNESS) for _ in range(lanes)),
    )


def swarm(terms: Terms) -> Run:
    """Runs that each have their own `Means`."""
    unfolding, processes = terms.unfolding, len(terms.unfolding.tries)

    def run(seed: int) -> Walk:
        draws = Draws(seed)
        own = means(draws, processes + terms.faults, unfolding.kinds)
        faults = PlannedFaults(draws, terms.faults if own.kinds else 0, terms.steps, own.kinds)
        absences = plan_absences(draws, processes, terms.steps, stalls=own.stalls, crashes=own.crashes)
        return walk(unfolding, without_absent(weighted(draws, own.weights), absences), faults)

    return run


def weighted(draws: Draws, weights: tuple[int, ...]) -> Pick:
    """Each lane with a probability that is proportional to its weight."""
    take, of = draws.take, weights.__getitem__

    def pick(lanes: Lanes) -> int:
        *others, last = lanes
        rest = take() * sum(map(of, lanes)) >> BITS
        for lane in others:
            rest -= weights[lane]
            if rest < 0:
                return lane
        return last

    return pick
