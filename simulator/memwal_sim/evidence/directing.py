"""Histories that are told rather than found: who goes on how far, turn by turn, and what has to be so then.

An `Example` is played once into a trace of format 2, whose ``expected`` are the facts that its turns name. A fact that
is not so is a mistake of the example, or of the engine, and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memwal.errors import InvalidArgument

from .. import plays
from ..cast import Part
from ..exploring.exploration import Bounds
from ..names import operation, symbolic
from ..outcomes import FAULTS, Fate
from ..stage import Stage
from ..traces import facts
from ..traces.recording import step
from ..traces.study import Study
from ..traces.study import header as header_of
from ..traces.trace import FORMAT_EXPECTING, Expected, Step, Trace

TURN_MAX = 500
"""Requests of one turn; more of them never come to where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One process goes on, to its end if nothing else is said."""

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
    """A history that is told."""

    path: str
    """Below ``faults/recorded``, without the suffix."""
    play: str
    revision: str = "B"
    profile: str = "strict"
    readings: Mapping[str, bool] = field(default_factory=dict)
    title: str
    """One line for lists."""
    description: str
    """What happens, why it matters, which clauses say so, and what the outcome must be."""
    cast: Sequence[Part]
    turns: Sequence[Turn]
    oracle: str | None = None
    """What has to break at the end; None: nothing."""

    @property
    def file(self) -> Path:
        """Of its trace, below the folder of faults."""
        return Path("recorded") / f"{self.path}.jsonl"


def follows(name: str, role: str, *script: Mapping[str, Any], **arguments: Any) -> Part:
    """The process ``name`` of a cast, which does ``script``."""
    return Part(name=name, role=role, arguments={"script": list(script), **arguments})


def direct(example: Example) -> Trace:
    """The trace of ``example``; raises `InvalidArgument` if a turn or a fact is not as it says."""
    faults = [turn.fate for turn in example.turns if turn.fate is not Fate.NORMAL]
    study = Study(
        scenario=plays.staged(plays.find(example.play), example.cast),
        revision=example.revision,
        profile=example.profile,
        readings=example.readings,
        bounds=Bounds(faults=len(faults), kinds=frozenset(faults) or FAULTS),
        only=example.oracle,
    )
    stage = Stage(study.world())
    steps: list[Step] = []
    expected: list[Expected] = []
    for turn in example.turns:
        steps += play(stage, turn, len(steps), example.path)
        if turn.says:
            expected.append(Expected(after=len(steps), says=turn.says, state=turn.state))
            _check(stage, turn, example.path, example.oracle)
    violation = stage.violation(example.oracle)
    if (violation is None) != (example.oracle is None):
        raise InvalidArgument(f"{example.path}: {violation or 'nothing'} is broken at the end")
    header = header_of(study, violation, example.title, example.description)
    kinds = () if not faults else header.kinds
    told = replace(header, format=FORMAT_EXPECTING, cast=tuple(example.cast), expected=tuple(expected), kinds=kinds)
    return Trace(told, tuple(steps))


def play(stage: Stage, turn: Turn, played: int, where: str) -> Iterator[Step]:
    """The steps of ``turn`` on ``stage``, after as many as were ``played``."""
    for number in range(played + 1, played + TURN_MAX):
        request = stage.waiting(turn.actor)
        asked = None if request is None else f"{operation(request)} {symbolic(request.path)}"
        if asked == turn.before:
            return
        if asked is None:
            raise InvalidArgument(f"{where}: {turn.actor} ended without {turn.before or turn.after}")
        last = asked == turn.after
        yield step(number, stage.play(turn.actor, turn.fate if last else Fate.NORMAL), stage.contents)
        if last:
            return
    raise InvalidArgument(f"{where}: {turn.actor} never came to {turn.before or turn.after or 'its end'}")


def _check(stage: Stage, turn: Turn, where: str, oracle: str | None) -> None:
    """Raises `InvalidArgument` if a fact is not so, or anything but ``oracle`` finds something broken."""
    violation = stage.violation()
    if violation is not None and violation.oracle != oracle:
        raise InvalidArgument(f"{where}, {turn.says!r}: {violation}")
    for name, wanted in turn.state.items():
        found = facts.look(stage, name)
        if not facts.holds(wanted, found):
            raise InvalidArgument(f"{where}, {turn.says!r}: {name} is {found}, and has to be {wanted}")


Tell = Callable[[], Sequence[Example]]
"""Examples of one kind, in the order in which they are to be read."""
