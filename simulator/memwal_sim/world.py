"""What an exploration starts from: a world, and the oracles that say what must hold in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from memwal.effects import Note
from memwal.violations import Violation

from .process import Process
from .store import Contents

ENGINE = "no process breaks"
"""Name of the oracle for processes that end in a broken artifact or in a bug of the engine."""

REFINEMENT = "each change is a step of the machine"
"""Name of the oracle for changes of the store, and acknowledgements, that the abstract machine does not make."""

Ghosts: TypeAlias = Hashable
"""What a scenario remembers of the notes that processes made: a value of the scenario's own."""

Oracle: TypeAlias = Callable[[Contents, Any], Violation | None]
"""Judges one reachable state by its contents and ghosts, as if every process had crashed there. A pure function."""

J = TypeVar("J", bound=Callable[..., Any])


def says(*names: str) -> Callable[[J], J]:
    """Mark an oracle, or a judge that is part of one, with the names under which it may object."""

    def marked(judge: J) -> J:
        setattr(judge, _SAYS, names)
        return judge

    return marked


def said(judge: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of `says`; None for an oracle that does not tell."""
    names: tuple[str, ...] | None = getattr(getattr(judge, "judge", judge), _SAYS, None)
    return names


_SAYS = "says"


class StepJudge(Protocol):
    """Judges the changes of a run one after the other, and what is noted, by what it knows so far. Pure functions."""

    def begin(self, contents: Contents, /) -> Any:
        """What is known of a run that begins with ``contents``."""
        ...

    def after(
        self, known: Any, before: Contents, contents: Contents, actor: str, /, *, lost: bool
    ) -> tuple[Any, Violation | None]:
        """What is known after a change by ``actor``, and what is wrong with it. ``lost``: it did not learn of it."""
        ...

    def noted(self, known: Any, ghosts: Any, actor: str, notes: tuple[Note, ...], /) -> Violation | None:
        """What is wrong with ``notes`` that ``actor`` has just made, after which the ghosts are ``ghosts``."""
        ...


Observe: TypeAlias = Callable[[Any, str, Note], Ghosts]
"""Ghosts before, name of the process, its note -> ghosts after. A pure function; unknown notes change nothing."""


def observe_nothing(ghosts: Ghosts, _actor: str, _note: Note) -> Ghosts:
    """The `Observe` of a world without ghosts."""
    return ghosts


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Contents of the store and the processes that start on it."""

    contents: Contents
    processes: tuple[Process, ...]
    ghosts: Ghosts = None
    observe: Observe = observe_nothing
    heard: frozenset[str] | None = None
    """The events of notes that ``observe`` makes something of; None: it may be any."""
    oracles: tuple[Oracle, ...] = ()
    step: StepJudge | None = None
    """What every change of the store has to be; None: anything. Its violations are of the oracle `REFINEMENT`."""
    liveness: tuple[Oracle, ...] = ()
    """Oracles that run more than a recovery: whether everything can still come to its end."""

    def names(self) -> frozenset[str] | None:
        """The names under which its oracles may object, but not those for liveness; None if one does not tell."""
        told = [said(oracle) for oracle in self.oracles]
        known = frozenset(name for names in told if names is not None for name in names)
        return None if None in told else known | {ENGINE} | ({REFINEMENT} if self.step is not None else set())
