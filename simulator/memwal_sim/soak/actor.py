"""A protocol coroutine in virtual time: one SimPy process, which may crash, or stall and continue as a zombie."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import simpy
from memwal.effects import Note, Now, Protocol, RandomHex, Request, Sleep, StoreRequest
from memwal.errors import EngineBug, Outcome, OutcomeUnknown, Throttled
from memwal.stores.memory import Objects, Raised, Reply

from ..outcomes import Fate
from ..process import EPOCH_MS
from .network import Network
from .traffic import Traffic, size_down, size_up

T = TypeVar("T")

Steps: TypeAlias = Generator[simpy.Event, Any, T]
"""What SimPy runs: yields events, returns a ``T``."""


class Crashed(Exception):
    """The actor is gone; its coroutine never continues."""


@dataclass(slots=True, kw_only=True)
class ActorContext:
    """What all actors share."""

    env: simpy.Environment
    store: Objects
    network: Network
    traffic: Traffic
    timeout_ms: float
    hear: Callable[[Note], None]
    """Called with each note that an actor makes, at that moment."""
    before: Callable[[StoreRequest[Any]], None]
    """Called with each request right before it is applied."""

    def apply(self, request: StoreRequest[Any]) -> Reply:
        """Apply ``request`` now."""
        self.before(request)
        return self.store.perform(request)

    def later(self, actor: str, role: str, request: StoreRequest[Any], delay_ms: float) -> Steps[None]:
        """A request whose client has given up, on its way to the store."""
        yield self.env.timeout(delay_ms)
        reply = self.apply(request)
        self.traffic.record(self.env.now, f"{actor} (late)", role, request, Fate.NORMAL, reply)


@dataclass(slots=True, kw_only=True)
class SoakActor:
    """One process with a name, a role by which its traffic is counted, and randomness of its own."""

    name: str
    role: str
    site: ActorContext
    random: np.random.Generator
    crash_at_ms: float = math.inf
    stall_at_ms: float = math.inf
    stall_ms: float = 0.0
    stalled: Callable[[], None] = field(default=lambda: None)
    """Called when it begins to stall."""
    requests: int = 0
    """Sent so far."""

    def run(self, coroutine: Protocol[T]) -> Steps[T]:
        """Drive ``coroutine`` to its end. Raises what it raises, and `Crashed`."""
        value: Any = None
        error: Outcome | None = None
        while True:
            try:
                request = coroutine.throw(error) if error is not None else coroutine.send(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            value, error = None, None
            match request:
                case StoreRequest():
                    reply = yield from self._send(coroutine, request)
                    if isinstance(reply, Raised):
                        error = reply.error()
                    else:
                        value = reply.value
                case Sleep(duration_ms=duration_ms):
                    yield self.site.env.timeout(duration_ms)
                    yield from self._live(coroutine)
                case _:
                    value = self._answer(request)

    def _answer(self, request: Request[Any]) -> object:
        match request:
            case Note():
                self.site.hear(request)
                return None
            case Now():
                return int(EPOCH_MS + self.site.env.now)
            case RandomHex(digits=digits):
                return self.random.bytes((digits + 1) // 2).hex()[:digits]
        raise EngineBug(f"the soak does not know the request {request!r}")

    def _live(self, coroutine: Protocol[Any]) -> Steps[None]:
        """Crash or stall here, if it is time. A stall may end in a crash."""
        env = self.site.env
        if env.now >= self.stall_at_ms:
            self.stall_at_ms = math.inf
            self.stalled()
            yield env.timeout(self.stall_ms)
        if env.now >= self.crash_at_ms:
            coroutine.close()
            raise Crashed(self.name)

    def _send(self, coroutine: Protocol[Any], request: StoreRequest[Any]) -> Steps[Reply]:
        yield from self._live(coroutine)
        site, env = self.site, self.site.env
        self.requests += 1
        fate = site.network.fate(request, env.now)
        yield env.timeout(site.network.latency_ms(request, size_up(request)))
        match fate:
            case Fate.NORMAL:
                reply = site.apply(request)
            case Fate.THROTTLED:
                reply = Raised(Throttled, request.path)
            case Fate.APPLIED:
                site.apply(request)
                reply = Raised(OutcomeUnknown, request.path)
            case _:
                reply = Raised(OutcomeUnknown, request.path)
                if fate is Fate.LATE:
                    env.process(site.later(self.name, self.role, request, site.network.late_ms()))
        site.traffic.record(env.now, self.name, self.role, request, fate, reply)
        size_bytes = size_down(reply)
        unanswered = isinstance(reply, Raised) and reply.kind is OutcomeUnknown
        yield env.timeout(site.timeout_ms if unanswered else site.network.latency_ms(request, size_bytes))
        yield from self._live(coroutine)
        return reply
