"""Histories that are written by hand: which process runs how far, step by step, and what must hold then.

An `Example` is performed once into a trace, whose ``expected`` are the facts that its steps name. A fact that
is not so is a mistake of the example, or of the engine, and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument

from .. import workloads
from ..actor import Actor
from ..exploring.exploration import Bounds
from ..names import operation, symbolic
from ..outcomes import FAULTS, Fate
from ..simulation import Simulation
from ..traces import facts
from ..traces.recording import step
from ..traces.study import Study
from ..traces.study import header as header_of
from ..traces.trace import Expected, Step, Trace

ADVANCE_MAX = 500
"""Requests of one step; more of them never come to where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """One step: an actor runs, to its end by default."""

    actor: str
    before: str | None = None
    """It stops before this request, which is an operation and the symbolic name of an object."""
    after: str | None = None
    """It stops after this one."""
    fate: Fate = Fate.NORMAL
    """Of the request named by ``after``."""
    says: str = ""
    """What is so now, in plain words."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """Facts that say so, see `memwal_sim.traces.facts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A history that is written."""

    path: str
    """Below ``faults/recorded``, without the suffix."""
    workload: str
    revision: str = "B"
    profile: str = "strict"
    readings: Mapping[str, bool] = field(default_factory=dict)
    title: str
    """One line for lists."""
    description: str
    """What happens, why it matters, which clauses say so, and what the outcome must be."""
    actors: Sequence[Actor]
    steps: Sequence[Advance]
    oracle: str | None = None
    """What has to break at the end; None: nothing."""

    @property
    def file(self) -> Path:
        """Of its trace, below the folder of faults."""
        return Path("recorded") / f"{self.path}.jsonl"


def trace_of(example: Example) -> Trace:
    """The trace of ``example``; raises `InvalidArgument` if a step or a fact is not as it says."""
    faults = [each.fate for each in example.steps if each.fate is not Fate.NORMAL]
    study = Study(
        scenario=workloads.scenario_of(workloads.find(example.workload), example.actors),
        revision=example.revision,
        profile=example.profile,
        readings=example.readings,
        bounds=Bounds(faults=len(faults), kinds=frozenset(faults) or FAULTS),
        only=example.oracle,
    )
    simulation = Simulation(study.world())
    steps: list[Step] = []
    expected: list[Expected] = []
    for each in example.steps:
        steps += advanced(simulation, each, len(steps), example.path)
        if each.says:
            expected.append(Expected(after=len(steps), says=each.says, state=each.state))
            _check(simulation, each, example.path, example.oracle)
    violation = simulation.violation(example.oracle)
    if (violation is None) != (example.oracle is None):
        raise InvalidArgument(f"{example.path}: {violation or 'nothing'} is broken at the end")
    header = header_of(study, violation, example.title, example.description)
    kinds = () if not faults else header.kinds
    header = replace(header, actors=tuple(example.actors), expected=tuple(expected), kinds=kinds)
    return Trace(header, tuple(steps))


def advanced(simulation: Simulation, advance: Advance, made: int, where: str) -> Iterator[Step]:
    """The steps of a trace that ``advance`` makes on ``simulation``, after as many as were ``made``."""
    for number in range(made + 1, made + ADVANCE_MAX):
        request = simulation.waiting(advance.actor)
        asked = None if request is None else f"{operation(request)} {symbolic(request.path)}"
        if asked == advance.before:
            return
        if asked is None:
            raise InvalidArgument(f"{where}: {advance.actor} ended without {advance.before or advance.after}")
        last = asked == advance.after
        yield step(number, simulation.step(advance.actor, advance.fate if last else Fate.NORMAL), simulation.contents)
        if last:
            return
    raise InvalidArgument(f"{where}: {advance.actor} never reached {advance.before or advance.after or 'its end'}")


def _check(simulation: Simulation, advance: Advance, where: str, oracle: str | None) -> None:
    """Raises `InvalidArgument` if a fact is not so, or anything but ``oracle`` finds something broken."""
    violation = simulation.violation()
    if violation is not None and violation.oracle != oracle:
        raise InvalidArgument(f"{where}, {advance.says!r}: {violation}")
    for name, wanted in advance.state.items():
        found = facts.look(simulation, name)
        if not facts.holds(wanted, found):
            raise InvalidArgument(f"{where}, {advance.says!r}: {name} is {found}, and has to be {wanted}")
