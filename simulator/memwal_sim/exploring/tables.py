"""The explorer's tables: contents, ghosts and requests under way by number, and what each step makes of them.

They are why a state is a tuple of small integers, and why most steps of an exploration are look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..book import Book
from ..outcomes import Fate, meet
from ..store import Contents
from ..trie import Trie
from ..world import Ghosts, World

FATE_BITS = 3
"""Bits that number a `Fate`."""
NONE_UNDER_WAY = 0
"""Number of the empty set of requests under way."""


def step_key(request: int, fate: int) -> int:
    """One number for a request and its fate."""
    return request << FATE_BITS | fate


@dataclass(slots=True)
class Stores:
    """Contents by number, and what each request with each fate makes of them."""

    book: Book
    contents: list[Contents] = field(default_factory=list)
    effects: list[dict[int, tuple[int, int]]] = field(default_factory=list)
    """Store -> (request and fate -> (store afterwards, reply))."""
    numbers: dict[Contents, int] = field(default_factory=dict)

    def number(self, contents: Contents) -> int:
        """Number of ``contents``, new or old."""
        found = self.numbers.setdefault(contents, len(self.contents))
        if found == len(self.contents):
            self.contents.append(contents)
            self.effects.append({})
        return found

    def effect(self, store: int, request: int, fate: int) -> tuple[int, int]:
        """Numbers of the store and of the reply after ``request`` met ``fate`` in ``store``; remembered."""
        key = step_key(request, fate)
        known = self.effects[store].get(key)
        if known is not None:
            return known
        met = meet(self.contents[store], self.book.requests[request], Fate(fate))
        effect = (self.number(met.contents), self.book.reply_id(met.reply))
        self.effects[store][key] = effect
        return effect


@dataclass(slots=True)
class GhostTable:
    """Ghost values by number, and what the notes of each node make of them."""

    world: World
    tries: list[Trie]
    values: list[Ghosts] = field(default_factory=list)
    numbers: dict[Ghosts, int] = field(default_factory=dict)
    moves: dict[tuple[int, int, int, bool], int] = field(default_factory=dict)

    def number(self, value: Ghosts) -> int:
        """Number of ``value``, new or old."""
        found = self.numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found

    def after(self, ghost: int, actor: int, node: int, *, invoked: bool) -> int:
        """Ghosts after the invocations that wait at ``node``, or after the notes made on the way to it."""
        key = (ghost, actor, node, invoked)
        found = self.moves.get(key)
        if found is None:
            trie = self.tries[actor]
            value = self.values[ghost]
            for note in (trie.invocations if invoked else trie.notes)[node]:
                value = self.world.observe(value, trie.process.name, note)
            found = self.moves[key] = self.number(value)
        return found


class Orphans:
    """Sets of requests under way by number: each request with the number of the process that made it."""

    def __init__(self) -> None:
        self.sets: list[tuple[tuple[int, int], ...]] = [()]
        """Number -> (process, request) pairs, sorted; a pair may be there more than once."""
        self._numbers: dict[tuple[tuple[int, int], ...], int] = {(): NONE_UNDER_WAY}

    def with_one(self, orphans: int, actor: int, request: int) -> int:
        """Number of the set with one more request."""
        return self._number(tuple(sorted((*self.sets[orphans], (actor, request)))))

    def without(self, orphans: int, place: int) -> int:
        """Number of the set without the request at ``place``."""
        before = self.sets[orphans]
        return self._number(before[:place] + before[place + 1 :])

    def _number(self, orphans: tuple[tuple[int, int], ...]) -> int:
        found = self._numbers.setdefault(orphans, len(self.sets))
        if found == len(self.sets):
            self.sets.append(orphans)
        return found


class KnownRuns:
    """What the judge of steps knows of runs, by number: each once, by its identity."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        """Number -> what is known."""
        self._numbers: dict[int, int] = {}

    def number(self, known: Any) -> int:
        """The number of what is known of a run, new or old."""
        found = self._numbers.setdefault(id(known), len(self.known))
        if found == len(self.known):
            self.known.append(known)
        return found
