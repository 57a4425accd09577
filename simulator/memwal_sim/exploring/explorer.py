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

from ..book import Book
from ..names import operation
from ..outcomes import MUTATING, Fate, fates
from ..stage import broken
from ..trie import AT_END, ROOT, Trie
from ..world import Violation, World
from .exploration import Bounds, Exploration, Move, Progress, Site
from .reduction import Reduction
from .tables import FATE_BITS, NONE_UNDER_WAY, GhostTable, Orphans, Stores, step_key

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
    every: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Exploration:
    """Explore ``world`` within ``bounds`` until a violation, a limit or the end.

    ``every``: go on after a violation, until each oracle had its chance; the first of each is in `Exploration.found`.

    ``only``: name of an oracle; what others find is passed over.
    ``check``: run engine code twice for each new local history and compare (finds hidden state).
    ``progress``: called every few thousand states.
    """
    return _Search(world, bounds or Bounds(), only=only, check=check, every=every).run(progress)


def memory_mib() -> float:
    """Peak resident memory of this operating-system process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


class _Search:
    def __init__(
        self, world: World, bounds: Bounds, *, only: str | None = None, check: bool = False, every: bool = False
    ) -> None:
        self.world = world
        self.only = only
        self.every = every
        self.found: dict[str, Violation] = {}
        """Oracle -> the first violation that it found."""
        self.bounds = bounds
        book = self.book = Book()
        self.tries = [
            Trie(process, book, check=check, merge=bounds.merge, heard=world.heard) for process in world.processes
        ]
        self.stores = Stores(book)
        self.ghosts = GhostTable(world, self.tries)
        self.orphans = Orphans()
        reduced = bounds.reduce and bounds.preemptions is None
        self.reduction = Reduction(book, self.tries, self.stores, self.orphans, world.oracles) if reduced else None
        self.index: dict[_State, int] = {}
        self.numbered: list[_State] | None = None
        self.parents = array("q")
        self.moves = array("q")
        self.judged: set[tuple[int, int]] = set()
        self.fates: dict[int, tuple[int, ...]] = {}
        self.transitions = 0
        self.terminal_states = 0
        self.terminal: set[int] = set()
        self.classes: list[int] = []
        """Numbers of states in which every process has ended, as many as are wanted."""
        self.met: set[tuple[int, int, int]] = set()
        """Process, node and fault of every request that has met one."""
        counted = not (bounds.reduce or bounds.merge or (bounds.faults and Fate.LATE in bounds.kinds))
        self.ways = [1] if counted else None
        """State -> histories that lead to it: all have the same length, so that a state is done before it is used."""
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
            frontier = found or self.left_out()
        return self.result()

    def left_out(self) -> list[_State]:
        """Successors of the states in which one process went on alone, and should not have."""
        found: list[_State] = []
        if self.reduction is not None and not self.stopped:
            states = list(self.index)
            for number in self.reduction.withdrawn(states, _FIRST_NODE):
                self.expand_all(states[number], found)
                if self.stopped:
                    break
        return found

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
        """Add the new successors of ``state`` to ``found``: all, or those of one process that may go on alone."""
        if self.reduction is not None:
            number = self.index[state]
            for actor in self.reduction.alone(state, _FIRST_NODE):
                steps = self.steps(state, actor)
                if all(step[0][1] == state[1] and self.index.get(step[0], number) >= number for step in steps):
                    self.reduction.choose(number, actor)
                    self.take(state, steps, found)
                    return
        self.expand_all(state, found)

    def expand_all(self, state: _State, found: list[_State]) -> None:
        """Add every successor of ``state`` that is new to ``found``."""
        ended = True
        for actor, node in enumerate(state[_FIRST_NODE : _FIRST_NODE + len(self.tries)]):
            if self.tries[actor].requests[node] == AT_END:
                continue
            ended = False
            self.take(state, self.steps(state, actor), found)
            if self.violation is not None:
                return
        if state[2]:
            self.land(state, found)
        if ended:
            self.terminal_states += 1
            self.terminal.add(state[0])
            if len(self.classes) < self.bounds.classes_max:
                self.classes.append(self.index[state])

    def steps(self, state: _State, actor: int) -> list[tuple[_State, int, int]]:
        """Successors of ``state`` by a step of ``actor``, with the process and the fate; none over the bound."""
        store, ghost, orphans, left = state[:_FIRST_NODE]
        end = _FIRST_NODE + len(self.tries)
        nodes, schedule = state[_FIRST_NODE:end], state[end:]
        node, trie = nodes[actor], self.tries[actor]
        request = trie.requests[node]
        after = self.scheduled(schedule, actor, nodes) if schedule else schedule
        if after is None:
            return []
        effects = self.stores.effects[store]
        issued = self.ghosts.after(ghost, actor, node, invoked=True) if trie.invocations[node] else ghost
        found = []
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
            found.append((successor, actor, fate))
        return found

    def take(self, state: _State, steps: list[tuple[_State, int, int]], found: list[_State]) -> None:
        """Add the successors among ``steps`` that are new."""
        self.transitions += len(steps)
        number = self.index[state]
        for successor, actor, fate in steps:
            if fate:
                self.met.add((actor, state[_FIRST_NODE + actor], fate))
            known = self.index.get(successor)
            if known is not None:
                if self.ways is not None:
                    self.ways[known] += self.ways[number]
                continue
            self.add(successor, number, actor << FATE_BITS | fate)
            found.append(successor)
            node = successor[_FIRST_NODE + actor]
            if self.tries[actor].requests[node] == AT_END:
                self.check_end(actor, node)
            if self.violation is not None:
                return

    def land(self, state: _State, found: list[_State]) -> None:
        """The successors in which one of the requests under way is applied; nobody sees its reply."""
        store, ghost, orphans, *rest = state
        for place, (_, request) in enumerate(self.orphans.sets[orphans]):
            known = self.stores.effects[store].get(step_key(request, Fate.NORMAL))
            effect = known or self.stores.effect(store, request, Fate.NORMAL)
            successor = (effect[0], ghost, self.orphans.without(orphans, place), *rest)
            self.transitions += 1
            known_state = self.index.get(successor)
            if known_state is None:
                self.add(successor, self.index[state], ~place)
                found.append(successor)
                if self.violation is not None:
                    return
            elif self.ways is not None:
                self.ways[known_state] += self.ways[self.index[state]]

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
        if self.ways is not None and parent >= 0:
            self.ways.append(self.ways[parent])
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
        self.found.setdefault(violation.oracle, violation)
        if self.every:
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
            met=Counter(Fate(fate).label for _, _, fate in self.met),
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
            events=self.events(),
            sites=self.sites(),
            unmerged=dict(sum((trie.unmerged for trie in self.tries), Counter[str]())),
            interleavings=self.interleavings(),
            limit=self.limit,
            violation=self.violation,
            found=dict(self.found),
            trace=self.path(self.last) if self.violation is not None else (),
            classes=tuple(map(self.path, self.classes)),
            seconds=time.monotonic() - self.started,
        )

    def ends(self) -> dict[str, int]:
        ends = (end for trie in self.tries for end in trie.ends.values())
        return dict(sorted(Counter("done" if end.failure is None else end.failure.kind for end in ends).items()))

    def events(self) -> frozenset[str]:
        failures = (end.failure for trie in self.tries for end in trie.ends.values())
        return frozenset().union(
            *(trie.events for trie in self.tries), (failure.kind for failure in failures if failure is not None)
        )

    def sites(self) -> dict[Site, frozenset[Fate]]:
        found: dict[Site, set[Fate]] = {}
        for actor, trie in enumerate(self.tries):
            for node, request in enumerate(trie.requests):
                if request != AT_END:
                    fates = found.setdefault(self.site(actor, node), set())
                    fates.update([Fate.NORMAL] if trie.children[node] else [])
        for actor, node, fate in self.met:
            found[self.site(actor, node)].add(Fate(fate))
        return {site: frozenset(fates) for site, fates in sorted(found.items())}

    def site(self, actor: int, node: int) -> Site:
        trie = self.tries[actor]
        request = self.book.requests[trie.requests[node]]
        return Site(trie.sites[node], operation(request), isinstance(request, MUTATING))

    def interleavings(self) -> int | None:
        """Histories that end all processes."""
        if self.ways is None or self.stopped:
            return None
        ended = (state for state in self.index if self.is_terminal(state))
        return sum(self.ways[self.index[state]] for state in ended)

    def is_terminal(self, state: _State) -> bool:
        nodes = state[_FIRST_NODE : _FIRST_NODE + len(self.tries)]
        return all(trie.requests[node] == AT_END for trie, node in zip(self.tries, nodes, strict=True))

    def path(self, number: int) -> tuple[Move, ...]:
        """The moves that lead to the state ``number``, first first."""
        if self.numbered is None or len(self.numbered) != len(self.index):
            self.numbered = list(self.index)
        states = self.numbered
        path: list[Move] = []
        while self.parents[number] >= 0:
            parent, move = self.parents[number], self.moves[number]
            if move < 0:
                actor, request = self.orphans.sets[states[parent][2]][~move]
                path.append(Move(self.world.processes[actor].name, None, self.book.requests[request]))
            else:
                actor, fate = move >> FATE_BITS, move & ((1 << FATE_BITS) - 1)
                path.append(Move(self.world.processes[actor].name, Fate(fate)))
            number = parent
        return tuple(path[::-1])
