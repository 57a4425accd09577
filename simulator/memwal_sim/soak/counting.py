"""Requests of one operation of the engine, counted on a store in memory without latency or faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memwal.effects import Now, Protocol, RandomHex, Request, StoreRequest, run
from memwal.stores.memory import Objects, Raised

from ..process import EPOCH_MS
from .network import generator

T = TypeVar("T")

REGION, TABLE_SCOPE = "region", "table"
_STEP_MS = 1000


def scope_of(path: str) -> str:
    """Whether a name is below a region's folder or belongs to the table as a whole."""
    _, _, below = path.partition("/_mem_wal/")
    return REGION if below else TABLE_SCOPE


@dataclass(slots=True)
class Counted:
    """A store that counts requests by scope and kind."""

    store: Objects = field(default_factory=Objects)
    seen: Counter[str] = field(default_factory=Counter)
    """``<scope> <kind>`` -> requests."""
    _now_ms: int = EPOCH_MS
    _random: Any = field(default_factory=lambda: generator(0, "counting"))

    def pass_time(self, duration_ms: int) -> None:
        """Let the clock advance."""
        self._now_ms += duration_ms

    def run(self, coroutine: Protocol[T]) -> T:
        """Run ``coroutine`` to its end, counting into `seen`, which is emptied before."""
        self.seen.clear()
        return run(coroutine, self._perform)

    def _perform(self, request: Request[Any]) -> Any:
        match request:
            case StoreRequest():
                reply = self.store.perform(request)
                self.seen[f"{scope_of(request.path)} {type(request).__name__}"] += 1
                if isinstance(reply, Raised):
                    raise reply.error()
                return reply.value
            case Now():
                self._now_ms += _STEP_MS
                return self._now_ms
            case RandomHex(digits=digits):
                return self._random.bytes((digits + 1) // 2).hex()[:digits]
        return None
