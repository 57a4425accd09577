"""One message under way to an adapter process, while others run."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ..protocol import Json

LAST = ("writer.flush_memtable", "writer.close")
"""Messages by which a fenced writer learns of it at last."""


class Killed(Exception):
    """The process was killed by a rule before it answered."""


class Answers(Protocol):
    """What answers messages: `memwal_conformance.adapters.process.AdapterProcess`, or something like it."""

    def call(self, message: str, params: Json) -> Json:
        """Send one request and wait for its result."""

    def kill(self) -> bool:
        """End it by force; whether it was running until then."""


class PendingCall:
    """A message that was sent, in a thread that waits for its answer."""

    def __init__(self, process: Answers, message: str, params: Json, logged: int = 0) -> None:
        """``logged``: how many requests the gate has logged until now."""
        self.message, self.logged = message, logged
        self._answer: Future[Json] = Future()
        self._process, self._params = process, params
        self._thread = threading.Thread(target=self._run, name=f"memwal-{message}", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether there is an answer, or never will be."""
        return self._answer.done()

    def result(self) -> Json:
        """Wait for the answer; raises what `AdapterProcess.call` raises, or `Killed`."""
        return self._answer.result()

    def when_over(self, news: threading.Event) -> None:
        """Set ``news`` when the answer is there."""
        self._answer.add_done_callback(lambda _: news.set())

    def abandon(self) -> None:
        """There will be no answer: a waiting caller gets `Killed`."""
        with suppress(InvalidStateError):
            self._answer.set_exception(Killed())

    def ended(self, limit_s: float) -> None:
        """Wait until the thread has noted what came of the message; at most ``limit_s``."""
        self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            result = self._process.call(self.message, self._params)
        except Exception as error:  # noqa: BLE001 - raised where the answer is asked for
            with suppress(InvalidStateError):
                self._answer.set_exception(error)
        else:
            with suppress(InvalidStateError):
                self._answer.set_result(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message whose answer is still to be looked at."""

    step: Json
    params: Json
    call: PendingCall | None
    """None: the answer is waited for at once, without the gate."""
    overtaken: bool = False
    """Whether another writer had claimed the region of its writer when it was sent, by an open without an answer."""

    @property
    def actor(self) -> str:
        """The actor that it was sent to."""
        return str(self.step["actor"])

    @property
    def learns(self) -> bool:
        """Whether a fenced writer would learn of it by this message, and may."""
        return self.step["send"] in LAST and "fenced" in self.step.get("may_fail", ())
