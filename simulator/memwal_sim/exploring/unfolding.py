"""A world's graph of states, grown where a run walks: what one run found out, no later run computes again.

A move is one number: a lane and a fate. Lanes are the processes, in the order of the world, and behind them the
requests that are under way. Engine code runs once per local history, oracles once per contents and ghosts, and a move
that was made before is a look-up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memwal.effects import StoreRequest
from memwal.errors import InvalidArgument
from memwal.violations import Violation

from ..book import Book
from ..outcomes import FAULTS, UNLEARNED, Fate, fates
from ..simulation import broken
from ..trie import AT_END, ROOT, Trie
from ..world import StepJudge, World
from .exploration import Move
from .tables import FATE_BITS, NONE_UNDER_WAY, GhostTable, KnownRuns, Orphans, Stores

START = 0
"""Number of the state in which a run begins."""
FATE_MASK = (1 << FATE_BITS) - 1
LANES_MAX = 256 >> FATE_BITS
"""Processes and requests under way, together: a move fits in one byte."""
STATES_KEPT = 500_000
"""States that `Unfolding.trim` lets stand."""

Lanes = tuple[int, ...]

_State = tuple[int, ...]
"""(store, ghosts, orphans, run, node of each process …)."""
_FIRST_NODE = 4
_REFUSED = -1
"""In place of the run, where the world's judge of steps has refused one."""


