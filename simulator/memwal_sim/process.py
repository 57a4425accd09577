"""Protocol coroutines of one process under simulation, and the answers that they get without the store.

Time, randomness and sleep are functions of the process's name and of how often it asked, so that the same replies
always lead to the same next request.

A process of several coroutines is one history, too. Of those that can run, the first is asked for its request, and
`SWITCHED` is the reply that lets the next one run instead; after each step the first one is asked again.
What a coroutine waits for besides the store is the request `GO_ON`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import PurePath
from types import CoroutineType
from typing import Any

from memwal import coroutines, effects
from memwal.effects import (
    Busy,
    Join,
    Note,
    Now,
    Protocol,
    RandomHex,
    Request,
    Sleep,
    Spawn,
    StoreRequest,
    Task,
    Until,
)
from memwal.errors import ArtifactError, EngineBug, InvalidArgument, Outcome
from memwal.ids import Milliseconds
from memwal.stores.memory import Raised, Reply

from .fingerprint import fingerprint
from .outcomes import ENGINE_CLAUSE
from .store import GO_ON, SWITCHED, Contents, perform

EPOCH_MS = Milliseconds(1_700_000_000_000)
"""What a process's clock shows first; each look at it is one millisecond later than the last."""
LOCAL_LIMIT = 10_000
"""Requests in a row that are not to the store; more of them are an endless loop."""
STORE_LIMIT = 10_000
"""Requests to the store of a process that runs alone; more of them are an endless loop."""

