"""Behaviour of a process as a tree of the replies that it got: engine code runs once per distinct local history.

Between two requests a process is deterministic, so its local history decides its next request. A node of the trie is a
history; it holds that request, or the end, and the notes made on the way in. A new edge resumes the coroutine that
stands at the node, or feeds the history to a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from memwal.effects import Note, StoreRequest
from memwal.errors import EngineBug

from .process import Ended, Process, Running
from .store import Reply

ROOT = 0
"""The node of a process that has had no reply yet."""
AT_END = -1
"""In place of a request: the process has ended."""
INVOKED = "_invoked"
"""Suffix of events that announce an operation. The operation begins as late as it can, with its first request: a client
that waits before it calls is no other history, and an interval that is as short as can be orders the most."""
COROUTINES_KEPT = 4096
"""Suspended coroutines that a trie keeps; the others are fed their history again when they are needed."""


class Book:
    """Requests and replies by number: equal ones have one number, shared by all tries of an exploration."""

    def __init__(self) -> None:
        self.requests: list[StoreRequest[Any]] = []
        self.replies: list[Reply] = []
        self._request_ids: dict[StoreRequest[Any], int] = {}
        self._reply_ids: dict[Reply, int] = {}

    def request_id(self, request: StoreRequest[Any]) -> int:
        """Number of ``request``, new or old."""
        found = self._request_ids.setdefault(request, len(self.requests))
        if found == len(self.requests):
            self.requests.append(request)
        return found

    def reply_id(self, reply: Reply) -> int:
        """Number of ``reply``, new or old."""
        found = self._reply_ids.setdefault(reply, len(self.replies))
        if found == len(self.replies):
            self.replies.append(reply)
        return found


class Trie:
    """All behaviour of one process that has been asked for so far. Nodes are numbers from `ROOT` up."""

    def __init__(self, process: Process, book: Book, *, check: bool = False, keep: int = COROUTINES_KEPT) -> None:
        """``check``: compute every edge twice and compare (finds state that is hidden from the history)."""
        self.process = process
        self.requests: list[int] = []
        """Node -> number of the next request in the book, or `AT_END`."""
        self.children: list[dict[int, int]] = []
        """Node -> (number of a reply -> node)."""
        self.notes: list[tuple[Note, ...]] = []
        """Node -> notes made on the reply that led here, without the invocations."""
        self.invocations: list[tuple[Note, ...]] = []
        """Node -> notes of operations that begin with the next request, and not before it is made."""
        self.sites: list[str] = []
        """Node -> the protocol function that makes the request."""
        self.ends: dict[int, Ended] = {}
        """Node -> end, for nodes that have one."""
        self.fed = 0
        """Replies handed to engine code so far, fed again ones included."""
        self._book = book
        self._check = check
        self._keep = keep
        self._origin: list[tuple[int, int]] = []
        self._standing: OrderedDict[int, Running] = OrderedDict()
        self._add(Running(process), (-1, -1))

    def __len__(self) -> int:
        return len(self.requests)

    def child(self, node: int, reply: int) -> int:
        """The node after reply number ``reply`` at ``node``; runs engine code if nobody asked before."""
        found = self.children[node].get(reply)
        return self._grow(node, reply) if found is None else found

    def history(self, node: int) -> list[int]:
        """Numbers of the replies that lead to ``node``, first first."""
        replies = []
        while node != ROOT:
            node, reply = self._origin[node]
            replies.append(reply)
        return replies[::-1]

    def _grow(self, node: int, reply: int) -> int:
        running = self._standing.pop(node, None) or self._fed_again(node)
        self._feed(running, reply)
        new = self._add(running, (node, reply))
        if self._check:
            self._compare(new, running.notes, self._fed_again(new))
        self.children[node][reply] = new
        return new

    def _fed_again(self, node: int) -> Running:
        running = Running(self.process)
        for reply in self.history(node):
            self._feed(running, reply)
        return running

    def _feed(self, running: Running, reply: int) -> None:
        self.fed += 1
        running.resume(self._book.replies[reply])

    def _add(self, running: Running, origin: tuple[int, int]) -> int:
        node = len(self.requests)
        if isinstance(running.pause, Ended):
            self.ends[node] = running.pause
            self.requests.append(AT_END)
        else:
            self.requests.append(self._book.request_id(running.pause))
            self._stand(node, running)
        self.children.append({})
        self.sites.append(running.site())
        self.invocations.append(tuple(note for note in running.notes if note.event.endswith(INVOKED)))
        self.notes.append(tuple(note for note in running.notes if not note.event.endswith(INVOKED)))
        self._origin.append(origin)
        return node

    def _stand(self, node: int, running: Running) -> None:
        self._standing[node] = running
        if len(self._standing) > self._keep:
            _, oldest = self._standing.popitem(last=False)
            oldest.close()

    def _compare(self, node: int, notes: tuple[Note, ...], again: Running) -> None:
        request = AT_END if isinstance(again.pause, Ended) else self._book.request_id(again.pause)
        same = request == self.requests[node] and (request != AT_END or again.pause == self.ends[node])
        if not same or again.notes != notes:
            first = self._book.requests[self.requests[node]] if self.requests[node] != AT_END else self.ends[node]
            raise EngineBug(
                f"process {self.process.name} is not a function of its replies: at {self.sites[node]} "
                f"it went on with {first!r}, and with {again.pause!r} when it was given the same replies again"
            )
        again.close()