class Unfolding:
    """The states of ``world`` that were visited so far. States are numbers from `START` up; see `lanes` and `after`."""

    def __init__(self, world: World, kinds: frozenset[Fate] = FAULTS, only: str | None = None) -> None:
        """``kinds``: the faults that may happen; ``only``: name of the one oracle whose violations count."""
        book = Book()
        self.world = world
        self.kinds = kinds
        self.only = only
        self.tries = [Trie(process, book) for process in world.processes]
        self.stores = Stores(book)
        self.lanes: list[Lanes] = []
        """State -> lanes that can move; none at the end of all processes and in a state that violates something."""
        self.after: list[dict[int, int]] = []
        """State -> (move -> state), as far as moves were made."""
        self.violations: dict[int, Violation] = {}
        """State -> what it violates."""
        self._book = book
        self._ghosts = GhostTable(world, self.tries)
        self._orphans = Orphans()
        self._states: list[_State] = []
        self._index: dict[_State, int] = {}
        self._runs = KnownRuns()
        self._verdicts: dict[tuple[int, int], Violation | None] = {}
        self._fates: dict[tuple[int, bool], tuple[int, ...]] = {}
        self._begin()

    def __len__(self) -> int:
        return len(self._states)

    def replay(self, state: int, key: int) -> int:
        """The state after the move ``key`` in ``state``; remembered in `after`."""
        lane, fate = key >> FATE_BITS, key & FATE_MASK
        before = self._states[state]
        if lane < len(self.tries):
            successor, ended = self._advance(before, lane, fate)
        else:
            successor, ended = self._land(before, lane - len(self.tries)), None
        refused = None
        if self.world.step is not None:
            successor, refused = self._told(self.world.step, before, successor, lane, fate)
        found = self.after[state][key] = self._number(successor, ended, refused)
        return found

    def faults(self, state: int, lane: int) -> tuple[int, ...]:
        """The fates other than the normal one that the next request of process ``lane`` may meet."""
        node = self._states[state][_FIRST_NODE + lane]
        request, switches = self.tries[lane].requests[node], self.tries[lane].switches[node]
        found = self._fates.get((request, switches))
        if found is None:
            possible = fates(self._book.requests[request], self.kinds, switches=switches)
            found = self._fates[request, switches] = tuple(map(int, possible))[1:]
        return found

    def under_way(self, state: int) -> tuple[tuple[str, StoreRequest[Any]], ...]:
        """Requests that may still land in ``state``, with who made them, in the order of their lanes."""
        pairs = self._orphans.sets[self._states[state][2]]
        return tuple((self.tries[actor].process.name, self._book.requests[request]) for actor, request in pairs)

    def moves(self, keys: Iterable[int]) -> tuple[Move, ...]:
        """The moves numbered ``keys``, made one after another from `START`, by name."""
        moves, state = [], START
        for key in keys:
            lane = key >> FATE_BITS
            if lane < len(self.tries):
                moves.append(Move(self.tries[lane].process.name, Fate(key & FATE_MASK)))
            else:
                actor, request = self._orphans.sets[self._states[state][2]][lane - len(self.tries)]
                moves.append(Move(self.tries[actor].process.name, None, self._book.requests[request]))
            known = self.after[state].get(key)
            state = self.replay(state, key) if known is None else known
        return tuple(moves)

    def trim(self) -> None:
        """Forget all states if there are more than `STATES_KEPT`; numbers of states are void then."""
        if len(self._states) <= STATES_KEPT:
            return
        for table in (self.lanes, self.after, self.violations, self._states, self._index):
            table.clear()
        self._begin()

    def _begin(self) -> None:
        ghost = self._ghosts.number(self.world.ghosts)
        violation = None
        for actor in range(len(self.tries)):
            ghost = self._ghosts.after(ghost, actor, ROOT, invoked=False)
            violation = violation or self._end(actor, ROOT)
        run = 0 if self.world.step is None else self._runs.number(self.world.step.begin(self.world.contents))
        state = (self.stores.number(self.world.contents), ghost, NONE_UNDER_WAY, run, *(ROOT for _ in self.tries))
        self._number(state, violation)

    def _advance(self, state: _State, actor: int, fate: int) -> tuple[_State, Violation | None]:
        """The state after the next request of ``actor`` met ``fate``, and what the end of the process violates."""
        store, ghost, orphans, run = state[:_FIRST_NODE]
        place = _FIRST_NODE + actor
        trie, node = self.tries[actor], state[place]
        request = trie.requests[node]
        store, reply = self.stores.effect(store, request, fate)
        child = trie.child(node, reply)
        if trie.invocations[node] and fate != Fate.SWITCH:
            ghost = self._ghosts.after(ghost, actor, node, invoked=True)
        if trie.notes[child]:
            ghost = self._ghosts.after(ghost, actor, child, invoked=False)
        if fate == Fate.LATE:
            orphans = self._orphans.with_one(orphans, actor, request)
        successor = (store, ghost, orphans, run, *state[_FIRST_NODE:place], child, *state[place + 1 :])
        return successor, self._end(actor, child)

    def _land(self, state: _State, place: int) -> _State:
        store, ghost, orphans, *nodes = state
        _, request = self._orphans.sets[orphans][place]
        store, _ = self.stores.effect(store, request, Fate.NORMAL)
        return (store, ghost, self._orphans.without(orphans, place), *nodes)

    def _told(
        self, judge: StepJudge, before: _State, after: _State, lane: int, fate: int
    ) -> tuple[_State, Violation | None]:
        """``after`` with its run, and what ``judge`` has against the move ``fate`` of ``lane``."""
        lands = lane >= len(self.tries)
        actor = self._orphans.sets[before[2]][lane - len(self.tries)][0] if lands else lane
        name, known, refused = self.tries[actor].process.name, self._runs.known[before[3]], None
        if after[0] != before[0]:
            first, then = (self.stores.contents[each[0]] for each in (before, after))
            known, refused = judge.after(known, first, then, name, lost=lands or Fate(fate) in UNLEARNED)
        if after[1] != before[1] and not lands and refused is None:
            notes = self.tries[actor].notes[after[_FIRST_NODE + actor]]
            refused = judge.noted(known, self._ghosts.values[after[1]], name, notes)
        refused = None if refused is None else self._counted(refused)
        run = self._runs.number(known) if refused is None else _REFUSED
        return (*after[:3], run, *after[_FIRST_NODE:]), refused

    def _number(self, state: _State, ended: Violation | None, refused: Violation | None = None) -> int:
        """Number of ``state``, new or old; a new one is judged.

        ``ended``: what is wrong with the end of the process that moved; ``refused``: with its move.
        """
        number = self._index.setdefault(state, len(self._states))
        if number < len(self._states):
            return number
        self._states.append(state)
        self.after.append({})
        violation = ended or self._verdict(state[0], state[1]) or refused
        if violation is not None:
            self.violations[number] = violation
            self.lanes.append(())
            return number
        nodes = enumerate(zip(self.tries, state[_FIRST_NODE:], strict=True))
        waiting = (actor for actor, (trie, node) in nodes if trie.requests[node] != AT_END)
        under_way = len(self._orphans.sets[state[2]])
        lanes = (*waiting, *range(len(self.tries), len(self.tries) + under_way))
        if lanes and lanes[-1] >= LANES_MAX:
            raise InvalidArgument(f"more than {LANES_MAX} processes and requests under way")
        self.lanes.append(lanes)
        return number

    def _verdict(self, store: int, ghost: int) -> Violation | None:
        """The first violation that counts, of the oracles of the world."""
        key = (store, ghost)
        if key not in self._verdicts:
            contents, ghosts = self.stores.contents[store], self._ghosts.values[ghost]
            found = (self._counted(oracle(contents, ghosts)) for oracle in self.world.oracles)
            self._verdicts[key] = next((each for each in found if each is not None), None)
        return self._verdicts[key]

    def _end(self, actor: int, node: int) -> Violation | None:
        """A process that ends in a broken artifact or in a bug of the engine is a violation by itself."""
        end = self.tries[actor].ends.get(node)
        return None if end is None else self._counted(broken(self.tries[actor].process.name, end))

    def _counted(self, violation: Violation | None) -> Violation | None:
        return violation if violation is not None and self.only in (None, violation.oracle) else None
