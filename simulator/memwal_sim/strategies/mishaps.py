"""What happens in a run besides the choice of who moves: requests that fail, processes that stall or crash.

A crashed process is one that is not scheduled again, and a stalled one is not scheduled for a while. Oracles judge
every state as if all had crashed there; what crashes and stalls add is what the others do in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..exploring.unfolding import Lanes
from .draws import Draws
from .walking import NEVER, Pick


class PlannedFaults:
    """Faults at planned steps: each meets the first request from there on that can fail."""

    __slots__ = ("_draws", "_kinds", "_planned", "due")

    def __init__(self, draws: Draws, budget: int, steps: int, kinds: frozenset[int] | None = None) -> None:
        """``budget`` faults at steps below ``steps``, of these ``kinds`` (default: all that a request can meet)."""
        self._draws = draws
        self._kinds = kinds
        self._planned = sorted((draws.below(steps) for _ in range(budget)), reverse=True)
        self.due = self._planned.pop() if self._planned else NEVER

    def fate(self, step: int, possible: tuple[int, ...]) -> int:  # noqa: ARG002 - of the protocol `Faults`
        """One of ``possible``, each with the same probability; 0 if there is none of the wanted kinds."""
        wanted = possible if self._kinds is None else tuple(fate for fate in possible if fate in self._kinds)
        if not wanted:
            return 0
        self.due = self._planned.pop() if self._planned else NEVER
        return self._draws.one_of(wanted)


@dataclass(frozen=True, slots=True)
class Absence:
    """A process that is not scheduled."""

    process: int
    first: int
    """Step from which it is not."""
    end: int
    """Step from which it is again; `NEVER` for a crash."""


def plan_absences(draws: Draws, processes: int, steps: int, *, stalls: bool, crashes: bool) -> tuple[Absence, ...]:
    """Each process crashes in one run out of eight and stalls in one out of four, at any of the first ``steps``."""
    planned = []
    for process in range(processes):
        chance = draws.below(8)
        first = draws.below(steps)
        if crashes and chance == 0:
            planned.append(Absence(process, first, NEVER))
        elif stalls and chance in (1, 2):
            planned.append(Absence(process, first, first + 1 + draws.below(steps)))
    return tuple(planned)


def without_absent(pick: Pick, absences: Sequence[Absence]) -> Pick:
    """``pick``, among those that are there; if none is, among the stalled; if only the crashed are left, nothing.

    The result counts its calls as steps, so that it is good for one run.
    """
    if not absences:
        return pick
    changes = sorted({NEVER, *(step for each in absences for step in (each.first, each.end))}, reverse=True)
    step = -1
    away: list[Absence] = []
    gone: frozenset[int] = frozenset()

    def among_present(lanes: Lanes) -> int | None:
        nonlocal step, away, gone
        step += 1
        if step >= changes[-1]:
            while step >= changes[-1]:
                changes.pop()
            away = [each for each in absences if each.first <= step < each.end]
            gone = frozenset(each.process for each in away)
        if not gone:
            return pick(lanes)
        present = _without(lanes, gone)
        if not present:
            gone = frozenset(each.process for each in away if each.end == NEVER)
            present = _without(lanes, gone)
        return pick(present) if present else None

    return among_present


def _without(lanes: Lanes, gone: frozenset[int]) -> Lanes:
    return tuple(lane for lane in lanes if lane not in gone)
