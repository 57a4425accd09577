"""What each process may do next, for many states at once: look-ups, and engine code for states that are new."""

from __future__ import annotations

import numpy as np

from ..outcomes import Fate, fates
from ..trie import AT_END, Trie
from .interned import Array, GrowingArray, Memo
from .tables import FATE_BITS, GhostTable, Orphans, Stores

FATES = 1 << FATE_BITS


class Behaviour:
    """One process: what its nodes ask for, and what a step from a node on a store leads to. Arrays are of int32."""

    def __init__(self, actor: int, trie: Trie, stores: Stores, ghosts: GhostTable, kinds: frozenset[Fate]) -> None:
        self._trie = trie
        self._allowed = kinds | {Fate.SWITCH}
        self.switches = False
        """Whether the process was ever seen to have several coroutines that can run."""
        self._request = GrowingArray(np.int32)
        self._meets = GrowingArray(np.bool_, FATES)
        self._says = GrowingArray(np.bool_, 2)

        def step(store: int, node: int, fate: int) -> tuple[int, int]:
            after, reply = stores.effect(store, trie.requests[node], fate)
            return after, trie.child(node, reply)

        def tell(ghost: int, node: int, invoked: int) -> int:
            return ghosts.after(ghost, actor, node, invoked=bool(invoked))

        self._step = Memo(step, 3, 2)
        self._tell = Memo(tell, 3)
        self._follow()

    @property
    def requests(self) -> Array:
        """Node -> number of its request, or `AT_END`."""
        return self._request.values

    def meets(self, nodes: Array, fate: Fate) -> Array:
        """Whether the request of each node may meet ``fate``; dtype bool."""
        found: Array = self._meets.values[nodes, int(fate)]
        return found

    def step(self, stores: Array, nodes: Array, fate: Fate) -> tuple[Array, Array]:
        """Stores and nodes after the requests of ``nodes`` met ``fate``."""
        found = self._step(stores, nodes, int(fate))
        self._follow()
        return found[:, 0], found[:, 1]

    def tell(self, ghosts: Array, nodes: Array, *, invoked: bool) -> Array:
        """Ghosts after the invocations that wait at ``nodes``, or after the notes made on the way to them."""
        told = ghosts.copy()
        places = np.flatnonzero(self._says.values[nodes, int(invoked)])
        if len(places):
            told[places] = self._tell(ghosts[places], nodes[places], int(invoked))[:, 0]
        return told

    def _follow(self) -> None:
        """Take in the nodes that the trie has gained."""
        trie = self._trie
        for node in range(len(self._request), len(trie)):
            request = trie.requests[node]
            meets = np.zeros(FATES, np.bool_)
            if request != AT_END:
                meets[list(fates(trie.book.requests[request], self._allowed, switches=trie.switches[node]))] = True
                self.switches |= trie.switches[node]
            self._request.append(request)
            self._meets.append(meets)
            self._says.append((bool(trie.notes[node]), bool(trie.invocations[node])))


class Landing:
    """Sets of requests under way, and what becomes of a store when one of them lands. Arrays are of int32."""

    def __init__(self, stores: Stores, orphans: Orphans) -> None:
        def applied(store: int, of: int, place: int) -> tuple[int, int]:
            _, request = orphans.sets[of][place]
            return stores.effect(store, request, Fate.NORMAL)[0], orphans.without(of, place)

        self._count = Memo(lambda of: len(orphans.sets[of]), 1)
        self._issued = Memo(orphans.with_one, 3)
        self._applied = Memo(applied, 3, 2)

    def issued(self, orphans: Array, actor: int, requests: Array) -> Array:
        """The sets with one request more."""
        return self._issued(orphans, actor, requests)[:, 0]

    def count(self, orphans: Array) -> Array:
        """How many requests each set has."""
        return self._count(orphans)[:, 0]

    def land(self, stores: Array, orphans: Array, place: int) -> tuple[Array, Array]:
        """Stores and sets after the request at ``place`` of each set was applied."""
        found = self._applied(stores, orphans, place)
        return found[:, 0], found[:, 1]
