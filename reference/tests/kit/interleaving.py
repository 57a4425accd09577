"""All orders in which processes reach the points where they commit, on copies of one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memwal.effects import Protocol, PutIfAbsent, StoreRequest
from memwal.errors import MemwalError

from .ground import Actor, Ground

Point = Callable[[StoreRequest[Any]], bool]


def table_commit(request: StoreRequest[Any]) -> bool:
    """Whether the request creates a table version."""
    return isinstance(request, PutIfAbsent) and "/_versions/" in request.path


def any_commit(request: StoreRequest[Any]) -> bool:
    """Whether the request creates a table version, a region manifest, or a WAL entry."""
    return isinstance(request, PutIfAbsent) and ("/_versions/" in request.path or "/_mem_wal/" in request.path)


@dataclass
class Played:
    """One order, played to the end."""

    ground: Ground
    order: list[int]
    """Which process continued, point by point."""
    switches: int = 0
    """How often one was left before its end."""
    results: list[Any] = field(default_factory=list)
    """What each process returned, or the error that it ended with."""


class _Process:
    def __init__(self, ground: Ground, coroutine: Protocol[Any]) -> None:
        self._actor = Actor(ground, coroutine)
        self.result: Any = None
        self.ended = False

    def go_on(self, point: Point) -> None:
        """Perform the waiting request and all up to the next point."""
        try:
            self._actor.step()
            while self._actor.waiting is not None and not point(self._actor.waiting):
                self._actor.step()
            if self._actor.waiting is None:
                self.result = self._actor.finish()
        except MemwalError as error:
            self.result = error
        self.ended = self._actor.waiting is None


def orders(
    objects: Mapping[str, bytes],
    processes: Sequence[Callable[[], Protocol[Any]]],
    point: Point = table_commit,
    switches_most: int = 1_000,
) -> Iterator[Played]:
    """Play every order of the processes, which stop before each request that is a ``point``.

    ``switches_most``: how often one of them may be left before its end.
    """
    todo: list[list[int]] = [[]]
    while todo:
        played = Played(Ground(objects), [])
        running = [_Process(played.ground, make()) for make in processes]
        planned = todo.pop()
        while alive := [at for at, process in enumerate(running) if not process.ended]:
            chosen = planned[len(played.order)] if len(played.order) < len(planned) else alive[0]
            if len(played.order) >= len(planned):
                last = played.order[-1] if played.order else -1
                chosen = last if last in alive else alive[0]
                spent = played.switches + (last in alive)
                todo.extend([*played.order, other] for other in alive if other != chosen and spent <= switches_most)
            elif played.order and played.order[-1] != chosen and played.order[-1] in alive:
                played.switches += 1
            played.order.append(chosen)
            running[chosen].go_on(point)
        played.results = [process.result for process in running]
        yield played
