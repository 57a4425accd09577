"""Runs protocol coroutines against a real store, blocking. The only place with a clock, randomness and sleep."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .effects import Note, Now, Protocol, RandomHex, Request, Sleep, StoreRequest, run
from .errors import EngineBug, Outcome, Unreachable
from .stores.base import Store

T = TypeVar("T")

Listener = Callable[[str, dict[str, object]], None]
"""Receives the ghost events of protocol code, for progress displays: name and fields."""


def _no_listener(event: str, fields: dict[str, object]) -> None:
    """Nobody listens."""


def drive(coroutine: Protocol[T], store: Store, listener: Listener = _no_listener) -> T:
    """Run a protocol coroutine to its end on ``store``; returns its result or raises its error.

    Protocol code sleeps before it repeats a request. A store that has been silent for as long as the caller allows is
    not asked again: instead of sleeping the coroutine is told so.
    """
    last: Outcome | None = None

    def perform(request: Request[Any]) -> Any:
        nonlocal last
        match request:
            case StoreRequest():
                try:
                    reply, last = store.perform(request), None
                except Outcome as outcome:
                    last = outcome
                    raise
                return reply
            case Sleep() if isinstance(last, Unreachable) and last.lasting:
                raise last
            case Now():
                return int(time.time() * 1000)
            case Sleep(duration_ms):
                time.sleep(duration_ms / 1000)
            case RandomHex(digits):
                return secrets.token_hex((digits + 1) // 2)[:digits]
            case Note(event, fields):
                listener(event, dict(fields))
            case _:
                raise EngineBug(f"no driver knows the request {request!r}")
        return None

    return run(coroutine, perform)
