"""An adapter process with another one beside it, which plays the jobs that the adapter does not claim.

To the runner of a case both are one actor: the helper has the same store and the same key, and dies with the adapter.
What it does is its own, so that it counts for no role of the implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from ..protocol import AdapterError, Hello, Json, ProtocolViolation, messages
from .process import AdapterCrash, AdapterProcess, AdapterTimeout

JOBS = ("merger", "index_builder", "collector")
"""Roles of an implementation that another may play: jobs, which have nothing open between messages."""
BASE_WRITER = "base_writer"
"""The role that the suite plays for every implementation."""


Command = tuple[str, ...]
"""How an adapter is started."""


class HelperRefused(AdapterError):
    """The helper did not do what it was asked for: which of the two is at fault is not known."""


def lent(own: Hello, players: Mapping[str, Command], cannot: Mapping[Command, Collection[str]]) -> Hello:
    """What an adapter says of itself, with the roles of which it claims nothing and another plays them.

    ``players``: role -> command of its player; ``cannot``: that -> `Hello.unplayed`.
    """
    roles = tuple(role for role in players if role not in own.claimed)
    unplayed = [
        each
        for role in roles
        for each in cannot.get(players[role], ())
        if messages()[each.partition(" ")[0]].role == role
    ]
    return replace(own, lent=roles, unplayed=tuple(unplayed))


class AidedProcess(AdapterProcess):
    """An adapter process and, as soon as a message needs one, a helper beside it."""

    def __init__(
        self,
        *given: Any,
        players: Mapping[str, Command],
        launch: Callable[[Command, str], AdapterProcess],
        **named: Any,
    ) -> None:
        """``players``: role -> the command of its helper, which ``launch`` starts for an actor.

        The rest is that of `AdapterProcess`.
        """
        super().__init__(*given, **named)
        self._players, self._launch = players, launch
        self._helpers: dict[Command, AdapterProcess] = {}
        self._configured: Json = {}
        self._struck = False
        self._to_end_itself = False
        """Whether ``sync.crash`` was asked for: whichever of the processes changes the store ends."""

    def call(self, message: str, params: Json) -> Json:
        """As `AdapterProcess.call`; what the adapter does not claim, of roles that are lent, goes to the helper.

        Raises `HelperRefused` for an error reply of the helper, and `ProtocolViolation` if that breaks down.
        """
        if message == "configure":
            self._to_end_itself = False
            self._configured = {name: value for name, value in params.items() if name != "trace"} | {"settings": {}}
            answer = super().call(message, params)
            for helper in self._helpers.values():
                helper.call(message, self._configured)
            return answer
        if message == "sync.crash":
            self._to_end_itself = True
            for command in dict.fromkeys(self._players.values()):
                self._ready(command).call(message, params)
        role = messages()[message].role
        if self.hello is None or role in self.hello.claimed or role not in self._players:
            return super().call(message, params)
        try:
            return self._ready(self._players[role]).call(message, params)
        except AdapterError as error:
            raise HelperRefused(error.kind, f"by the helper of {self.actor}: {error.native}") from error
        except AdapterTimeout:
            self.kill()  # the actor is both
            raise
        except AdapterCrash as error:
            if self._to_end_itself:
                self.kill()  # the actor is both
                raise
            if self._struck:
                raise
            raise ProtocolViolation(f"the helper of {self.actor} broke down: {error}") from error

    def _ready(self, command: Command) -> AdapterProcess:
        if command not in self._helpers:
            self._helpers[command] = helper = self._launch(command, self.actor)
            helper.greet()
            helper.call("configure", self._configured)
        self._helpers[command].actor = self.actor
        return self._helpers[command]

    def strike(self) -> None:
        """As `AdapterProcess.strike`, all of them."""
        self._struck = True
        for helper in self._helpers.values():
            helper.strike()
        super().strike()

    def kill(self) -> bool:
        """As `AdapterProcess.kill`, all of them."""
        for helper in self._helpers.values():
            self._struck = True
            helper.kill()
        return super().kill()

    def end(self) -> None:
        """As `AdapterProcess.end`, all of them."""
        for helper in self._helpers.values():
            helper.end()
        super().end()
