"""The steps that lead on from states, thousands of states at a time.

A state is a row: number of the store, of the ghosts, of the requests under way, faults left, then a node for each
process, and under a bound on preemptions the last process and the preemptions so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..outcomes import FREE, Fate
from ..trie import AT_END
from .exploration import Bounds
from .interned import Array
from .steps import Behaviour, Landing
from .tables import FATE_BITS, NONE_UNDER_WAY

STORE, GHOST, ORPHANS, LEFT, FIRST_NODE = range(5)
"""Columns of a state."""
NO_ACTOR = -1
"""In place of the last process: none has run yet."""


@dataclass(slots=True)
class Steps:
    """Some steps: a row for each."""

    parents: Array
    """Places of the states before, in their batch."""
    states: Array
    """States afterwards."""
    actor: int
    """Number of the process; that of all processes for requests that land."""
    move: int
    """As the search remembers it."""


class Successors:
    """Of the states of one world within ``bounds``."""

    def __init__(self, behaviours: Sequence[Behaviour], landing: Landing, bounds: Bounds) -> None:
        self._behaviours, self._landing, self._bounds = behaviours, landing, bounds
        self.end = FIRST_NODE + len(behaviours)
        """The column after the nodes."""
        self.width = self.end + (0 if bounds.preemptions is None else 2)

    def steps(self, rows: Array, places: Array, actor: int) -> Iterator[Steps]:
        """Steps of ``actor`` from the states at ``places`` in which it has not ended, by fate; none over the bound."""
        behaviour, column = self._behaviours[actor], FIRST_NODE + actor
        if self._bounds.preemptions is not None:
            used = self._preempted(rows, places, actor)
            places = places[used <= self._bounds.preemptions]
        for fate in Fate:
            fault = fate not in FREE
            if (fault and not self._bounds.faults) or (fate is Fate.SWITCH and not behaviour.switches):
                continue
            some = places[behaviour.meets(rows[places, column], fate)]
            if fault:
                some = some[rows[some, LEFT] > 0]
            if not len(some):
                continue
            before = rows[some]
            after = before.copy()
            if self._bounds.preemptions is not None:
                after[:, self.end] = actor
                after[:, self.end + 1] = self._preempted(rows, some, actor)
            nodes = before[:, column]
            after[:, STORE], after[:, column] = behaviour.step(before[:, STORE], nodes, fate)
            after[:, GHOST] = before[:, GHOST]
            if fate is not Fate.SWITCH:
                issued = behaviour.tell(before[:, GHOST], nodes, invoked=True)
                after[:, GHOST] = behaviour.tell(issued, after[:, column], invoked=False)
            if fate is Fate.LATE:
                after[:, ORPHANS] = self._landing.issued(before[:, ORPHANS], actor, behaviour.requests[nodes])
            if fault:
                after[:, LEFT] -= 1
            yield Steps(some, after, actor, actor << FATE_BITS | fate)

    def _preempted(self, rows: Array, places: Array, actor: int) -> Array:
        """Preemptions of each history once ``actor`` continues: one more if the last process could have."""
        last: Array = rows[places, self.end]
        used: Array = rows[places, self.end + 1]
        for other, behaviour in enumerate(self._behaviours):
            if other != actor:
                left = places[last == other]
                used[last == other] += behaviour.requests[rows[left, FIRST_NODE + other]] != AT_END
        return used

    def landings(self, rows: Array, places: Array) -> Iterator[Steps]:
        """Steps in which one of the requests under way is applied; its reply is not seen."""
        places = places[rows[places, ORPHANS] != NONE_UNDER_WAY]
        if not len(places):
            return
        waiting = self._landing.count(rows[places, ORPHANS])
        for place in range(int(waiting.max())):
            some = places[waiting > place]
            after = rows[some].copy()
            after[:, STORE], after[:, ORPHANS] = self._landing.land(after[:, STORE], after[:, ORPHANS], place)
            yield Steps(some, after, len(self._behaviours), ~place)
