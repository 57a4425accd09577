"""What the items of one test run share: the adapter under test, the levels of clauses, the log of messages."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from . import native_versions, scenarios, vectors
from .adapters.process import AdapterCrash, AdapterMissing, AdapterTimeout, Exchange
from .clauses import clauses as registry
from .evidence import scenario_files, vector_files
from .harness import REFERENCE, Harness
from .protocol import REVISIONS, AdapterError, Hello, ProtocolViolation

BROKEN = (AdapterCrash, AdapterTimeout, AdapterMissing, ProtocolViolation, AdapterError)
"""What a broken adapter raises."""


class Session:
    """What the items of one test run share."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given: str | None = config.getoption("--memwal-adapter")
        wanted: str | None = config.getoption("--memwal-revision")
        self.wanted = [r.strip() for r in wanted.split(",")] if wanted else list(REVISIONS)
        if strange := [r for r in self.wanted if r not in REVISIONS]:
            raise pytest.UsageError(f"--memwal-revision: there is no revision {strange[0]!r}")
        settings: list[str] = config.getoption("--memwal-setting")
        if strange := [s for s in settings if "=" not in s]:
            raise pytest.UsageError(f"--memwal-setting: {strange[0]!r} is not NAME=VALUE")
        folder: Path | None = config.getoption("--memwal-report")
        self.log_file = None
        if folder is not None and not hasattr(config, "workerinput"):
            folder.mkdir(parents=True, exist_ok=True)
            self.log_file = (folder / "run.jsonl").open("w", encoding="utf-8")
        self.harness = Harness(
            command=self._command(given),
            limit_s=config.getoption("--memwal-timeout"),
            settings=dict(s.split("=", 1) for s in settings),
            log=self._log if self.log_file is not None else None,
        )
        self.levels: dict[str, dict[str, str]] = {revision: levels_of(revision) for revision in REVISIONS}
        self.no_hello: str | None = None
        self.smoke_failed: dict[str, str] = {}

    def _command(self, given: str | None) -> tuple[str, ...]:
        version: str | None = self.config.getoption("--native-version")
        if version is not None and given != native_versions.NAME:
            raise pytest.UsageError(f"--native-version goes with --memwal-adapter {native_versions.NAME}")
        if given != native_versions.NAME:
            return tuple(shlex.split(given)) if given else REFERENCE
        try:
            return native_versions.command(version)
        except native_versions.NotInstalled as error:
            raise pytest.UsageError(f"--native-version: {error}") from error

    def _log(self, exchange: Exchange) -> None:
        assert self.log_file is not None
        self.log_file.write(json.dumps(asdict(exchange)) + "\n")

    def hello(self) -> Hello | None:
        """What the adapter said; None (and a text in ``no_hello``) if it said nothing usable."""
        if self.no_hello is None:
            try:
                return self.harness.hello()
            except BROKEN as error:
                self.no_hello = str(error)
        return None

    def revisions(self, hello: Hello) -> list[str]:
        """Revisions to test."""
        return [revision for revision in hello.revisions if revision in self.wanted]

    def close(self) -> None:
        """End what the run has started."""
        self.harness.close()
        if self.log_file is not None:
            self.log_file.close()


def levels_of(revision: str) -> dict[str, str]:
    """Level of each clause under a revision. What the texts of the revision do not say is MAY.

    The table documents (T) hold under all; revision R is held to what A or B says, in its own reading.
    """
    spoken = {"A": {"A", "T"}, "B": {"B", "T"}, "R": {"A", "B", "T"}}[revision]
    return {c.id: c.level if spoken & set(c.revisions) else "MAY" for c in registry()}


def suite_size() -> Counter[str]:
    """How many cases the whole suite has under each revision, selected or not."""
    found: Counter[str] = Counter()
    for file in vector_files():
        vector = vectors.load(file)
        found[vector.revision] += len(vector.directions)
    for file in scenario_files():
        found.update(scenarios.load(file).revisions)
    return found


_SESSION = pytest.StashKey[Session]()


def session_of(config: pytest.Config) -> Session:
    """The session of this process, made when the first case is collected."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = Session(config)
    return config.stash[_SESSION]


def existing_session(config: pytest.Config) -> Session | None:
    """The session of this process, if a case was collected."""
    return config.stash.get(_SESSION, None)
