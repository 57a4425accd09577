"""Uniform: each step, each process that can move is equally likely to; so is each request that is under way."""

from __future__ import annotations

from dataclasses import replace

from ..exploring.unfolding import Lanes, Unfolding
from ..world import World
from .draws import BITS, Draws
from .mishaps import PlannedFaults, plan_absences, without_absent
from .strategy import Run, Terms
from .walking import Pick, Walk, walk


def uniform(terms: Terms) -> Run:
    """Runs with uniform choices; now and then a process stalls or crashes."""
    unfolding, processes = terms.unfolding, len(terms.unfolding.tries)

    def run(seed: int) -> Walk:
        draws = Draws(seed)
        faults = PlannedFaults(draws, terms.faults, terms.steps)
        absences = plan_absences(draws, processes, terms.steps, stalls=True, crashes=True)
        return walk(unfolding, without_absent(any_of(draws), absences), faults)

    return run


def any_of(draws: Draws) -> Pick:
    """Each lane with the same probability."""
    take = draws.take

    def pick(lanes: Lanes) -> int:
        return lanes[take() * len(lanes) >> BITS]

    return pick


def usual_length(world: World) -> int:
    """Steps of a run without mishaps, whatever it violates: by this, mishaps are spread over runs. 1 or more."""
    unjudged = Unfolding(replace(world, oracles=(), step=None), only="")
    return len(walk(unjudged, any_of(Draws(0))).keys) or 1
