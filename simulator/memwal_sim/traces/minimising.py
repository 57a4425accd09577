"""Making a recorded history small, and a trace of it again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from memwal.errors import InvalidArgument

from .. import workloads
from ..bugs import planted
from ..exploring.exploration import Bounds, Move
from ..exploring.exploration import ExplorationProgress as Exploring
from ..exploring.explorer import explore
from ..outcomes import FATES, FAULTS, FREE
from ..simulation import Simulation, StepTaken
from .recording import engine_digest, record
from .references import Recorded, opened, resolved
from .replay import replay_in
from .shrinking import TRIES_MAX, Moves, ShrinkProgress, Size, shrink, size
from .study import Study
from .trace import Found, Header, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimised:
    """How it went."""

    trace: Trace
    before: Size
    shrunk: Size
    """After shrinking."""
    after: Size
    """After the exploration too, if there was one."""
    tries: int
    """Histories that shrinking replayed."""
    shortest: bool
    """An exploration proved that no history of the violation is shorter, or does with fewer faults, within the recorded
    bound on preemptions."""
    limits: tuple[str, ...]
    """What stopped shrinking or exploring before they were through."""
    seconds: float


def minimise(
    found: Recorded,
    *,
    tries_max: int = TRIES_MAX,
    progress: Callable[[ShrinkProgress], None] | None = None,
    exhaustive: Bounds | None = None,
    exploring: Callable[[Exploring], None] | None = None,
) -> Minimised:
    """A small trace of the violation that ``found`` records: same clause, same oracle.

    ``exhaustive``: explore the scenario too, with no fault, with one, … up to those of the shrunk history, until the
    violation is found; its three limits count, and else the recorded bounds. Actors that do nothing go.
    Raises `InvalidArgument` if the trace records no violation, or does not end in the recorded one.
    """
    began = time.monotonic()
    violation = found.trace.header.violation
    if violation is None:
        raise InvalidArgument(f"{found.name} records no violation: there is nothing to keep while it shrinks")
    before = _played(found, violation)
    found = _without_idle(found, before)
    with opened(found) as world:
        shrunk = shrink(
            world, before, clause=violation.clause, oracle=violation.oracle, tries_max=tries_max, progress=progress
        )
    moves, shortest, limits = shrunk.moves, False, [] if shrunk.limit is None else [shrunk.limit]
    found = _without_idle(found, moves)
    if exhaustive is not None:
        shortest_moves, limit = _explored(found.study, violation, size(moves).faults, exhaustive, exploring)
        limits += [] if limit is None else [limit]
        shortest = shortest_moves is not None
        moves = shortest_moves or moves
        found = _without_idle(found, moves)
    return Minimised(
        trace=_recorded_again(found, moves, explored=shortest),
        before=size(before),
        shrunk=size(shrunk.moves),
        after=size(moves),
        tries=shrunk.tries,
        shortest=shortest,
        limits=tuple(limits),
        seconds=time.monotonic() - began,
    )


def _played(found: Recorded, violation: Found) -> Moves:
    """The moves of a replay of ``found``, up to the violation."""
    moves: list[Move] = []

    def watch(_simulation: Simulation, taken: StepTaken | None) -> None:
        if taken is not None:
            moves.append(Move(taken.actor, taken.fate, taken.request if taken.fate is None else None))

    with opened(found) as world:
        replayed = replay_in(world, found.trace, watch=watch)
    if not replayed.reproduced or replayed.violation_at is None:
        raise InvalidArgument(f"{found.name} does not end in its violation of {violation.clause} ({violation.oracle})")
    return tuple(moves[: replayed.violation_at])


def _without_idle(found: Recorded, moves: Moves) -> Recorded:
    """``found`` without the actors that make no move; its steps are those of ``moves`` from now on."""
    header = found.trace.header
    acting = {move.actor for move in moves}
    actors = tuple(actor for actor in header.actors if actor.name in acting)
    if actors == header.actors or not actors:
        return found
    without = replace(found.study, scenario=workloads.scenario_of(workloads.find(header.scenario), actors))
    steps = tuple(step for step in found.trace.steps if step.actor in acting)
    return Recorded(found.name, Trace(replace(header, actors=actors), steps), without)


def _explored(
    study: Study,
    violation: Found,
    faults: int,
    limits: Bounds,
    progress: Callable[[Exploring], None] | None,
) -> tuple[Moves | None, str | None]:
    """A shortest history of the violation with as few faults as it can have; or the limit that was met."""
    for budget in range(faults + 1):
        own = study.bounds
        bounds = replace(limits, faults=budget, kinds=own.kinds, preemptions=own.preemptions, merge=True, reduce=False)
        with planted(study.bugs):
            run = explore(study.world(), bounds, only=violation.oracle, progress=progress)
        if run.violation is not None and run.violation.clause == violation.clause:
            return run.trace, None
        if run.limit is not None:
            return None, run.limit
    return None, None


def _recorded_again(found: Recorded, moves: Moves, *, explored: bool) -> Trace:
    """The trace of ``moves``; ``explored``: within the recorded bound on preemptions, and not only perhaps."""
    header = found.trace.header
    bound = header.preemptions
    with opened(found) as world:
        steps, violation = record(world, moves, found.study.only)
    if violation is None:
        raise InvalidArgument(f"{found.name}: the small history breaks nothing when it is replayed step by step")
    again = Found(clause=violation.clause, oracle=violation.oracle, reason=violation.reason)
    untold = header.violation is not None and header.title == header.violation.reason
    trace = Trace(
        replace(
            header,
            engine=engine_digest(),
            faults=size(moves).faults,
            kinds=_kinds(header, moves),
            preemptions=bound if bound is None or explored else max(bound, size(moves).changes),
            title=violation.reason if untold else header.title,
            violation=again,
        ),
        steps,
    )
    return resolved(trace, found.name).trace


def _kinds(header: Header, moves: Moves) -> tuple[str, ...]:
    """The recorded kinds of faults, and those that ``moves`` have; none where these are all that are faults."""
    met = {move.fate for move in moves if move.fate is not None} - FREE
    known = {FATES[label] for label in header.kinds} or set(FAULTS)
    kinds = sorted(fate for fate in known | met if fate is not None)
    return () if set(kinds) == FAULTS else tuple(fate.label for fate in kinds)