_HEX_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Process:
    """One actor: a name, unique in its scenario, and how to start its protocol from the beginning."""

    name: str
    start: Callable[[], Protocol[Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """How a process failed, as a value."""

    kind: str
    """Class name of the error: ``Fenced``, ``ArtifactError``, …"""
    text: str
    """What the error says."""
    expected: bool
    """It is an `Outcome` or an `InvalidArgument`, not a broken artifact or a bug of the engine."""
    clause: str = ENGINE_CLAUSE
    """What an `ArtifactError` says is broken; `ENGINE_CLAUSE` for all else."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: its result, or its failure."""

    result: object = None
    failure: Failure | None = None


Pause = StoreRequest[Any] | Ended
"""Where a process stands: waiting for the store, or at its end."""


INVOKED = "_invoked"
"""Suffix of events that announce an operation."""


def _deferred(notes: tuple[Note, ...]) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """Notes made between a reply and the next request: those that happened with the reply, and those that come later.

    An operation begins as late as it can, with its first request: a client that waits before it calls is no other
    history, and intervals that are as short as can be order the most. So announcements at the end wait for the request.
    Not so where a process has several coroutines: another one may act on what the operation has done in memory already.
    """
    told = len(notes)
    while told and notes[told - 1].event.endswith(INVOKED):
        told -= 1
    return notes[:told], notes[told:]


_BEGIN = Sleep(Milliseconds(0))
"""What a coroutine waits for that was spawned and has not begun."""


@dataclass(slots=True)
class _Coroutine:
    """One coroutine of a process."""

    start: Callable[[], Protocol[Any]]
    waits_for: Request[Any] | None = _BEGIN
    """None at its end."""
    runs: Protocol[Any] | None = None
    """None before its beginning: what is not there need not be closed, in whatever order Python takes things down."""
    result: object = None
    error: Exception | None = None
    joined: bool = False

    def begun(self) -> Protocol[Any]:
        self.runs = self.runs or self.start()
        return self.runs

    @contextmanager
    def standing(self) -> Iterator[Protocol[Any]]:
        """The coroutine, to be looked at where it stands; one that has not begun is there for as long as that."""
        runs = self.runs or self.start()
        try:
            yield runs
        finally:
            if self.runs is None:
                runs.close()

    def close(self) -> None:
        if self.runs is not None:
            self.runs.close()


class Running:
    """A started process. Not thread-safe, and of no use after its end."""

    __slots__ = ("_all", "_front", "_looks", "_name", "_rolls", "announced", "notes", "pause", "switches")

    def __init__(self, process: Process) -> None:
        self._name = process.name
        self._all = [_Coroutine(process.start)]
        self._front = 0
        """Number of the coroutine that is asked."""
        self._looks = 0
        self._rolls = 0
        self.notes: tuple[Note, ...] = ()
        """Notes made since the last reply, in order, without those in ``announced``; replaced by `resume`."""
        self.announced: tuple[Note, ...] = ()
        """Notes that follow them and happen with the next request, see `_deferred`; replaced by `resume`."""
        self.pause: Pause = Ended()
        """The request that waits, or the end; replaced by `resume`."""
        self.switches = False
        """Whether another coroutine can run instead, by the reply `SWITCHED`; replaced by `resume`."""
        self._advance(self._all[0], None, None)

    def resume(self, reply: Reply) -> Pause:
        """Hand ``reply`` to the waiting request; returns where the process stands then."""
        if isinstance(self.pause, Ended):
            raise EngineBug(f"{self._name} has ended and cannot take a reply")
        current = self._all[self._front]
        if reply is SWITCHED:
            self.notes = self.announced = ()
            self._stand(self._front + 1)
        elif isinstance(reply, Raised):
            self._advance(current, None, reply.error())
        elif self.pause is GO_ON:
            self._advance(current, *self._awaited(current.waits_for))
        else:
            self._advance(current, reply.value, None)
        return self.pause

    def site(self) -> str:
        """Qualified name of the protocol function that waits, such as ``region.claim.claim``; empty at the end.

        A function inside of another one goes by the name of the outer one.
        """
        site = ""
        with self._all[self._front].standing() as runs:
            coroutine: Any = runs
            while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
                module = coroutine.cr_frame.f_globals["__name__"]
                if module == effects.__name__:
                    break
                if module != coroutines.__name__:  # what only waits or spawns is no protocol function
                    site = f"{module}.{coroutine.__qualname__.partition('.<locals>')[0]}"
                coroutine = coroutine.cr_await
        return site.removeprefix("memwal.")

    def fingerprint(self, heard: Container[str] | None = None) -> bytes:
        """16 bytes that are equal for processes that continue alike; raises `memwal_sim.fingerprint.Unknown`.

        ``heard``: the events of notes that are listened to; None: all.
        """
        notes = [note for note in (*self.notes, *self.announced) if heard is None or note.event in heard]
        with ExitStack() as looking:
            standing = [looking.enter_context(each.standing()) for each in self._all]
            more: list[object] = [
                (runs, each.waits_for, each.result, each.error, each.joined)
                for runs, each in zip(standing, self._all, strict=True)
                if len(self._all) > 1
            ]
            front = [self._front, more] if more else []
            return fingerprint(standing[0], self._looks, self._rolls, notes, self.pause, *front)

    def close(self) -> None:
        """Let go of the coroutines where they stand."""
        for each in self._all:
            each.close()

    def _advance(self, current: _Coroutine, value: Any, error: Exception | None) -> None:
        """Run ``current`` to its next request during which others may run, or to its end."""
        notes: tuple[Note, ...] = ()
        runs = current.begun()
        for _ in range(LOCAL_LIMIT):
            try:
                request = runs.throw(error) if error is not None else runs.send(value)
            except StopIteration as stop:
                current.waits_for, current.result = None, stop.value
                break
            except Exception as failure:  # noqa: BLE001 - where the code under test ends: its crash is a finding
                current.waits_for, current.error = None, failure
                if _is_expected(failure):
                    failure.__traceback__ = None  # leads back here, and a circle is not taken down in order
                break
            if isinstance(request, Note):
                notes, value, error = (*notes, request), None, None
            elif self._lets_others_on(current, request):
                current.waits_for = request
                break
            else:
                value, error = self._local(request)
        else:
            reason = f"{LOCAL_LIMIT} requests in a row without one to the store"
            current.waits_for, current.error = None, _EndlessLoop(reason)
        self.notes, self.announced = _deferred(notes) if len(self._all) == 1 else (notes, ())
        self._stand(0)

    def _stand(self, first: int) -> None:
        """Ask the first that can run, from number ``first`` on."""
        able = [number for number, each in enumerate(self._all) if number >= first and self._can_go_on(each)]
        broken = next(
            (each.error for each in self._all if each.error is not None and not _is_expected(each.error)), None
        )
        self.switches = len(able) > 1
        if broken is not None:
            self.pause, self.switches = Ended(failure=_failure(broken)), False
            self.close()
        elif able:
            self._front = able[0]
            current = self._all[able[0]]
            self.pause = current.waits_for if isinstance(current.waits_for, StoreRequest) else GO_ON
        else:
            self.pause = self._end()
            self.close()

    def _can_go_on(self, each: _Coroutine) -> bool:
        match each.waits_for:
            case None:
                return False
            case Until(holds, timeout_ms):
                return timeout_ms is not None or holds()
            case Join(task):
                return self._all[task.number].waits_for is None
        return True

    def _end(self) -> Ended:
        if any(each.waits_for is not None for each in self._all):
            return Ended(failure=Failure("Deadlock", "its coroutines wait for each other", expected=False))
        failed = next((each for each in self._all if each.error is not None and not each.joined), None)
        if failed is not None and failed.error is not None:
            return Ended(failure=_failure(failed.error))
        return Ended(self._all[0].result)

    def _lets_others_on(self, current: _Coroutine, request: Request[Any]) -> bool:
        match request:
            case StoreRequest():
                return True
            case Sleep():
                return any(each.waits_for is not None for each in self._all if each is not current)
            case Until(holds):
                return not holds()
            case Join(task):
                return self._all[task.number].waits_for is not None
        return False

    def _local(self, request: Request[Any]) -> tuple[object, Exception | None]:
        match request:
            case Now():
                self._looks += 1
                return Milliseconds(EPOCH_MS + self._looks - 1), None
            case RandomHex(digits=digits):
                self._rolls += 1
                return _random_hex(f"{self._name}/{self._rolls}", digits), None
            case Spawn(start):
                self._all.append(_Coroutine(start))
                return Task(len(self._all) - 1), None
            case Busy():
                others = (each.waits_for for number, each in enumerate(self._all) if number != self._front)
                return 1 + sum(not isinstance(each, Join | Until | None) for each in others), None
        return self._awaited(request)

    def _awaited(self, request: Request[Any] | None) -> tuple[object, Exception | None]:
        """What a request that is none to the store gives once it need not wait."""
        match request:
            case Sleep():
                return None, None
            case Until():
                return True, None
            case Join(task):
                joined = self._all[task.number]
                joined.joined = True
                return joined.result, joined.error
        raise EngineBug(f"the simulator does not know the request {request!r}")


class _EndlessLoop(Exception):
    """A coroutine asks for things without end, and none of them is in the store."""


def _random_hex(seed: str, digits: int) -> str:
    blocks = (blake2b(f"{seed}/{block}".encode()).hexdigest() for block in range(-(-digits // _HEX_BLOCK)))
    return "".join(blocks)[:digits]


def _is_expected(error: Exception) -> bool:
    return isinstance(error, (Outcome, InvalidArgument))


def _failure(error: Exception) -> Failure:
    if _is_expected(error):
        return Failure(type(error).__name__, str(error), expected=True)
    if isinstance(error, _EndlessLoop):
        return Failure("EndlessLoop", str(error), expected=False)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(last.filename).name}:{last.lineno} in {last.name}"
    clause = error.clause if isinstance(error, ArtifactError) else ENGINE_CLAUSE
    return Failure(type(error).__name__, f"{error} ({where})", expected=False, clause=clause)


@dataclass(frozen=True, slots=True)
class Alone:
    """What a process did that ran to its end alone and without faults."""

    contents: Contents
    end: Ended
    notes: tuple[Note, ...]


def run_alone(process: Process, contents: Contents) -> Alone:
    """Run ``process`` on ``contents`` to its end. Raises `EngineBug` if it makes more than `STORE_LIMIT` requests."""
    running = Running(process)
    notes = running.notes
    for _ in range(STORE_LIMIT):
        if isinstance(running.pause, Ended):
            return Alone(contents, running.pause, (*notes, *running.announced))
        contents, reply = perform(contents, running.pause)
        notes += running.announced
        running.resume(reply)
        notes += running.notes
    running.close()
    raise EngineBug(f"{process.name} did not end within {STORE_LIMIT} requests")
