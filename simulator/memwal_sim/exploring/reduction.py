"""Exploring one process alone where its next request commutes with all that the others may still do.

What the others may still do is what they were seen to do so far. That may grow during the exploration, so every
choice is remembered, and those that turn out to have been made too early are given back to be made good: at the end
each choice holds for everything that was ever seen. Then it is sound, for a history that was left out could only be
one with a request that no explored history has, and the first such request would have been found at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from memwal.effects import StoreRequest

from ..book import Book
from ..outcomes import Fate
from ..trie import AT_END, Trie
from ..world import Oracle
from .independence import Accesses
from .interned import Array, GrowingArray, Interned, Memo, packed
from .tables import Orphans, Stores

_WORD_BITS = 64


class Reduction:
    """Choices of one exploration."""

    def __init__(
        self, book: Book, tries: Sequence[Trie], stores: Stores, orphans: Orphans, oracles: Iterable[Oracle]
    ) -> None:
        self._book = book
        self._stores = stores
        self._orphans = orphans
        self._accesses = Accesses()
        self._touched: list[int] = []
        """Request -> what it may touch."""
        self._pairs = Interned(1)
        """(store, request) by number."""
        self._noticed = _Sets()
        """Of these -> with what the request does not commute there."""
        self._changes = Memo(lambda store, request: stores.effect(store, request, Fate.NORMAL)[0] != store, 2)
        self._futures = [_Future(trie) for trie in tries]
        self._under_way = _Sets()
        """Set of requests under way -> what they touch."""
        asked = [getattr(oracle, "requests", None) for oracle in oracles]
        self._watching = [_Watching(requests) for requests in {id(r): r for r in asked if r is not None}.values()]
        self._watched = -1 if None in asked else 0
        """What the oracles were seen to touch; all bits if one of them does not say."""
        self._chosen_states = GrowingArray(np.int64)
        self._chosen_actors = GrowingArray(np.int32)

    def alone(self, stores: Array, orphans: Array, nodes: Sequence[Array], requests: Array, actor: int) -> Array:
        """Whether the process ``actor`` may run alone, for states given by columns; dtype bool.

        ``nodes``: for each process, the column of its nodes; ``requests``: of ``actor``, or `AT_END`.
        """
        self._take_in_news()
        alone: Array = requests != AT_END
        places = np.flatnonzero(alone)
        stores, requests = stores[places], requests[places]
        noticed = self._noticed.of(self._pairs_of(stores, requests))
        against = self._under_way.of(orphans[places])
        for other, future in enumerate(self._futures):
            if other != actor:
                against = _union(against, future.touched.of(nodes[other][places]))
        meets = _intersect(noticed, against)
        seen = ~meets & (noticed.any(axis=1) if self._watched < 0 else _intersect(noticed, _words(self._watched)[None]))
        seen[seen] = self._changes(stores[seen], requests[seen])[:, 0]
        alone[places] = ~(meets | seen)
        return alone

    def choose(self, states: Array, actor: int) -> None:
        """Remember that in the states of these numbers only ``actor`` ran."""
        self._chosen_states.extend(states)
        self._chosen_actors.extend(np.full(len(states), actor))

    def chosen(self) -> Iterator[tuple[int, Array]]:
        """Each process with the numbers of the states in which it ran alone."""
        for actor in range(len(self._futures)):
            yield actor, self._chosen_states.values[self._chosen_actors.values == actor]

    def withdraw(self, states: Array) -> None:
        """Forget the choices made in the states of these numbers."""
        kept = ~np.isin(self._chosen_states.values, states)
        for column in (self._chosen_states, self._chosen_actors):
            values = column.values[kept]
            column.truncate(0)
            column.extend(values)

    def _pairs_of(self, stores: Array, requests: Array) -> Array:
        numbers, new = self._pairs.number(packed(stores, requests))
        for store, request in zip(stores[new].tolist(), requests[new].tolist(), strict=True):
            contents = self._stores.contents[store]
            self._noticed.append(self._accesses.noticed(self._book.requests[request], contents))
        return numbers

    def _of_request(self, request: int) -> int:
        while len(self._touched) <= request:
            self._touched.append(self._accesses.touched(self._book.requests[len(self._touched)]))
        return self._touched[request]

    def _take_in_news(self) -> None:
        """Follow tries, requests under way and oracles, which grow during the exploration."""
        for future in self._futures:
            future.grow(self._of_request)
        for requests in self._orphans.sets[len(self._under_way) :]:
            touched = 0
            for _, request in requests:
                touched |= self._of_request(request)
            self._under_way.append(touched)
        for watching in self._watching:
            if watching.seen != len(watching.requests):
                for each in watching.requests[watching.seen :]:
                    self._watched |= self._accesses.touched(each)
                watching.seen = len(watching.requests)


class _Sets:
    """Sets of bits by number, as rows of 64-bit words; a set is an integer outside."""

    def __init__(self) -> None:
        self._rows = GrowingArray(np.uint64, 1)

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, numbers: Array) -> Array:
        """The rows of these sets, shape ``(len(numbers), words)``; others may have more or fewer words."""
        found: Array = self._rows.values[numbers]
        return found

    def append(self, bits: int) -> None:
        words = self._fitting(bits)
        self._rows.append(words)

    def put(self, number: int, bits: int) -> None:
        words = self._fitting(bits)
        self._rows.values[number] = words

    def _fitting(self, bits: int) -> Array:
        """The words of ``bits``, as many as a row has; rows become wider if need be."""
        words = _words(bits)
        width = self._rows.values.shape[1]
        if len(words) > width:
            wider = GrowingArray(np.uint64, len(words))
            wider.extend(np.pad(self._rows.values, ((0, 0), (0, len(words) - width))))
            self._rows = wider
            return words
        fitting = np.zeros(width, np.uint64)
        fitting[: len(words)] = words
        return fitting


def _words(bits: int) -> Array:
    count = max(1, -(-bits.bit_length() // _WORD_BITS))
    return np.frombuffer(bits.to_bytes(count * _WORD_BITS // 8, "little"), "<u8").astype(np.uint64)


def _union(one: Array, other: Array) -> Array:
    if one.shape[1] < other.shape[1]:
        one, other = other, one
    joined = one.copy()
    joined[:, : other.shape[1]] |= other
    return joined


def _intersect(one: Array, other: Array) -> Array:
    """Whether each pair of sets has a bit in common."""
    words = min(one.shape[1], other.shape[1])
    found: Array = np.any(one[:, :words] & other[:, :words], axis=1)
    return found


class _Future:
    """What one process may touch from each of its nodes on."""

    def __init__(self, trie: Trie) -> None:
        self._trie = trie
        self._bits: list[int] = []
        self._edges = 0
        """Edges of the trie that are taken in."""
        self.touched = _Sets()
        """Node -> what it and all after it touch."""

    def grow(self, of_request: Callable[[int], int]) -> None:
        """Take in the new edges: what a node touches belongs to the future of every node before it."""
        trie, bits = self._trie, self._bits
        for node in range(len(bits), len(trie)):
            request = trie.requests[node]
            bits.append(0 if request == AT_END else of_request(request))
            self.touched.append(bits[node])
        waiting = [node for _, node in trie.edges[self._edges :]]
        self._edges = len(trie.edges)
        while waiting:
            node = waiting.pop()
            for above in trie.parents[node]:
                if bits[node] & ~bits[above]:
                    bits[above] |= bits[node]
                    self.touched.put(above, bits[above])
                    waiting.append(above)


@dataclass(slots=True)
class _Watching:
    """What one oracle asked the store for, as it turns up."""

    requests: Sequence[StoreRequest[Any]]
    seen: int = 0
