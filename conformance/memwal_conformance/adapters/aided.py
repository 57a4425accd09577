"""An adapter process with another one beside it, which plays the jobs that the adapter does not claim.

To the runner of a case both are one actor: the helper has the same store and the same key, and dies with the adapter.
What it does is its own, so that it counts for no role of the implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..protocol import AdapterError, Hello, Json, ProtocolViolation, messages
from .process import AdapterCrash, AdapterProcess, AdapterTimeout

JOBS = ("merger", "index_builder", "collector")
"""Roles that another may play: jobs, which have nothing open between messages."""


class HelperRefused(AdapterError):
    """The helper did not do what it was asked for: which of the two is at fault is not known."""


def lent(own: Hello, jobs: Sequence[str]) -> Hello:
    """What an adapter says of itself, with those of ``jobs`` that another plays in its place."""
    return replace(own, lent=tuple(role for role in jobs if role not in own.roles))


class AidedProcess(AdapterProcess):
    """An adapter process and, as soon as a message needs one, its helper."""

    def __init__(self, *given: Any, launch: Callable[[str], AdapterProcess], **named: Any) -> None:
        """``launch`` starts a helper for an actor; the rest is that of `AdapterProcess`."""
        super().__init__(*given, **named)
        self._launch = launch
        self._helper: AdapterProcess | None = None
        self._configured: Json = {}
        self._struck = False

    def call(self, message: str, params: Json) -> Json:
        """As `AdapterProcess.call`; what the adapter does not claim, of roles that are lent, goes to the helper.

        Raises `HelperRefused` for an error reply of the helper, and `ProtocolViolation` if that breaks down.
        """
        if message == "configure":
            self._configured = {name: value for name, value in params.items() if name != "trace"} | {"settings": {}}
            answer = super().call(message, params)
            if self._helper is not None:
                self._helper.call(message, self._configured)
            return answer
        if self.hello is None or self.hello.answers(message) or messages()[message].role not in JOBS:
            return super().call(message, params)
        try:
            return self._ready().call(message, params)
        except AdapterError as error:
            raise HelperRefused(error.kind, f"by the helper of {self.actor}: {error.native}") from error
        except (AdapterCrash, AdapterTimeout) as error:
            if self._struck:
                raise
            raise ProtocolViolation(f"the helper of {self.actor} broke down: {error}") from error

    def _ready(self) -> AdapterProcess:
        if self._helper is None:
            self._helper = self._launch(self.actor)
            self._helper.greet()
            self._helper.call("configure", self._configured)
        self._helper.actor = self.actor
        return self._helper

    def strike(self) -> None:
        """As `AdapterProcess.strike`, both."""
        self._struck = True
        if self._helper is not None:
            self._helper.strike()
        super().strike()

    def kill(self) -> bool:
        """As `AdapterProcess.kill`, both."""
        if self._helper is not None:
            self._struck = True
            self._helper.kill()
        return super().kill()

    def end(self) -> None:
        """As `AdapterProcess.end`, both."""
        if self._helper is not None:
            self._helper.end()
        super().end()
