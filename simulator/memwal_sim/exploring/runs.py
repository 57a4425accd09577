"""What the judge of steps knows of each state: of the run by which the state was first reached."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from memwal.violations import Violation

from ..outcomes import UNLEARNED, Fate
from ..store import Contents
from ..trie import Trie
from ..world import StepJudge
from .interned import Array, GrowingArray
from .successors import FIRST_NODE, GHOST, ORPHANS, STORE
from .tables import FATE_BITS, GhostTable, KnownRuns, Orphans, Stores


class Runs:
    """Runs by number, and the number of each state's."""

    def __init__(
        self,
        judge: StepJudge,
        stores: Stores,
        ghosts: GhostTable,
        orphans: Orphans,
        tries: list[Trie],
        first: Contents,
    ) -> None:
        """``first``: contents that the first state has."""
        self._judge, self._stores, self._orphans, self._tries, self._ghosts = judge, stores, orphans, tries, ghosts
        self._runs = KnownRuns()
        self._of_state = GrowingArray(np.int32)
        self._of_state.append(self._runs.number(judge.begin(first)))

    def judge(self, rows: Array, states: Array, parents: Array, moves: Array) -> Iterator[tuple[int, Violation]]:
        """Remember what is known of new ``states``, which ``moves`` made of ``rows``; the places of bad steps."""
        runs = self._of_state.values[parents]
        for place in np.flatnonzero(rows[:, STORE] != states[:, STORE]).tolist():
            before, after = (self._stores.contents[each[place, STORE]] for each in (rows, states))
            actor, lost = self._maker(int(moves[place]), int(rows[place, ORPHANS]))
            known, violation = self._judge.after(self._runs.known[runs[place]], before, after, actor, lost=lost)
            runs[place] = self._runs.number(known)
            if violation is not None:
                yield place, violation
        told = (rows[:, GHOST] != states[:, GHOST]) & (moves >= 0)
        for place in np.flatnonzero(told).tolist():
            process = int(moves[place]) >> FATE_BITS
            trie, ghosts = self._tries[process], self._ghosts.values[states[place, GHOST]]
            notes = trie.notes[states[place, FIRST_NODE + process]]
            violation = self._judge.noted(self._runs.known[runs[place]], ghosts, trie.process.name, notes)
            if violation is not None:
                yield place, violation
        self._of_state.extend(runs)

    def _maker(self, move: int, orphans: int) -> tuple[str, bool]:
        """Who makes a move, and whether it does not learn of it."""
        if move < 0:
            return self._tries[self._orphans.sets[orphans][~move][0]].process.name, True
        return self._tries[move >> FATE_BITS].process.name, Fate(move & ((1 << FATE_BITS) - 1)) in UNLEARNED
