"""Exploring one process alone where its next request commutes with all that the others may still do.

What the others may still do is what they were seen to do so far. That may grow while the exploration goes on, so every
choice is remembered, and those that turn out to have been made too early are given back to be made good: at the end
each choice holds for everything that was ever seen. Then it is sound, for a history that was left out could only be
one with a request that no explored history has, and the first such request would have been found at its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memwal.effects import StoreRequest

from ..book import Book
from ..outcomes import Fate
from ..trie import AT_END, Trie
from ..world import Oracle
from .independence import Accesses
from .tables import Orphans, Stores, step_key


class Reduction:
    """Choices of one exploration."""

    def __init__(
        self, book: Book, tries: Sequence[Trie], stores: Stores, orphans: Orphans, oracles: Iterable[Oracle]
    ) -> None:
        self._book = book
        self._tries = tries
        self._stores = stores
        self._orphans = orphans
        self._accesses = Accesses()
        self._touched: list[int] = []
        """Request -> what it may touch."""
        self._noticed: list[dict[int, int]] = []
        """Store -> (request -> with what it does not commute there)."""
        self._futures = [_Future() for _ in tries]
        self._under_way: dict[int, int] = {}
        """Set of requests under way -> what they touch."""
        asked = [getattr(oracle, "requests", None) for oracle in oracles]
        self._watching = [_Watching(requests) for requests in {id(r): r for r in asked if r is not None}.values()]
        self._watched = -1 if None in asked else 0
        """What the oracles were seen to touch; all bits if one of them does not say."""
        self._chosen: list[tuple[int, int]] = []
        """State and process of every choice."""

    def alone(self, state: tuple[int, ...], first: int) -> Iterator[int]:
        """Processes that may go on alone in ``state``, whose nodes begin at place ``first``."""
        self._take_in_news()
        store, _, orphans = state[:3]
        touched = [future.touched[node] for future, node in zip(self._futures, state[first:], strict=False)]
        under_way = self._of_orphans(orphans) if orphans else 0
        known = self._noticed[store]
        for actor, trie in enumerate(self._tries):
            request = trie.requests[state[first + actor]]
            if request == AT_END:
                continue
            noticed = known.get(request)
            if noticed is None:
                contents = self._stores.contents[store]
                noticed = known[request] = self._accesses.noticed(self._book.requests[request], contents)
            if noticed & under_way:
                continue
            for other, more in enumerate(touched):
                if noticed & more and other != actor:
                    break
            else:
                if not (noticed & self._watched and self._changes(store, request)):
                    yield actor

    def choose(self, number: int, actor: int) -> None:
        """Remember that in state ``number`` only ``actor`` went on."""
        self._chosen.append((number, actor))

    def withdrawn(self, states: Sequence[tuple[int, ...]], first: int) -> Iterator[int]:
        """Numbers of the states whose choice does not hold any more; they are forgotten here."""
        kept = []
        for number, actor in self._chosen:
            if actor in self.alone(states[number], first):
                kept.append((number, actor))
            else:
                yield number
        self._chosen = kept

    def _changes(self, store: int, request: int) -> bool:
        effect = self._stores.effects[store].get(step_key(request, Fate.NORMAL))
        if effect is None:
            effect = self._stores.effect(store, request, Fate.NORMAL)
        return effect[0] != store

    def _of_request(self, request: int) -> int:
        while len(self._touched) <= request:
            self._touched.append(self._accesses.touched(self._book.requests[len(self._touched)]))
        return self._touched[request]

    def _of_orphans(self, orphans: int) -> int:
        if not orphans:
            return 0
        found = self._under_way.get(orphans)
        if found is None:
            found = 0
            for _, request in self._orphans.sets[orphans]:
                found |= self._of_request(request)
            self._under_way[orphans] = found
        return found

    def _take_in_news(self) -> None:
        """Follow tries, stores and oracles, which grow while the exploration goes on."""
        for future, trie in zip(self._futures, self._tries, strict=True):
            if future.edges != len(trie.edges) or not future.touched:
                self._grow(future, trie)
        while len(self._noticed) < len(self._stores.contents):
            self._noticed.append({})
        for watching in self._watching:
            if watching.seen != len(watching.requests):
                for request in watching.requests[watching.seen :]:
                    self._watched |= self._accesses.touched(request)
                watching.seen = len(watching.requests)

    def _grow(self, future: _Future, trie: Trie) -> None:
        """Take in the new edges of ``trie``: what a node touches belongs to the future of every node before it."""
        changed = []
        for node in range(len(future.touched), len(trie)):
            request = trie.requests[node]
            future.touched.append(0 if request == AT_END else self._of_request(request))
        for above, node in trie.edges[future.edges :]:
            if future.touched[node] & ~future.touched[above]:
                future.touched[above] |= future.touched[node]
                changed.append(above)
        while changed:
            node = changed.pop()
            for above in trie.parents[node]:
                if future.touched[node] & ~future.touched[above]:
                    future.touched[above] |= future.touched[node]
                    changed.append(above)
        future.edges = len(trie.edges)


@dataclass(slots=True)
class _Future:
    """What one process may touch from each of its nodes on."""

    touched: list[int] = field(default_factory=list)
    """Node -> bits."""
    edges: int = 0
    """Edges of the trie that are taken in."""


@dataclass(slots=True)
class _Watching:
    """What one oracle asked the store for, as it turns up."""

    requests: Sequence[StoreRequest[Any]]
    seen: int = 0
