"""Adapter processes of a test run: how they are started, which are shared, and what a run is configured with."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memwal.errors import InvalidArgument, check_name

from ..protocol import AdapterError, Hello, Json, ProtocolViolation
from . import versions
from .aided import BASE_WRITER, JOBS, AidedProcess, Command, lent
from .process import AdapterProcess, Exchange

REFERENCE = (sys.executable, "-m", "memwal_conformance.adapters.reference")
"""Command of the reference adapter."""
SUITE = (sys.executable, "-m", "memwal_conformance.adapters.suite_roles")
"""Command of the suite's own roles."""
NO_PLAYER, PLAYERS = "none", {"suite": SUITE, "reference": REFERENCE}
"""What ``--roles-by`` takes: no player at all, or one of these, each with its command."""
UNPLAYED: Mapping[Command, tuple[str, ...]] = {SUITE: ("snapshot.run R",)}
"""Player -> messages that it cannot answer under a revision: no text says what a region snapshot of R looks like."""


def command_of(adapter: str, version: str | None = None) -> Command:
    """The command behind an adapter's name; any other text is a command. ``version``: of the native package.

    Raises `InvalidArgument` if there is none.
    """
    if adapter == "reference":
        return REFERENCE
    if adapter == versions.NAME:
        try:
            return versions.command(version)
        except versions.NotInstalled as error:
            raise InvalidArgument(str(error)) from error
    try:
        words = tuple(shlex.split(adapter))
    except ValueError as error:
        raise InvalidArgument(f"the adapter {adapter!r} is not a command: {str(error).lower()}") from error
    if not words:
        raise InvalidArgument("the command of the adapter is empty: write reference, native or a command")
    return words


def players(who: str) -> dict[str, Command]:
    """Role -> the command of the adapter that plays it where the one under test does not claim it.

    The base writer is the suite's wherever roles are played. Raises `InvalidArgument`.
    """
    check_name("player of roles", who, [NO_PLAYER, *PLAYERS])
    return {**dict.fromkeys(JOBS, PLAYERS[who]), BASE_WRITER: SUITE} if who != NO_PLAYER else {}


NOWHERE = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}
"""Environment of an adapter process: a client that ignores where its store is gets nowhere. Port 9 is `discard`."""


def import_path() -> str:
    """``PYTHONPATH`` of an adapter process, so that the adapters shipped here run under any interpreter."""
    here = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


@dataclass(slots=True)
class Harness:
    """The adapter under test. Close it: it may hold processes."""

    command: tuple[str, ...]
    limit_s: float
    settings: Mapping[str, str]
    log: Callable[[Exchange], None] | None = None
    roles_by: Mapping[str, Command] = field(default_factory=dict)
    """Role -> the command of an adapter that plays it where the one under test does not claim it."""
    trace: bool = False
    """Whether adapters that can are to tell of their requests to the store."""
    start_s: float | None = None
    """How long a process may take to start and say hello; None: as long as any message."""
    _hello: Hello | None = None
    _idle: list[AdapterProcess] = field(default_factory=list)
    """Processes that said hello and have nothing to do."""
    _shared: AdapterProcess | None = None
    _shared_revision: str = ""

    def hello(self) -> Hello:
        """What the adapter says about itself; asked once.

        Raises `AdapterMissing`, or what `AdapterProcess.call` raises.
        """
        if self._hello is None:
            process = self._launch("hello")
            self._hello = self._greeted(process).hello
            self._idle.append(process)
        assert self._hello is not None
        return lent(self._hello, self.roles_by, UNPLAYED)

    def actor(self, name: str, revision: str) -> AdapterProcess:
        """A configured process with nothing open: an idle one, or a new one."""
        process = self._idle.pop() if self._idle else self._greeted(self._launch(name))
        process.actor = name
        self._configure(process, revision)
        return process

    def finish(self, process: AdapterProcess) -> None:
        """Take a process back that kept to the protocol; it will be configured anew."""
        self._idle.append(process)

    def shared(self, revision: str) -> AdapterProcess:
        """The process that answers vectors: kept while it lives, configured anew when the revision changes."""
        if self._shared is None or not self._shared.alive:
            self._shared = self.actor("vectors", revision)
        elif self._shared_revision != revision:
            self._configure(self._shared, revision)
        self._shared_revision = revision
        return self._shared

    def close(self) -> None:
        """End every process that this harness has started and that is not with a scenario."""
        for process in [*self._idle, self._shared]:
            if process is not None:
                process.end()
        self._idle.clear()
        self._shared = None

    def _greeted(self, process: AdapterProcess) -> AdapterProcess:
        hello = process.greet(self.start_s)
        if self._hello is not None and hello != self._hello:
            process.kill()
            raise ProtocolViolation("the adapter describes itself differently than at its first start")
        return process

    def _configure(self, process: AdapterProcess, revision: str) -> None:
        asked: Json = {"revision": revision, "settings": dict(self.settings)}
        if self.trace and process.hello is not None and "trace" in process.hello.capabilities:
            asked["trace"] = True
        try:
            process.call("configure", asked)
        except AdapterError:
            process.kill()
            raise

    def _launch(self, name: str) -> AdapterProcess:
        environment = {**os.environ, **NOWHERE, "PYTHONPATH": import_path()}

        def plain(command: tuple[str, ...], actor: str) -> AdapterProcess:
            return AdapterProcess(command, actor=actor, limit_s=self.limit_s, environment=environment, log=self.log)

        if not self.roles_by:
            return plain(self.command, name)
        return AidedProcess(
            self.command,
            actor=name,
            limit_s=self.limit_s,
            environment=environment,
            log=self.log,
            players=self.roles_by,
            launch=plain,
        )
