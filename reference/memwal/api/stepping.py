"""Coroutines of one writer on several threads: what a coroutine does between two requests is one step."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from threading import Lock
from typing import Any, TypeVar

from ..effects import Protocol, Request

T = TypeVar("T", covariant=True)


class Stepped(Coroutine[Request[Any], Any, T]):
    """A protocol coroutine that takes a lock for each step and gives it back while a request is performed.

    Coroutines that share the lock interleave at their requests only, as they do under the simulator's explorer.
    """

    __slots__ = ("_inner", "_lock")

    def __init__(self, inner: Protocol[T], lock: Lock) -> None:
        self._inner, self._lock = inner, lock

    def send(self, value: Any) -> Request[Any]:
        with self._lock:
            return self._inner.send(value)

    def throw(self, *failure: Any) -> Request[Any]:
        with self._lock:
            return self._inner.throw(*failure)

    def close(self) -> None:
        with self._lock:
            self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()
