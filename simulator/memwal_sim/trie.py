"""Behaviour of a process as a tree of the replies that it got: engine code runs once per distinct local history.

Between two requests a process is deterministic, so its local history decides its next request. A node of the trie is a
history; it holds that request, or the end, and the notes made on the way in. A new edge resumes the coroutine that
stands at the node, or feeds the history to a new one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container
from hashlib import blake2b

from memwal.effects import Note
from memwal.errors import EngineBug

from .book import Book
from .fingerprint import Unknown
from .process import Ended, Pause, Process, Running

ROOT = 0
"""The node of a process that has had no reply yet."""
AT_END = -1
"""In place of a request: the process has ended."""
COROUTINES_KEPT = 4096
"""Suspended coroutines that a trie keeps; the others are fed their history again when they are needed."""


class Trie:
    """All behaviour of one process that has been asked for so far. Nodes are numbers from `ROOT` up."""

    def __init__(
        self,
        process: Process,
        book: Book,
        *,
        check: bool = False,
        merge: bool = False,
        heard: Container[str] | None = None,
        keep: int = COROUTINES_KEPT,
    ) -> None:
        """``check``: compute every edge twice and compare (finds state that is hidden from the history).

        ``merge``: histories after which the process is in the same state share a node, see `memwal_sim.fingerprint`;
        notes of events that are not ``heard`` make no difference then.
        """
        self.process = process
        self.requests: list[int] = []
        """Node -> number of the next request in the book, or `AT_END`."""
        self.children: list[dict[int, int]] = []
        """Node -> (number of a reply -> node)."""
        self.notes: list[tuple[Note, ...]] = []
        """Node -> notes that happened with the reply that led here."""
        self.invocations: list[tuple[Note, ...]] = []
        """Node -> announcements of operations that begin with the next request, see `memwal_sim.process.Running`."""
        self.sites: list[str] = []
        """Node -> the protocol function that makes the request."""
        self.switches: list[bool] = []
        """Node -> whether another coroutine of the process can run instead."""
        self.ends: dict[int, Ended] = {}
        """Node -> end, for nodes that have one."""
        self.edges: list[tuple[int, int]] = []
        """Every edge in the order in which they turned up: node before, node after."""
        self.parents: list[list[int]] = []
        """Node -> nodes from which a reply leads to it; a node may have several where histories are merged."""
        self.unmerged: Counter[str] = Counter()
        """Kinds of objects that kept histories from being merged -> times."""
        self.events: set[str] = set()
        """Events of all notes that the process ever made."""
        self.fed = 0
        """Replies handed to engine code so far, fed again ones included."""
        self.book = book
        self._check = check
        self._keep = keep
        self._merge = merge
        self._heard = heard
        self._states: dict[bytes, int] = {}
        self._origin: list[tuple[int, int]] = []
        """Node -> the node and reply by which it was first reached."""
        self._standing: OrderedDict[int, Running] = OrderedDict()
        started = Running(process)
        self.events.update(note.event for note in (*started.notes, *started.announced))
        self._add(started, (-1, -1))

    def __len__(self) -> int:
        return len(self.requests)

    def child(self, node: int, reply: int) -> int:
        """The node after reply number ``reply`` at ``node``; runs engine code the first time."""
        found = self.children[node].get(reply)
        return self._grow(node, reply) if found is None else found

    def history(self, node: int) -> list[int]:
        """Numbers of replies that lead to ``node``, first first."""
        replies = []
        while node != ROOT:
            node, reply = self._origin[node]
            replies.append(reply)
        return replies[::-1]

    def _grow(self, node: int, reply: int) -> int:
        running = self._standing.pop(node, None) or self._fed_again(node)
        self._feed(running, reply)
        self.events.update(note.event for note in (*running.notes, *running.announced))
        state = self._state(running)
        same = self._states.get(state) if state is not None else None
        if same is not None:
            running.close()
            self.parents[same].append(node)
            self.edges.append((node, same))
            self.children[node][reply] = same
            return same
        new = self._add(running, (node, reply))
        if state is not None:
            self._states[state] = new
        if self._check:
            again = self._fed_again(new)
            if (again.notes, again.announced) != (running.notes, running.announced):
                raise self._unlike(new, again)
            again.close()
        self.children[node][reply] = new
        return new

    def _state(self, running: Running) -> bytes | None:
        """What decides all that the process will do; None if that cannot be told, or is not to be."""
        if not self._merge:
            return None
        try:
            return running.fingerprint(self._heard)
        except Unknown as unknown:
            self.unmerged[str(unknown)] += 1
            return None

    def _fed_again(self, node: int) -> Running:
        """A new coroutine at ``node``; raises `EngineBug` if the same replies lead it elsewhere."""
        running = Running(self.process)
        for reply in self.history(node):
            if isinstance(running.pause, Ended):
                raise self._unlike(node, running)
            self._feed(running, reply)
        if not self._is_at(running, node):
            raise self._unlike(node, running)
        return running

    def _is_at(self, running: Running, node: int) -> bool:
        if isinstance(running.pause, Ended):
            return running.pause == self.ends.get(node)
        return self.book.request_id(running.pause) == self.requests[node]

    def _unlike(self, node: int, again: Running) -> EngineBug:
        first = self.book.requests[self.requests[node]] if self.requests[node] != AT_END else self.ends[node]
        return EngineBug(
            f"process {self.process.name} is not a function of its replies: at {self.sites[node]} it went on with "
            f"{_named(first)}, and with {_named(again.pause)} when it was given the same replies again"
        )

    def _feed(self, running: Running, reply: int) -> None:
        self.fed += 1
        running.resume(self.book.replies[reply])

    def _add(self, running: Running, origin: tuple[int, int]) -> int:
        node = len(self.requests)
        if isinstance(running.pause, Ended):
            self.ends[node] = running.pause
            self.requests.append(AT_END)
        else:
            self.requests.append(self.book.request_id(running.pause))
            self._stand(node, running)
        self.children.append({})
        self.sites.append(running.site())
        self.switches.append(running.switches)
        self.notes.append(running.notes)
        self.invocations.append(running.announced)
        self._origin.append(origin)
        self.parents.append([] if origin[0] < 0 else [origin[0]])
        if origin[0] >= 0:
            self.edges.append((origin[0], node))
        return node

    def _stand(self, node: int, running: Running) -> None:
        self._standing[node] = running
        if len(self._standing) > self._keep:
            _, oldest = self._standing.popitem(last=False)
            oldest.close()


def _named(pause: Pause) -> str:
    """``pause`` in a few words: bytes that it carries by size and digest."""
    if isinstance(pause, Ended):
        return f"its end, {pause.failure or 'a result'}"
    data: bytes | None = getattr(pause, "data", None)
    carried = "" if data is None else f" ({len(data)} bytes, digest {blake2b(data, digest_size=4).hexdigest()})"
    return f"{type(pause).__name__} {pause.path}{carried}"
