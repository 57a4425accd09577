"""Running a machine: with its planted bugs in place, until it is through or has found something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from ..bugs import Bug, planted
from ..bugs import readings as read_by
from ..outcomes import Fate
from ..profiles import chosen
from ..scenarios.scenario import setting
from ..simulation import Simulation
from ..traces.recording import record
from ..traces.shrinking import shrink
from ..traces.trace import Trace
from .engine import BrokenError, EngineMachine, Finds, written
from .remembering import Memory

TRIES_MAX = 300
"""Histories that are tried to make the found one smaller."""


def run(
    machine: type[EngineMachine],
    how: settings | None = None,
    *,
    bugs: Sequence[Bug] = (),
    readings: Mapping[str, bool | int | str] | None = None,
    tries_max: int = TRIES_MAX,
) -> None:
    """Run ``machine`` with ``bugs`` planted, as ``how`` says; None: as the profile says that the environment names.

    ``readings``: fields of the interpretation on top of its profile's. Raises `BrokenError` with the shortest history
    that shows what it found, after at most ``tries_max`` were tried to make it so.
    """
    own: dict[str, Any] = {
        "bugs": (*machine.bugs, *bugs),
        "readings": {**machine.readings, **(readings or {})},
        "memory": Memory(),
        "finds": Finds(),
        "__module__": machine.__module__,
    }
    once: type[EngineMachine] = type(machine.__name__, (machine,), own)
    with planted(once.bugs):
        try:
            run_state_machine_as_test(once, settings=how or chosen())
        except BrokenError as broken:
            made = None if not tries_max or not broken.moves else smaller(once, broken, tries_max)
            if made is None:
                raise
            raise made from broken


def smaller(machine: type[EngineMachine], broken: BrokenError, tries_max: int = TRIES_MAX) -> BrokenError | None:
    """``broken`` with moves left out and put in another order; its trace replaces the first one.

    None for a process that breaks before its first request: nothing can be left out of no request.
    """
    header, found = broken.trace.header, broken.violation
    interpretation = {**header.readings, **read_by(machine.bugs)}
    under = setting(header.revision, header.profile, interpretation)
    world = machine.workload.world(under, header.actors, refine=True)
    if Simulation(world).violation(found.oracle) is not None:
        return None
    shrunk = shrink(
        world,
        broken.moves,
        clause=found.clause,
        oracle=found.oracle,
        tries_max=tries_max,
    )
    moving = {move.actor for move in shrunk.moves}
    actors = tuple(actor for actor in header.actors if actor.name in moving)
    steps, violation = record(machine.workload.world(under, actors, refine=True), shrunk.moves, found.oracle)
    violation = violation or shrunk.violation
    faults = sum(move.fate not in (None, Fate.NORMAL) for move in shrunk.moves)
    told = None if header.violation is None else replace(header.violation, reason=violation.reason)
    trace = Trace(replace(header, actors=actors, faults=faults, title=violation.reason, violation=told), steps)
    return BrokenError(violation, trace, written(trace, machine.__name__), broken.rules, shrunk.moves)


def hunt(
    machine: type[EngineMachine],
    how: settings | None = None,
    *,
    bugs: Sequence[Bug] = (),
    readings: Mapping[str, bool | int | str] | None = None,
    tries_max: int = TRIES_MAX,
) -> BrokenError | None:
    """As `run`, but return what was found; None for nothing."""
    try:
        run(machine, how, bugs=bugs, readings=readings, tries_max=tries_max)
    except BrokenError as broken:
        return broken
    return None
