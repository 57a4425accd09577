"""What an exploration is bounded by, says on its way, and says at its end."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memwal.effects import StoreRequest
from memwal.violations import Violation

from ..outcomes import FAULTS, Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much to explore. A run that stops at one of the three limits is no certificate."""

    faults: int = 0
    """Requests in one history that meet another fate than the normal one."""
    kinds: frozenset[Fate] = FAULTS
    """The fates that they may meet."""
    preemptions: int | None = None
    """Times in one history that a process is left while it could continue; None: no bound."""
    reduce: bool = False
    """Let one process run alone where its step commutes with all that the others may do. Every store is reached that
    an oracle can tell apart, but not by a shortest history. Without effect under a preemption bound."""
    merge: bool = False
    """Take histories of a process for one after which it is in the same state, see `memwal_sim.fingerprint`."""
    classes_max: int = 0
    """Histories to return that end all processes, one for each class of them: the same replies and contents."""
    states_max: int | None = None
    memory_mib_max: int | None = None
    """Peak resident memory of this operating-system process."""
    seconds_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationProgress:
    """Where a running exploration stands."""

    depth: int
    states: int
    frontier: int
    """States found at this depth and the next that have not been expanded."""
    stores: int
    seconds: float
    met: Mapping[str, int]
    """Fault -> requests of the processes' histories that have met it."""

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


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A place in the protocol from which requests are made."""

    function: str
    """Qualified name of the protocol function."""
    operation: str
    """The request, as traces name it."""
    changes: bool
    """It is a request that changes the store, so that its outcome may be unknown."""


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
    events: frozenset[str]
    """Events of the notes that processes made, and kinds of the failures in which they ended."""
    sites: Mapping[Site, frozenset[Fate]]
    """Every place from which a request was made, and what became of requests there."""
    unmerged: Mapping[str, int]
    """Kinds of objects of which no fingerprint could be taken -> histories that were not merged for it."""
    interleavings: int | None
    """Orders of all steps of all processes, faults included; None where steps were left out or histories merged."""
    limit: str | None
    """The limit at which the run stopped; None if it did not."""
    violation: Violation | None
    found: Mapping[str, Violation]
    """Oracle -> the first violation that it found: one, or with ``every`` those of all oracles that found any."""
    steps: Mapping[str, int]
    """Oracle -> steps of the history that ends in that violation; of a shortest one if no steps were left out."""
    trace: tuple[Move, ...]
    """A history that ends in the violation; a shortest one if no steps were left out."""
    classes: tuple[tuple[Move, ...], ...]
    """A history for each of the first `Bounds.classes_max` states in which every process has ended."""
    seconds: float

    @property
    def complete(self) -> bool:
        """Every state within the bounds was reached and judged, and nothing is wrong."""
        return self.limit is None and not self.found

    @property
    def rate(self) -> float:
        """States per second."""
        return self.states / self.seconds if self.seconds else 0.0


def memory_mib() -> float:
    """Peak resident memory of this operating-system process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
