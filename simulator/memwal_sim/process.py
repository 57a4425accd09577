"""A protocol coroutine under simulation, and the answers that it gets without the store.

Time, randomness and sleep are functions of the process's name and of how often it asked, so that the same replies
always lead to the same next request.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import PurePath
from types import CoroutineType
from typing import Any

from memwal import effects
from memwal.effects import Note, Now, Protocol, RandomHex, Request, Sleep, StoreRequest
from memwal.errors import ArtifactError, EngineBug, InvalidArgument, Outcome
from memwal.ids import Milliseconds

from .fingerprint import fingerprint
from .store import Contents, Raised, Reply, perform

EPOCH_MS = Milliseconds(1_700_000_000_000)
"""What a process's clock shows first; each look at it is one millisecond later than the last."""
ENGINE_CLAUSE = "ENGINE"
"""In place of a clause of the specification: code of ours failed."""
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


def deferred(notes: tuple[Note, ...]) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """Notes made between a reply and the next request: those that happened with the reply, and those that come later.

    An operation begins as late as it can, with its first request: a client that waits before it calls is no other
    history, and intervals that are as short as can be order the most. So announcements at the end wait for the request.
    """
    told = len(notes)
    while told and notes[told - 1].event.endswith(INVOKED):
        told -= 1
    return notes[:told], notes[told:]


class Running:
    """A started process. Not thread-safe, and of no use after its end."""

    __slots__ = ("_coroutine", "_looks", "_name", "_rolls", "notes", "pause")

    def __init__(self, process: Process) -> None:
        self._name = process.name
        self._coroutine = process.start()
        self._looks = 0
        self._rolls = 0
        self.notes: tuple[Note, ...] = ()
        """Notes made since the last reply, in order; replaced by `resume`."""
        self.pause: Pause = Ended()
        """The request that waits, or the end; replaced by `resume`."""
        self._advance(None, None)

    def resume(self, reply: Reply) -> Pause:
        """Hand ``reply`` to the waiting request; returns where the process stands then."""
        if isinstance(self.pause, Ended):
            raise EngineBug(f"{self._name} has ended and cannot take a reply")
        if isinstance(reply, Raised):
            self._advance(None, reply.error())
        else:
            self._advance(reply.value, None)
        return self.pause

    def site(self) -> str:
        """Qualified name of the protocol function that waits, such as ``region.claim.claim``; empty at the end."""
        coroutine: Any = self._coroutine
        site = ""
        while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
            module = coroutine.cr_frame.f_globals["__name__"]
            if module == effects.__name__:
                break
            site = f"{module}.{coroutine.__qualname__}"
            coroutine = coroutine.cr_await
        return site.removeprefix("memwal.")

    def fingerprint(self, heard: Container[str] | None = None) -> bytes:
        """16 bytes that are equal for processes that go on alike; raises `memwal_sim.fingerprint.Unknown`.

        ``heard``: the events of notes that anybody listens to; None: all.
        """
        notes = [note for note in self.notes if heard is None or note.event in heard]
        return fingerprint(self._coroutine, self._looks, self._rolls, notes, self.pause)

    def close(self) -> None:
        """Let go of the coroutine where it stands."""
        self._coroutine.close()

    def _advance(self, value: Any, error: Exception | None) -> None:
        self.notes = ()
        for _ in range(LOCAL_LIMIT):
            try:
                request = self._coroutine.throw(error) if error is not None else self._coroutine.send(value)
            except StopIteration as stop:
                self.pause = Ended(stop.value)
                return
            except Exception as failure:  # noqa: BLE001 - where the code under test ends: its crash is a finding
                self.pause = Ended(failure=_failure(failure))
                return
            if isinstance(request, StoreRequest):
                self.pause = request
                return
            value, error = self._local(request), None
        reason = f"{LOCAL_LIMIT} requests in a row without one to the store"
        self.pause = Ended(failure=Failure("EndlessLoop", reason, expected=False))

    def _local(self, request: Request[Any]) -> object:
        match request:
            case Note():
                self.notes += (request,)
                return None
            case Sleep():
                return None
            case Now():
                self._looks += 1
                return Milliseconds(EPOCH_MS + self._looks - 1)
            case RandomHex(digits=digits):
                self._rolls += 1
                return _random_hex(f"{self._name}/{self._rolls}", digits)
        raise EngineBug(f"the simulator does not know the request {request!r}")


def _random_hex(seed: str, digits: int) -> str:
    blocks = (blake2b(f"{seed}/{block}".encode()).hexdigest() for block in range(-(-digits // _HEX_BLOCK)))
    return "".join(blocks)[:digits]


def _failure(error: Exception) -> Failure:
    if isinstance(error, (Outcome, InvalidArgument)):
        return Failure(type(error).__name__, str(error), expected=True)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(last.filename).name}:{last.lineno} in {last.name}"
    clause = error.clause if isinstance(error, ArtifactError) else ENGINE_CLAUSE
    return Failure(type(error).__name__, f"{error} ({where})", expected=False, clause=clause)


@dataclass(frozen=True, slots=True)
class Alone:
    """What a process did that ran to its end with nobody else and without faults."""

    contents: Contents
    end: Ended
    notes: tuple[Note, ...]


def run_alone(process: Process, contents: Contents) -> Alone:
    """Run ``process`` on ``contents`` to its end. Raises `EngineBug` if it makes more than `STORE_LIMIT` requests."""
    running = Running(process)
    notes = running.notes
    for _ in range(STORE_LIMIT):
        if isinstance(running.pause, Ended):
            return Alone(contents, running.pause, notes)
        contents, reply = perform(contents, running.pause)
        running.resume(reply)
        notes += running.notes
    running.close()
    raise EngineBug(f"{process.name} did not end within {STORE_LIMIT} requests")
