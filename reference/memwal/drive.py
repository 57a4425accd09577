"""Runs protocol coroutines against a real store, blocking: the only place with a clock, randomness and threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .effects import (
    Busy,
    Get,
    GetRanges,
    Grew,
    Join,
    Note,
    Now,
    Open,
    Protocol,
    RandomHex,
    Recall,
    Remember,
    Request,
    Sleep,
    Spawn,
    Stamped,
    StoreRequest,
    Task,
    Until,
    run,
)
from .errors import EngineBug, InvalidArgument, Outcome, Unreachable
from .metrics import ENTERED, LEFT, Metrics, Spent, of_note
from .remembered import ReadMemory, Remembering
from .stores.base import Store

T = TypeVar("T")

Listener = Callable[[str, dict[str, object]], None]
"""Receives the ghost events of protocol code, for progress displays: name and fields."""

LOOK_S = 1.0
"""Longest wait for a time without a look at whether the program has ended."""


def _no_listener(event: str, fields: dict[str, object]) -> None:
    """There is not a listener."""


def drive(
    coroutine: Protocol[T],
    store: Store,
    listener: Listener = _no_listener,
    memory: ReadMemory | None = None,
    *,
    concurrent: bool = False,
) -> T:
    """Run a protocol coroutine to its end on ``store``; returns its result or raises its error.

    ``memory``: keeps what was worked out of stored objects from run to run. ``concurrent``: it may spawn others.
    """
    if concurrent:
        return Threads(store, listener, memory=memory).run(coroutine)
    return run(coroutine, _performing(store, listener, memory).perform)


def _performing(store: Store, listener: Listener, memory: ReadMemory | None) -> _Performing:
    return _Performing(store, listener, Remembering(memory, store) if memory is not None else None)


@dataclass(slots=True)
class _Performing:
    """Performs the requests of one coroutine.

    Protocol code sleeps before it repeats a request. A store that has been silent for as long as the caller allows is
    not asked again: instead of sleeping the coroutine is told so.
    """

    store: Store
    listener: Listener
    remembering: Remembering | None = None
    last: Outcome | None = None
    """What the last request to the store raised, if it did."""

    def branch(self) -> _Performing:
        """That of a coroutine which this one spawns."""
        return _Performing(self.store, self.listener, self.remembering and self.remembering.branch())

    def perform(self, request: Request[Any]) -> Any:
        match request:
            case StoreRequest():
                try:
                    reply, self.last = self._performed(request), None
                except Outcome as outcome:
                    self.last = outcome
                    raise
                return reply
            case Sleep() if isinstance(self.last, Unreachable) and self.last.lasting:
                raise self.last
            case Recall():
                return self.remembering.recall(request) if self.remembering is not None else (None, request)
            case Remember():
                if self.remembering is not None:
                    self.remembering.remember(request)
            case Grew(what, more_bytes, of):
                if self.remembering is not None:
                    self.remembering.memory.grow(what, more_bytes, of)
            case Now():
                return int(time.time() * 1000)
            case Sleep(duration_ms):
                time.sleep(duration_ms / 1000)
                if self.remembering is not None:
                    self.remembering.pause()
            case RandomHex(digits):
                return os.urandom((digits + 1) // 2).hex()[:digits]
            case Note(event, fields):
                self.listener(event, dict(fields))
            case _:
                raise EngineBug(f"no driver knows the request {request!r}")
        return None

    def _performed(self, request: StoreRequest[Any]) -> Any:
        performing = self.remembering or self.store
        try:
            return performing.perform(request)
        except InvalidArgument:
            if isinstance(request, Open):
                return None
            if not isinstance(request, GetRanges):
                raise
            # A caller's own store may know neither: then the parts are asked for one by one.
            return b"".join([performing.perform(Get(request.path, *part)) for part in request.ranges])


@dataclass(slots=True)
class Meter:
    """Measures coroutines that are driven one after another: a store that counts, and a listener to plan nodes.

    Each request and each moment since it was made is charged to the node that is at work, and not to the nodes above
    it; ``total`` has those that are of no node, too.
    """

    store: Store
    listener: Listener = _no_listener
    """Hears the notes that are not of nodes."""
    total: Spent = Spent()
    _at_work: list[Metrics] = field(default_factory=list)
    _since_ns: int = field(default_factory=time.perf_counter_ns)

    def hear(self, event: str, fields: dict[str, object]) -> None:
        """A note of the coroutine."""
        if event == ENTERED:
            self.charge()
            self._at_work.append(of_note(fields))
            self._at_work[-1].ran = True
        elif event == LEFT:
            self.charge()
            if self._at_work.pop() is not of_note(fields):
                raise EngineBug("a node of a plan is done before one that it asked for rows")
        else:
            self.listener(event, fields)

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.charge()
        read = 0
        try:
            reply = self.store.perform(request)
            if isinstance(request, Get):
                read = len(reply[0] if isinstance(request, Stamped) else reply)
            return reply
        finally:
            self._spent(Spent(requests=1, bytes_read=read, elapsed_io_ns=self._lap()))

    def describe(self) -> str:
        return self.store.describe()

    def close(self) -> None:
        self.store.close()

    def charge(self) -> None:
        """Charge the time until now to the one that is at work."""
        self._spent(Spent(elapsed_compute_ns=self._lap()))

    def _spent(self, more: Spent) -> None:
        self.total += more
        if self._at_work:
            self._at_work[-1].spent += more

    def _lap(self) -> int:
        """Time since the last one, in ns."""
        before, self._since_ns = self._since_ns, time.perf_counter_ns()
        return self._since_ns - before


@dataclass(slots=True)
class _Spawned:
    """A coroutine that has a thread of its own."""

    thread: threading.Thread
    ended: bool = False
    result: Any = None
    failure: BaseException | None = None


class Threads:
    """The coroutines of one process, each run by a thread: that of its caller, or one of its own if it was spawned.

    What a coroutine does between two requests is a step under ``changed``, which is let go while a request is
    performed, and on which coroutines wait for each other. So they interleave as they do under the simulator's
    explorer. A thread of a spawned coroutine keeps the program from ending before it has ended, too.
    """

    def __init__(
        self,
        store: Store,
        listener: Listener = _no_listener,
        name: str = "memwal",
        memory: ReadMemory | None = None,
    ) -> None:
        """``name``: of the threads of spawned coroutines. ``memory``: as `drive` takes it."""
        self._lock = threading.Lock()
        self.changed = threading.Condition(self._lock)
        """Held while looking at what the coroutines share; notified after every step."""
        self._store, self._listener, self._name, self._memory = store, listener, name, memory
        self._spawned: dict[int, _Spawned] = {}
        self._count = 0
        self._waiting = 0

    def run(self, coroutine: Protocol[T]) -> T:
        """Run a coroutine to its end; returns its result or raises its error.

        Whatever is raised in a request, an interruption too, is raised in the coroutine.
        """
        return self._run(coroutine, _performing(self._store, self._listener, self._memory))

    def _run(self, coroutine: Protocol[T], performing: _Performing) -> T:
        reply: Any = None
        failure: BaseException | None = None
        try:
            while True:
                notes: list[Note] = []
                try:
                    with self._lock:  # that of ``changed``, in less time
                        request = self._step(coroutine, reply, failure, performing, notes)
                finally:
                    for note in notes:
                        performing.perform(note)
                reply, failure = None, None
                try:
                    reply = performing.perform(request)
                except BaseException as raised:  # noqa: BLE001 - it is passed on to the coroutine
                    failure = raised
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except BaseException:
            with self.changed:
                coroutine.close()  # of no effect where it has ended in what is raised
                self.changed.notify_all()
            raise

    def _step(
        self,
        coroutine: Protocol[Any],
        reply: Any,
        failure: BaseException | None,
        performing: _Performing,
        notes: list[Note],
    ) -> Any:
        """Run to the next request during which others may run; the caller holds ``changed``."""
        while True:
            try:
                request = coroutine.throw(failure) if failure is not None else coroutine.send(reply)
            finally:
                if self._waiting:
                    self.changed.notify_all()
            reply, failure = None, None
            try:
                match request:
                    case StoreRequest() | Sleep() | Recall():
                        return request
                    case Note():
                        notes.append(request)
                    case Spawn(start):
                        reply = self._spawn(start, performing.branch())
                    case Join(task):
                        reply = self._join(task)
                    case Busy():
                        reply = 1 + sum(not each.ended for each in self._spawned.values()) - self._waiting
                    case Until():
                        reply = self._wait(request)
                    case _:
                        reply = performing.perform(request)
            except BaseException as raised:  # noqa: BLE001 - it is passed on to the coroutine
                failure = raised

    def _spawn(self, start: Callable[[], Protocol[T]], performing: _Performing) -> Task[T]:
        self._count += 1
        work = self._count, start, performing
        thread = threading.Thread(target=self._work, args=work, name=self._name, daemon=False)
        self._spawned[self._count] = _Spawned(thread)
        thread.start()
        return Task(self._count)

    def _work(self, number: int, start: Callable[[], Protocol[Any]], performing: _Performing) -> None:
        spawned = self._spawned[number]
        try:
            spawned.result = self._run(start(), performing)
        except BaseException as failure:  # noqa: BLE001 - it is passed on, to the coroutine that joins
            spawned.failure = failure
        with self.changed:
            spawned.ended = True
            self.changed.notify_all()

    def _join(self, task: Task[T]) -> T:
        spawned = self._spawned[task.number]
        while not spawned.ended:
            self._sleep(None)
        del self._spawned[task.number]
        spawned.thread.join()
        if spawned.failure is not None:
            raise spawned.failure
        return spawned.result  # type: ignore[no-any-return]

    def _wait(self, request: Until) -> bool:
        ends = None if request.timeout_ms is None else time.monotonic() + request.timeout_ms / 1000
        while not request.holds():
            if ends is None:
                self._sleep(None)
                continue
            left = ends - time.monotonic()
            if left <= 0:
                return True
            if not threading.main_thread().is_alive():
                return False
            self._sleep(min(left, LOOK_S))
        return True

    def _sleep(self, timeout_s: float | None) -> None:
        """Let others run until one of them has made a step."""
        self._waiting += 1
        try:
            self.changed.wait(timeout_s)
        finally:
            self._waiting -= 1
