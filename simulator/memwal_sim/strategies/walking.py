"""One run: from the start of a world along moves that a strategy picks, to a violation or to the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memwal.violations import Violation

from ..exploring.tables import FATE_BITS
from ..exploring.unfolding import START, Lanes, Unfolding

NEVER = 1 << 62
"""A step that no run comes to."""
STEPS_MAX = 10_000
"""Steps after which a run ends: more of them are processes that wait for each other for ever."""

Pick = Callable[[Lanes], int | None]
"""The lane that moves next, out of those that can; None: none moves any more. Called once per step."""


class Faults(Protocol):
    """When requests fail, and how."""

    due: int
    """First step at which one may fail; `NEVER` when none does any more."""

    def fate(self, step: int, possible: tuple[int, ...]) -> int:
        """The fate of the request of ``step``: one of ``possible``, or 0 for the normal one."""


class NoFaults:
    """Every request is answered."""

    due = NEVER

    def fate(self, step: int, possible: tuple[int, ...]) -> int:  # noqa: ARG002 - nothing is due, so this is never asked
        """Always the normal one."""
        return 0


@dataclass(frozen=True, slots=True)
class Walk:
    """A run that is over."""

    keys: bytes
    """Its moves, one byte each; equal bytes are equal schedules."""
    violation: Violation | None


def walk(unfolding: Unfolding, pick: Pick, faults: Faults | None = None) -> Walk:
    """Let ``pick`` choose each move until no lane can move, none does, or something is violated."""
    failing = faults or NoFaults()
    lanes_of, after, processes = unfolding.lanes, unfolding.after, len(unfolding.tries)
    keys = bytearray()
    state = START
    while lanes := lanes_of[state]:
        lane = pick(lanes)
        if lane is None or len(keys) == STEPS_MAX:
            break
        key = lane << FATE_BITS
        if len(keys) >= failing.due and lane < processes:
            key |= failing.fate(len(keys), unfolding.faults(state, lane))
        keys.append(key)
        known = after[state].get(key)
        state = unfolding.replay(state, key) if known is None else known
    return Walk(bytes(keys), unfolding.violations.get(state))
