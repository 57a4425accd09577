"""Adapter processes of a test run: how they are started, which are shared, and what a run is configured with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .adapters.process import AdapterProcess, Exchange
from .protocol import Hello, ProtocolViolation

REFERENCE = (sys.executable, "-m", "memwal_conformance.adapters.reference")
"""Command of the reference adapter."""


@dataclass(slots=True)
class Harness:
    """The adapter under test. Close it: it may hold processes."""

    command: tuple[str, ...]
    limit_s: float
    settings: Mapping[str, str]
    log: Callable[[Exchange], None] | None = None
    _hello: Hello | None = None
    _spare: AdapterProcess | None = None
    _shared: AdapterProcess | None = None
    _shared_revision: str = field(default="")

    def hello(self) -> Hello:
        """What the adapter says about itself; asked once.

        Raises `AdapterMissing`, or what `AdapterProcess.call` raises.
        """
        if self._hello is None:
            process = self._launch("hello")
            try:
                self._hello = process.greet()
            except BaseException:
                process.kill()
                raise
            self._spare = process
        return self._hello

    def actor(self, name: str, revision: str) -> AdapterProcess:
        """A fresh configured process. The next one is launched at once, so that its start-up overlaps with this one."""
        process, self._spare = self._spare or self._launch(name), None
        process.actor = name
        try:
            if process.hello is None and process.greet() != self._hello:
                raise ProtocolViolation("the adapter says something else about itself than at its first start")
            process.call("configure", {"revision": revision, "settings": dict(self.settings)})
        except BaseException:
            process.kill()
            raise
        self._spare = self._launch("spare")
        return process

    def shared(self, revision: str) -> AdapterProcess:
        """The process that answers vectors: kept while it lives, configured anew when the revision changes."""
        if self._shared is None or not self._shared.alive:
            self._shared = self.actor("vectors", revision)
        elif self._shared_revision != revision:
            self._shared.call("configure", {"revision": revision, "settings": dict(self.settings)})
        self._shared_revision = revision
        return self._shared

    def close(self) -> None:
        """End every process that is not an actor of a scenario."""
        if self._shared is not None:
            self._shared.end()
        if self._spare is not None:
            self._spare.kill()
        self._shared = self._spare = None

    def _launch(self, name: str) -> AdapterProcess:
        here = str(Path(__file__).resolve().parent.parent)
        paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return AdapterProcess(
            self.command, actor=name, limit_s=self.limit_s, environment=environment, log=self.log
        )
