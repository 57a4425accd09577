"""What an exploration is bounded by, says on its way, and says at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memwal.effects import StoreRequest

from .outcomes import FAULTS, Fate
from .world import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much to explore. A run that stops at one of the three limits is no certificate."""

    faults: int = 0
    """Requests in one history that meet another fate than the normal one."""
    kinds: frozenset[Fate] = FAULTS
    """The fates that they may meet."""
    preemptions: int | None = None
    """Times in one history that a process is left while it could go on; None: no bound."""
    states_max: int | None = None
    memory_mib_max: int | None = None
    """Peak resident memory of this operating-system process."""
    seconds_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a running exploration stands."""

    depth: int
    states: int
    frontier: int
    """States found at this depth and the next that have not been expanded."""
    stores: int
    seconds: float

    @property
    def rate(self) -> float:
        """States per second so far."""
        return self.states / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a counterexample."""

    actor: str
    """Name of the process that makes the request, or that made it long ago."""
    fate: Fate | None
    """What becomes of its next request; None: a request that was under way lands now."""
    landed: StoreRequest[Any] | None = None
    """The request that lands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What was explored, and what was found."""

    states: int
    transitions: int
    depth: int
    """Steps of the longest of the shortest histories of the states."""
    stores: int
    """Distinct contents, without those that only recovery made."""
    histories: dict[str, int]
    """Process -> distinct local histories."""
    ends: dict[str, int]
    """How processes ended, ``done`` or the kind of failure -> local histories that ended so."""
    replies_fed: int
    """Times that engine code was resumed."""
    terminal_states: int
    """States in which every process has ended."""
    terminal_stores: frozenset[str]
    """Digests of the contents of these."""
    limit: str | None
    """The limit at which the run stopped; None if it did not."""
    violation: Violation | None
    trace: tuple[Move, ...]
    """A shortest history that ends in the violation."""
    seconds: float

    @property
    def complete(self) -> bool:
        """Every state within the bounds was reached and judged."""
        return self.limit is None and self.violation is None

    @property
    def rate(self) -> float:
        """States per second."""
        return self.states / self.seconds if self.seconds else 0.0
