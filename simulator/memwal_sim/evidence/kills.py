"""Which oracles notice a planted bug, and what each reading of the texts does alone.

A bug has to be killed in its scenario by the oracle that it names. It may turn two readings at once, and then its
history says nothing of either: each reading is explored by itself, too, in the scenarios of all bugs that turn it,
under every revision, the strict profile with that one field of `Interpretation` as the text has it. All oracles are
asked. What is looked at is bounded by states, not by time, so that every process finds the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memwal.words import counted

from .. import bugs as planting
from ..bugs import Bug
from ..exploring.exploration import Exploration, Move
from ..exploring.explorer import explore
from ..traces.study import Study, kill, killed, killing
from ..world import REFINEMENT
from .turned import TurnedReading

STATES_MAX = 6_000
"""States that are looked at for oracles that a bug does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """What was noticed in one scenario under one revision."""

    scenario: str
    revision: str
    oracles: Mapping[str, str]
    """Oracle that objects -> after how much."""
    explored: str
    """How much was explored."""


def of_reading(turned: TurnedReading, states_max: int = STATES_MAX) -> Noticed:
    """Explore a reading that is turned alone."""
    return _noticed(study(turned), states_max)


def study(turned: TurnedReading) -> Study:
    """What is to be explored for it."""
    (bug,) = planting.choose([turned.bug])
    alone = replace(bug, readings={turned.reading: False}, replaced={}, revision=turned.revision)
    return replace(killing(alone), only=None, refine=True)


def of_bug(bug: Bug) -> Noticed:
    """Explore until the oracle of ``bug`` kills it, and as far as the bound for the others.

    Its oracle is among those that object only if it names the clause that the bug says.
    """
    run = kill(bug).run
    found = _noticed(killing(bug), STATES_MAX)
    oracles = {name: said for name, said in found.oracles.items() if name != bug.oracle}
    if bug.oracle != REFINEMENT and (refined := refinement(bug)).violation is not None:
        oracles[REFINEMENT] = f"{len(refined.trace)} steps: {refined.violation.reason.partition(': ')[2]}"
    if killed(bug, run):
        length = f"{counted(len(run.trace), 'step')}, {counted(switches(run.trace), 'switch', 'switches')}"
        oracles[bug.oracle] = f"{length}, {counted(run.states, 'state')}"
    return replace(found, oracles=oracles)


def refinement(bug: Bug) -> Exploration:
    """Explore the scenario of ``bug`` until a change of the store is no step of the abstract machine.

    By itself: the histories that the machine tells apart would take states from the oracles.
    """
    study = replace(killing(bug), only=REFINEMENT)
    with planting.planted(study.bugs):
        return explore(study.world(), replace(study.bounds, states_max=STATES_MAX), only=REFINEMENT)


def _noticed(study: Study, states_max: int) -> Noticed:
    with planting.planted(study.bugs):
        run = explore(study.world(), replace(study.bounds, states_max=states_max), every=True)
    return Noticed(
        scenario=study.scenario.name,
        revision=study.revision,
        oracles={name: counted(steps, "step") for name, steps in run.steps.items()},
        explored=_explored(run),
    )


def _explored(run: Exploration) -> str:
    return f"{'all' if run.limit is None else 'the first'} {counted(run.states, 'state')}"


def switches(moves: Sequence[Move]) -> int:
    """How often a process is interrupted and continues later."""
    actors = [move.actor for move in moves if move.landed is None]
    pairs = enumerate(zip(actors, actors[1:], strict=False), 1)
    return sum(1 for after, (one, other) in pairs if one != other and one in actors[after:])
