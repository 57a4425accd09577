"""Processes that share what they know: engine code runs once for each history of an actor.

Hypothesis runs nearly the same history again and again, and most of all while it shrinks one.
"""

from __future__ import annotations

from collections.abc import Callable

from memwal.stores.memory import Reply

from ..actor import Actor
from ..book import Book
from ..process import Pause, Process, Running
from ..simulation import Simulation
from ..trie import ROOT, Trie
from ..world import World


class RememberedProcess(Running):
    """A process under way that is looked up; engine code runs for states that are new."""

    __slots__ = ("_book", "_node", "_trie")

    def __init__(self, trie: Trie, book: Book) -> None:
        self._trie, self._book = trie, book
        self._stand(ROOT)

    def resume(self, reply: Reply) -> Pause:
        """As `Running.resume`."""
        self._stand(self._trie.child(self._node, self._book.reply_id(reply)))
        return self.pause

    def site(self) -> str:
        """As `Running.site`."""
        return self._trie.sites[self._node]

    def close(self) -> None:
        """Nothing to let go of: the trie keeps what it wants."""

    def _stand(self, node: int) -> None:
        trie = self._trie
        self._node = node
        self.notes, self.announced = trie.notes[node], trie.invocations[node]
        self.switches = trie.switches[node]
        self.pause = trie.ends[node] if node in trie.ends else self._book.requests[trie.requests[node]]


class Memory:
    """The worlds of one run by revision, and what processes in them did in all histories so far."""

    def __init__(self) -> None:
        self._worlds: dict[str, World] = {}
        self._book = Book()
        self._tries: dict[tuple[str, str], Trie] = {}

    def world(self, revision: str, build: Callable[[], World]) -> World:
        """The world under ``revision``; what its oracles remember serves all histories."""
        if revision not in self._worlds:
            self._worlds[revision] = build()
        return self._worlds[revision]

    def enter(self, simulation: Simulation, revision: str, actor: Actor, process: Process) -> None:
        """Start ``process`` of ``actor`` on ``simulation``."""
        key = (revision, repr(actor))
        if key not in self._tries:
            self._tries[key] = Trie(process, self._book)
        simulation.join(process.name, RememberedProcess(self._tries[key], self._book))
