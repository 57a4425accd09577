"""Every interleaving of a world's processes, and every fate of their requests within a budget.

A state is (contents, ghosts, requests still under way, faults left, one history per process). The search is breadth
first, so that the first violation found has a shortest trace. A crash, or a stall, needs no move of its own: such a
process is not scheduled again, and the oracles judge every state.

A state is a row of numbers (`successors`); engine code, store and oracles run only for states that are new (`tables`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from memwal.violations import Violation
from memwal.words import counted

from ..book import Book
from ..names import operation
from ..outcomes import MUTATING, Fate
from ..simulation import broken
from ..store import GO_ON
from ..trie import AT_END, ROOT, Trie
from ..world import World
from .exploration import Bounds, Exploration, ExplorationProgress, Move, Site, memory_mib
from .interned import Array, GrowingArray, Interned, packed
from .reduction import Reduction
from .runs import Runs
from .steps import Behaviour, Landing
from .successors import FIRST_NODE, GHOST, NO_ACTOR, ORPHANS, STORE, Steps, Successors
from .tables import FATE_BITS, NONE_UNDER_WAY, GhostTable, Orphans, Stores

_BATCH = 1 << 14
"""States that are expanded at a time."""
_REPORT_EVERY = 1 << 12


def explore(
    world: World,
    bounds: Bounds | None = None,
    *,
    only: str | None = None,
    check: bool = False,
    every: bool = False,
    progress: Callable[[ExplorationProgress], None] | None = None,
) -> Exploration:
    """Explore ``world`` within ``bounds`` until a violation, a limit or the end.

    ``every``: continue after a violation, until each oracle had its chance; the first of each is in
    `Exploration.found`. ``only``: name of an oracle; what others find is passed over.
    ``check``: run engine code twice for each new local history and compare (finds hidden state).
    ``progress``: called every few thousand states.
    """
    return _Search(world, bounds or Bounds(), only=only, check=check, every=every).run(progress)


class _Search:
    def __init__(
        self, world: World, bounds: Bounds, *, only: str | None = None, check: bool = False, every: bool = False
    ) -> None:
        self.world = world
        self.only = only
        self.every = every
        self.found: dict[str, Violation] = {}
        """Oracle -> the first violation that it found."""
        self.found_in: dict[str, int] = {}
        """Oracle -> number of the state that violates."""
        self.bounds = bounds
        book = self.book = Book()
        self.tries = [Trie(each, book, check=check, merge=bounds.merge, heard=world.heard) for each in world.processes]
        self.stores = Stores(book)
        self.ghosts = GhostTable(world, self.tries)
        self.orphans = Orphans()
        given = self.stores, self.ghosts, self.orphans, self.tries, world.contents
        self.runs = None if world.step is None else Runs(world.step, *given)
        self.behaviours = [
            Behaviour(actor, trie, self.stores, self.ghosts, bounds.kinds) for actor, trie in enumerate(self.tries)
        ]
        reduced = bounds.reduce and bounds.preemptions is None
        self.reduction = Reduction(book, self.tries, self.stores, self.orphans, world.oracles) if reduced else None
        self.successors = Successors(self.behaviours, Landing(self.stores, self.orphans), bounds)
        self.states = Interned((self.successors.width + 1) // 2)
        self.parents = GrowingArray(np.int64)
        self.moves = GrowingArray(np.int16)
        """State -> process and fate of the step to it; ~place for the request at that place that landed."""
        self.judged = Interned(1)
        """(store, ghosts) that the oracles have seen."""
        self.transitions = 0
        self.terminal_states = 0
        self.terminal: set[int] = set()
        self.classes: list[int] = []
        """Numbers of states in which every process has ended, as many as are wanted."""
        self.met: set[tuple[int, int, int]] = set()
        """Process, node and fault of every request that has met one."""
        counted = not (bounds.reduce or bounds.merge or (bounds.faults and Fate.LATE in bounds.kinds))
        self.ways = GrowingArray(object) if counted else None
        """State -> histories that lead to it: all have the same length, so that a state is done before it is used."""
        self.depth = 0
        self.limit: str | None = None
        self.violation: Violation | None = None
        self.last = 0
        """Number of the state that violates."""
        self.started = time.monotonic()

    def run(self, progress: Callable[[ExplorationProgress], None] | None) -> Exploration:
        self.start()
        frontier = np.arange(len(self.states))
        due = _REPORT_EVERY
        while len(frontier) and not self.stopped:
            before = len(self.states)
            for first in range(0, len(frontier), _BATCH):
                batch = frontier[first : first + _BATCH]
                self.expand(batch)
                if self.stopped:
                    break
                self.keep_limits()
                if progress is not None and len(self.states) >= due:
                    due = len(self.states) + _REPORT_EVERY
                    progress(self.progress(len(frontier) - first - len(batch) + len(self.states) - before))
            if len(self.states) > before:
                self.depth += 1
            frontier = np.arange(before, len(self.states))
            if not len(frontier) and not self.stopped:
                frontier = self.left_out()
        return self.result()

    def left_out(self) -> Array:
        """Numbers of the successors of states in which one process ran alone, and should not have."""
        before = len(self.states)
        if self.reduction is not None:
            withdrawn = []
            for actor, chosen in self.reduction.chosen():
                for first in range(0, len(chosen), _BATCH):
                    batch = chosen[first : first + _BATCH]
                    withdrawn.append(batch[~self.alone(self.rows(batch), actor)])
            numbers = np.sort(np.concatenate(withdrawn)) if withdrawn else np.zeros(0, np.int64)
            self.reduction.withdraw(numbers)
            for first in range(0, len(numbers), _BATCH):
                if not self.stopped:
                    self.expand_all(numbers[first : first + _BATCH])
        return np.arange(before, len(self.states))

    @property
    def stopped(self) -> bool:
        return self.violation is not None or self.limit is not None

    def rows(self, numbers: Array) -> Array:
        """The states of these numbers, a row of columns each; dtype int32."""
        found: Array = self.states.rows[numbers].view(np.int32)
        return found

    def start(self) -> None:
        ghost = self.ghosts.number(self.world.ghosts)
        for actor in range(len(self.tries)):
            ghost = self.ghosts.after(ghost, actor, ROOT, invoked=False)
        first = [self.stores.number(self.world.contents), ghost, NONE_UNDER_WAY, self.bounds.faults]
        first += [ROOT] * len(self.tries)
        if self.bounds.preemptions is not None:
            first += [NO_ACTOR, 0]
        self.add(packed(*np.array(first)[:, None]), np.array([-1]), np.array([0]))
        for actor in range(len(self.tries)):
            self.found_violation(self.broken_end(actor, ROOT), 0)
        if self.ways is not None:
            self.ways.append(1)

    def expand(self, numbers: Array) -> None:
        """Add the new successors of the states ``numbers``: all, or those of one process that may run alone."""
        if self.reduction is None:
            self.expand_all(numbers)
            return
        rows = self.rows(numbers)
        undecided = np.ones(len(numbers), np.bool_)
        taken: list[Steps] = []
        for actor in range(len(self.tries)):
            places = np.flatnonzero(undecided)
            places = places[self.alone(rows[places], actor)]
            steps = list(self.successors.steps(rows, places, actor))
            undecided[places] = False
            for step in steps:
                told = step.states[:, GHOST] != rows[step.parents, GHOST]
                undecided[step.parents[told | ~self.is_later(step.states, numbers[step.parents])]] = True
            places = places[~undecided[places]]
            self.reduction.choose(numbers[places], actor)
            for step in steps:
                kept = ~undecided[step.parents]
                taken.append(Steps(step.parents[kept], step.states[kept], step.actor, step.move))
        taken += self.all_steps(rows, np.flatnonzero(undecided), numbers)
        self.take(numbers, rows, taken)

    def expand_all(self, numbers: Array) -> None:
        """Add every successor of the states ``numbers`` that is new."""
        rows = self.rows(numbers)
        self.take(numbers, rows, self.all_steps(rows, np.arange(len(numbers)), numbers))

    def alone(self, rows: Array, actor: int) -> Array:
        """Whether ``actor`` may run alone in these states, as far as the reduction knows."""
        assert self.reduction is not None
        nodes = [rows[:, FIRST_NODE + other] for other in range(len(self.tries))]
        requests = self.behaviours[actor].requests[nodes[actor]]
        return self.reduction.alone(rows[:, STORE], rows[:, ORPHANS], nodes, requests, actor)

    def is_later(self, states: Array, numbers: Array) -> Array:
        """Whether each state is new, or was found no earlier than the state of the number beside it."""
        known = self.states.find(np.ascontiguousarray(states).view(np.uint64))
        found: Array = (known < 0) | (known >= numbers)
        return found

    def all_steps(self, rows: Array, places: Array, numbers: Array) -> list[Steps]:
        """Every step from the states at ``places``; those in which every process has ended are counted."""
        if not len(places):
            return []
        taken: list[Steps] = []
        ended = np.ones(len(places), np.bool_)
        for actor, behaviour in enumerate(self.behaviours):
            going = behaviour.requests[rows[places, FIRST_NODE + actor]] != AT_END
            ended &= ~going
            taken += self.successors.steps(rows, places[going], actor)
        taken += self.successors.landings(rows, places)
        if ended.any():
            self.terminal_states += int(ended.sum())
            self.terminal.update(np.unique(rows[places[ended], STORE]).tolist())
            wanted = self.bounds.classes_max - len(self.classes)
            self.classes += numbers[places[ended]][: max(wanted, 0)].tolist()
        return taken

    def take(self, numbers: Array, rows: Array, taken: Sequence[Steps]) -> None:
        """Add the states that are new after ``taken``, steps from the states ``numbers``, whose rows are ``rows``."""
        if not taken:
            return
        places = np.concatenate([step.parents for step in taken])
        states = np.concatenate([step.states for step in taken])
        moves = np.concatenate([np.full(len(step.parents), step.move, np.int16) for step in taken])
        actors = np.concatenate([np.full(len(step.parents), step.actor, np.int16) for step in taken])
        order = np.lexsort((np.where(moves < 0, ~moves, moves), actors, places))
        places, states, moves, actors = places[order], states[order], moves[order], actors[order]
        self.transitions += len(places)
        self.note_faults(rows, places, moves)
        parents = numbers[places]
        known, new = self.add(states.view(np.uint64), parents, moves)
        if self.ways is not None:
            self.ways.extend(np.zeros(len(new), object))
            np.add.at(self.ways.values, known, self.ways.values[parents])
        if self.runs is not None:
            for at, violation in self.runs.judge(rows[places[new]], states[new], parents[new], moves[new]):
                self.found_violation(violation, int(known[new[at]]))
        for place in self.ending(states, actors, new):
            actor = int(actors[place])
            self.found_violation(self.broken_end(actor, int(states[place, FIRST_NODE + actor])), int(known[place]))

    def note_faults(self, rows: Array, places: Array, moves: Array) -> None:
        """Remember which request has met which fault."""
        fates = moves & ((1 << FATE_BITS) - 1)
        met = (moves >= 0) & (fates > 0) & (fates != Fate.SWITCH)
        if met.any():
            actors = moves[met].astype(np.int32) >> FATE_BITS
            nodes = rows[places[met], FIRST_NODE + actors]
            seen = np.unique(np.stack([actors, nodes, fates[met]]), axis=1)
            self.met.update(map(tuple, seen.T.tolist()))

    def ending(self, states: Array, actors: Array, new: Array) -> Array:
        """The places among ``new`` at which the process that continued has ended."""
        found = np.zeros(len(new), np.bool_)
        for actor, behaviour in enumerate(self.behaviours):
            own = actors[new] == actor
            found[own] = behaviour.requests[states[new[own], FIRST_NODE + actor]] == AT_END
        return new[found]

    def add(self, states: Array, parents: Array, moves: Array) -> tuple[Array, Array]:
        """Number the states, remember how the new ones were reached, and have these judged.

        The number of each state, and the places of those that are new.
        """
        numbers, new = self.states.number(states)
        self.parents.extend(parents[new])
        self.moves.extend(moves[new])
        rows = states[new].view(np.int32)
        _, unseen = self.judged.number(packed(rows[:, STORE], rows[:, GHOST]))
        for place in unseen.tolist():
            contents = self.stores.contents[rows[place, STORE]]
            ghosts = self.ghosts.values[rows[place, GHOST]]
            for oracle in self.world.oracles:
                self.found_violation(oracle(contents, ghosts), int(numbers[new[place]]))
            if self.violation is not None:
                break
        return numbers, new

    def broken_end(self, actor: int, node: int) -> Violation | None:
        """A process that ends in a broken artifact or in a bug of the engine is a violation by itself."""
        end = self.tries[actor].ends.get(node)
        return None if end is None else broken(self.tries[actor].process.name, end)

    def found_violation(self, violation: Violation | None, state: int) -> None:
        """Keep the violation of the state that was found first, and of that the first."""
        if violation is None or self.only not in (None, violation.oracle):
            return
        if self.every:
            self.found.setdefault(violation.oracle, violation)
            self.found_in.setdefault(violation.oracle, state)
        elif self.violation is None or state < self.last:
            self.found = {violation.oracle: violation}
            self.found_in = {violation.oracle: state}
            self.violation, self.last = violation, state

    def keep_limits(self) -> None:
        bounds = self.bounds
        if bounds.states_max is not None and len(self.states) >= bounds.states_max:
            self.limit = counted(bounds.states_max, "state")
        elif bounds.memory_mib_max is not None and memory_mib() >= bounds.memory_mib_max:
            self.limit = f"{bounds.memory_mib_max:,} MiB of memory"
        elif bounds.seconds_max is not None and time.monotonic() - self.started >= bounds.seconds_max:
            self.limit = f"{bounds.seconds_max:g} seconds"

    def progress(self, frontier: int) -> ExplorationProgress:
        return ExplorationProgress(
            depth=self.depth,
            states=len(self.states),
            frontier=frontier,
            stores=len(self.stores.contents),
            seconds=time.monotonic() - self.started,
            met=Counter(Fate(fate).label for _, _, fate in self.met),
        )

    def result(self) -> Exploration:
        every_end = (end for trie in self.tries for end in trie.ends.values())
        ends = Counter("done" if end.failure is None else end.failure.kind for end in every_end)
        return Exploration(
            states=len(self.states) if self.violation is None else self.last + 1,
            transitions=self.transitions,
            depth=self.depth,
            stores=len(self.stores.contents),
            histories={trie.process.name: len(trie) for trie in self.tries},
            ends=dict(sorted(ends.items())),
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
            steps={oracle: len(self.path(state)) for oracle, state in self.found_in.items()},
            trace=self.path(self.last) if self.violation is not None else (),
            classes=tuple(map(self.path, self.classes)),
            seconds=time.monotonic() - self.started,
        )

    def events(self) -> frozenset[str]:
        failures = (end.failure for trie in self.tries for end in trie.ends.values())
        return frozenset().union(
            *(trie.events for trie in self.tries), (failure.kind for failure in failures if failure is not None)
        )

    def sites(self) -> dict[Site, frozenset[Fate]]:
        found: dict[Site, set[Fate]] = {}
        for actor, trie in enumerate(self.tries):
            for node, request in enumerate(trie.requests):
                if request != AT_END and self.book.requests[request] is not GO_ON:
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
        ended = np.ones(len(self.states), np.bool_)
        rows = self.states.rows.view(np.int32)
        for actor, behaviour in enumerate(self.behaviours):
            ended &= behaviour.requests[rows[:, FIRST_NODE + actor]] == AT_END
        return int(sum(self.ways.values[ended]))

    def path(self, number: int) -> tuple[Move, ...]:
        """The moves that lead to the state ``number``, first first."""
        path: list[Move] = []
        while (parent := int(self.parents.values[number])) >= 0:
            move = int(self.moves.values[number])
            if move < 0:
                (row,) = self.rows(np.array([parent]))
                actor, request = self.orphans.sets[row[ORPHANS]][~move]
                path.append(Move(self.world.processes[actor].name, None, self.book.requests[request]))
            else:
                actor, fate = move >> FATE_BITS, move & ((1 << FATE_BITS) - 1)
                path.append(Move(self.world.processes[actor].name, Fate(fate)))
            number = parent
        return tuple(path[::-1])
