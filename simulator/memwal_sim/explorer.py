"""Every interleaving of a world's processes, and every fate of their requests within a budget.

A state is (contents, ghosts, requests still under way, faults left, one history per process). The search is breadth
first, so that the first violation found has a shortest trace. A crash needs no move of its own: a crashed process is
one that is not scheduled again, and the oracles judge every state. Neither does a stalled process.
"""

from __future__ import annotations

import resource
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable

from .book import Book
from .exploration import Bounds, Exploration, Move, Progress
from .outcomes import Fate, fates
from .stage import broken
from .tables import FATE_BITS, NONE_UNDER_WAY, GhostTable, Orphans, Stores, step_key
from .trie import AT_END, ROOT, Trie
from .world import Violation, World

_REPORT_EVERY = 4096
_NO_ACTOR = -1

_State = tuple[int, ...]
"""(store, ghosts, orphans, faults left, node of each process …[, last actor, preemptions used])."""
_FIRST_NODE = 4


def explore(
    world: World,
    bounds: Bounds | None = None,
    *,
    only: str | None = None,
    check: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Exploration:
    """Explore ``world`` within ``bounds`` until a violation, a limit or the end.

    ``only``: name of an oracle; what others find is passed over.
    ``check``: run engine code twice for each new local history and compare (finds hidden state).
    ``progress``: called every few thousand states.
    """
    return _Search(world, bounds or Bounds(), only=only, check=check).run(progress)


def memory_mib() -> float:
    """Peak resident memory of this operating-system process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


class _Search:
    def __init__(self, world: World, bounds: Bounds, *, only: str | None, check: bool) -> None:
        self.world = world
        self.only = only
        self.bounds = bounds
        book = Book()
        self.book = book
        self.tries = [Trie(process, book, check=check) for process in world.processes]
        self.stores = Stores(book)
        self.ghosts = GhostTable(world, self.tries)
        self.orphans = Orphans()
        self.index: dict[_State, int] = {}
        self.parents = array("q")
        self.moves = array("q")
        self.judged: set[tuple[int, int]] = set()
        self.fates: dict[int, tuple[int, ...]] = {}
        self.transitions = 0
        self.terminal_states = 0
        self.terminal: set[int] = set()
        self.depth = 0
        self.limit: str | None = None
        self.violation: Violation | None = None
        self.last = 0
        """Number of the state that violates."""
        self.started = time.monotonic()

    def run(self, progress: Callable[[Progress], None] | None) -> Exploration:
        frontier = [self.start()]
        due = _REPORT_EVERY
        while frontier and not self.stopped:
            found: list[_State] = []
            for done, state in enumerate(frontier):
                self.expand(state, found)
                if self.stopped:
                    break
                if len(self.index) >= due:
                    due = len(self.index) + _REPORT_EVERY
                    self.keep_limits()
                    if progress is not None:
                        progress(self.progress(len(frontier) - done - 1 + len(found)))
            if found:
                self.depth += 1
            frontier = found
        return self.result()

    @property
    def stopped(self) -> bool:
        return self.violation is not None or self.limit is not None

    def start(self) -> _State:
        ghost = self.ghosts.number(self.world.ghosts)
        for actor in range(len(self.tries)):
            ghost = self.ghosts.after(ghost, actor, ROOT, invoked=False)
        state: _State = (
            self.stores.number(self.world.contents),
            ghost,
            NONE_UNDER_WAY,
            self.bounds.faults,
            *(ROOT for _ in self.tries),
        )
        if self.bounds.preemptions is not None:
            state += (_NO_ACTOR, 0)
        self.add(state, -1, 0)
        for actor in range(len(self.tries)):
            self.check_end(actor, ROOT)
        return state

    def expand(self, state: _State, found: list[_State]) -> None:
        """Add every successor of ``state`` that is new to ``found``."""
        store, ghost, orphans, left = state[:_FIRST_NODE]
        end = _FIRST_NODE + len(self.tries)
        nodes = state[_FIRST_NODE:end]
        schedule = state[end:]
        number = self.index[state]
        effects = self.stores.effects[store]
        ended = True
        for actor, node in enumerate(nodes):
            trie = self.tries[actor]
            request = trie.requests[node]
            if request == AT_END:
                continue
            ended = False
            after = self.scheduled(schedule, actor, nodes) if schedule else schedule
            if after is None:
                continue
            issued = self.ghosts.after(ghost, actor, node, invoked=True) if trie.invocations[node] else ghost
            for fate in self.fates_of(request) if left else (0,):
                effect = effects.get(request << FATE_BITS | fate)
                if effect is None:
                    effect = self.stores.effect(store, request, fate)
                child = trie.children[node].get(effect[1])
                if child is None:
                    child = trie.child(node, effect[1])
                told = self.ghosts.after(issued, actor, child, invoked=False) if trie.notes[child] else issued
                under_way = orphans if fate != Fate.LATE else self.orphans.with_one(orphans, actor, request)
                successor = (
                    effect[0],
                    told,
                    under_way,
                    left - 1 if fate else left,
                    *nodes[:actor],
                    child,
                    *nodes[actor + 1 :],
                    *after,
                )
                self.transitions += 1
                if successor not in self.index:
                    self.add(successor, number, actor << FATE_BITS | fate)
                    found.append(successor)
                    if trie.requests[child] == AT_END:
                        self.check_end(actor, child)
                    if self.violation is not None:
                        return
        if orphans:
            self.land(state, found)
        if ended:
            self.terminal_states += 1
            self.terminal.add(store)

    def land(self, state: _State, found: list[_State]) -> None:
        """The successors in which one of the requests under way is applied; nobody sees its reply."""
        store, ghost, orphans, *rest = state
        for place, (_, request) in enumerate(self.orphans.sets[orphans]):
            known = self.stores.effects[store].get(step_key(request, Fate.NORMAL))
            effect = known or self.stores.effect(store, request, Fate.NORMAL)
            successor = (effect[0], ghost, self.orphans.without(orphans, place), *rest)
            self.transitions += 1
            if successor not in self.index:
                self.add(successor, self.index[state], ~place)
                found.append(successor)
                if self.violation is not None:
                    return

    def scheduled(self, schedule: _State, actor: int, nodes: _State) -> _State | None:
        """The schedule part of the state after a step of ``actor``; None if that is one preemption too many."""
        last, used = schedule
        if last not in (_NO_ACTOR, actor) and self.tries[last].requests[nodes[last]] != AT_END:
            used += 1
            if self.bounds.preemptions is not None and used > self.bounds.preemptions:
                return None
        return (actor, used)

    def fates_of(self, request: int) -> tuple[int, ...]:
        found = self.fates.get(request)
        if found is None:
            found = self.fates[request] = tuple(map(int, fates(self.book.requests[request], self.bounds.kinds)))
        return found

    def add(self, state: _State, parent: int, move: int) -> None:
        """Number a new state, remember how it was reached, and have it judged."""
        self.index[state] = len(self.index)
        self.parents.append(parent)
        self.moves.append(move)
        verdict = (state[0], state[1])
        if verdict in self.judged:
            return
        self.judged.add(verdict)
        contents, ghosts = self.stores.contents[state[0]], self.ghosts.values[state[1]]
        for oracle in self.world.oracles:
            self.found_violation(oracle(contents, ghosts))

    def check_end(self, actor: int, node: int) -> None:
        """A process that ends in a broken artifact or in a bug of the engine is a violation by itself."""
        end = self.tries[actor].ends.get(node)
        if end is not None:
            self.found_violation(broken(self.tries[actor].process.name, end))

    def found_violation(self, violation: Violation | None) -> None:
        """Keep the first violation, of the state that was added last."""
        if violation is None or self.violation is not None or self.only not in (None, violation.oracle):
            return
        self.violation = violation
        self.last = len(self.index) - 1

    def keep_limits(self) -> None:
        bounds = self.bounds
        if bounds.states_max is not None and len(self.index) >= bounds.states_max:
            self.limit = f"{bounds.states_max:,} states"
        elif bounds.memory_mib_max is not None and memory_mib() >= bounds.memory_mib_max:
            self.limit = f"{bounds.memory_mib_max:,} MiB of memory"
        elif bounds.seconds_max is not None and time.monotonic() - self.started >= bounds.seconds_max:
            self.limit = f"{bounds.seconds_max:g} seconds"

    def progress(self, frontier: int) -> Progress:
        return Progress(
            depth=self.depth,
            states=len(self.index),
            frontier=frontier,
            stores=len(self.stores.contents),
            seconds=time.monotonic() - self.started,
        )

    def result(self) -> Exploration:
        return Exploration(
            states=len(self.index),
            transitions=self.transitions,
            depth=self.depth,
            stores=len(self.stores.contents),
            histories={trie.process.name: len(trie) for trie in self.tries},
            ends=self.ends(),
            replies_fed=sum(trie.fed for trie in self.tries),
            terminal_states=self.terminal_states,
            terminal_stores=frozenset(self.stores.contents[store].digest for store in self.terminal),
            limit=self.limit,
            violation=self.violation,
            trace=tuple(self.path()) if self.violation is not None else (),
            seconds=time.monotonic() - self.started,
        )

    def ends(self) -> dict[str, int]:
        ends = (end for trie in self.tries for end in trie.ends.values())
        return dict(sorted(Counter("done" if end.failure is None else end.failure.kind for end in ends).items()))

    def path(self) -> list[Move]:
        """The moves that lead to the violating state, first first."""
        states = list(self.index)
        path: list[Move] = []
        number = self.last
        while self.parents[number] >= 0:
            parent, move = self.parents[number], self.moves[number]
            if move < 0:
                actor, request = self.orphans.sets[states[parent][2]][~move]
                path.append(Move(self.world.processes[actor].name, None, self.book.requests[request]))
            else:
                actor, fate = move >> FATE_BITS, move & ((1 << FATE_BITS) - 1)
                path.append(Move(self.world.processes[actor].name, Fate(fate)))
            number = parent
        return path[::-1]
