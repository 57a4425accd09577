"""What an exploration starts from, and what it may find: a world and a violation."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

from memwal.effects import Note

from .process import Process
from .store import Contents


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must hold does not, with its counterexample."""

    clause: str
    """Requirement or ambiguity that is broken, such as ``WAL-001``; `process.ENGINE_CLAUSE` if code of ours failed."""
    oracle: str
    """Name of the oracle that says so."""
    reason: str
    """One sentence for people."""
    counterexample: tuple[tuple[str, str], ...] = ()
    """What shows it: names and values."""

    def __str__(self) -> str:
        shown = "".join(f"\n  {name}: {value}" for name, value in self.counterexample)
        return f"{self.reason} [{self.clause}, {self.oracle}]{shown}"


Ghosts: TypeAlias = Hashable
"""What a scenario remembers of the notes that processes made: a value of the scenario's own."""

Oracle: TypeAlias = Callable[[Contents, Any], "Violation | None"]
"""Judges one reachable state by its contents and ghosts, as if every process had crashed there. A pure function."""

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
    liveness: tuple[Oracle, ...] = ()
    """Oracles that run more than a recovery: whether everything can still come to its end."""
