"""What the items of one test run share: the adapter under test, the levels of clauses, the log of messages."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from memwal.errors import InvalidArgument, check_name

from .. import vectors
from ..adapters import versions
from ..adapters.aided import Command
from ..adapters.harness import Harness, command_of, players
from ..adapters.process import BROKEN, Exchange
from ..gate.requests import class_of, name_of
from ..places import scenario_files, vector_files
from ..protocol import Hello, Json
from ..registry.levels import levels_of
from ..running import scenarios
from ..running.cases import Amount, variants

TIMEOUT_S = 60.0
"""Limit for each answer if no other is given."""


PLAYER = "suite"
"""The player of the jobs that an adapter does not claim, unless another is named."""
AMOUNTS = {"--memwal-crashes": "24", "--memwal-races": "1", "--memwal-seed": "0"}
"""Options that say how much is run, and what they are unless given."""


class Session:
    """What the items of one test run share."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given: str | None = config.getoption("--memwal-adapter")
        wanted: str | None = config.getoption("--memwal-revision")
        self.wanted = [r.strip() for r in wanted.split(",")] if wanted else list(vectors.REVISIONS)
        for name in self.wanted:
            try:
                check_name("revision", name, vectors.REVISIONS)
            except InvalidArgument as error:
                raise pytest.UsageError(f"--memwal-revision: {error}") from error
        settings: list[str] = config.getoption("--memwal-setting")
        if strange := [s for s in settings if "=" not in s]:
            raise pytest.UsageError(f"--memwal-setting: {strange[0]!r} must be NAME=VALUE")
        folder: Path | None = config.getoption("--memwal-report")
        self.log_file = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.log_file = (folder / log_name(config)).open("w", encoding="utf-8", buffering=1)
        self.case = ""
        """The case that runs now."""
        self.steps: list[Json] = []
        """What was done in it so far, see `CaseResult.steps`."""
        self._seen: Callable[[], int] | None = None
        self.gated: bool = config.getoption("--memwal-gate")
        """Whether every table is behind the gate."""
        self.options = self._options(given, settings)
        self.amount = amount(*(config.getoption(name) for name in AMOUNTS))
        """How much of the crashes and races is run."""
        self.harness = Harness(
            command=self._command(given),
            limit_s=config.getoption("--memwal-timeout"),
            settings=dict(s.split("=", 1) for s in settings),
            log=lambda exchange: self.note(noted(exchange)),
            roles_by=self._players(),
            trace=folder is not None,
        )
        self.levels: dict[str, dict[str, str]] = {revision: levels_of(revision) for revision in vectors.REVISIONS}
        self.no_hello: str | None = None
        self.smoke_failed: dict[str, str] = {}
        self.smoke_ran: set[str] = set()
        """Ids of the smoke cases that this process has run."""

    def _command(self, given: str | None) -> tuple[str, ...]:
        version: str | None = self.config.getoption("--native-version")
        if version is not None and given != versions.NAME:
            raise pytest.UsageError(f"--native-version needs --memwal-adapter {versions.NAME}")
        try:
            return command_of(given or "reference", version)
        except InvalidArgument as error:
            option = "--native-version" if version is not None else "--memwal-adapter"
            raise pytest.UsageError(f"{option}: {error}") from error

    def _players(self) -> dict[str, Command]:
        """See `players`."""
        try:
            return players(self.config.getoption("--roles-by"))
        except InvalidArgument as error:
            raise pytest.UsageError(f"--roles-by: {error}") from error

    def _options(self, given: str | None, settings: list[str]) -> tuple[str, ...]:
        """The options of this run on which the verdict of a case depends."""
        config = self.config
        timeout: float = config.getoption("--memwal-timeout")
        found = [("--memwal-adapter", given), ("--native-version", config.getoption("--native-version"))]
        found += [("--memwal-timeout", f"{timeout:g}" if timeout != TIMEOUT_S else None)]
        found += [(name, config.getoption(name)) for name in AMOUNTS if config.getoption(name) != AMOUNTS[name]]
        seconds: float | None = config.getoption("--memwal-explore")
        if seconds is not None and not seconds > 0:
            raise pytest.UsageError(f"--memwal-explore: {seconds:g} is not a time")
        found += [("--memwal-explore", None if seconds is None else f"{seconds:g}")]
        player: str = config.getoption("--roles-by")
        found += [("--roles-by", player if player != PLAYER else None)]
        found += [("--memwal-setting", setting) for setting in settings]
        gate = ("--memwal-gate",) if self.gated else ()
        return (*(part for name, value in found if value is not None for part in (name, value)), *gate)

    def reproduce(self, node: str) -> str:
        """A command that runs one item of this run again."""
        return shlex.join(("pytest", node, *self.options))

    def kept(self, case: str) -> Path | None:
        """Where schedule, log and store of a race of ``case`` that fails go; None without a report."""
        folder: Path | None = self.config.getoption("--memwal-report")
        return None if folder is None else folder / "races" / re.sub(r"[^A-Za-z0-9_]+", "-", case)

    def begin(self, case: str) -> None:
        """What is noted from now on belongs to ``case``."""
        self.case, self.steps = case, []
        self._seen = None

    def watch(self, seen: Callable[[], int] | None) -> None:
        """Let every step say how many requests ``seen`` has counted when it is over; None: no longer."""
        self._seen = seen

    def note(self, step: Json) -> None:
        """Keep a step of the case that runs, and write it to the run log."""
        if self._seen is not None:
            step = {**step, "requests": self._seen()}
        self.steps.append(step)
        if self.log_file is not None:
            self.log_file.write(json.dumps({"case": self.case, **step}) + "\n")

    def taken(self) -> tuple[Json, ...]:
        """The steps noted since the last time."""
        found, self.steps = tuple(self.steps), []
        return found

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
        has = (*(("0",) if hello.answers("eval.legacy") else ()), *hello.revisions)
        return [revision for revision in has if revision in self.wanted]

    def close(self) -> None:
        """End what the run has started."""
        self.harness.close()
        if self.log_file is not None:
            self.log_file.close()


def noted(exchange: Exchange) -> Json:
    """An exchange as a step: without an empty trace, and without the secrets that it carried."""
    step = asdict(exchange)
    if not step["trace"]:
        del step["trace"]
    if "storage" in step["params"]:
        step["params"] = step["params"] | {"storage": step["params"]["storage"] | {"secret_access_key": "…"}}
    return step


def told(steps: tuple[Json, ...]) -> tuple[tuple[Json, ...], tuple[Json, ...]]:
    """Steps and requests of a result where adapters told of their requests, as if a gate had logged them."""
    kept: list[Json] = []
    requests: list[Json] = []
    for step in steps:
        for event in step.get("trace", ()):
            name, class_ = name_of(event["path"]), class_of(event["path"])
            entry = {"order": len(requests) + 1, "actor": step["actor"], "class": class_, "name": name}
            entry |= {"key": event["path"], "operation": event["operation"], "status": event["outcome"]}
            requests.append(entry | {"fate": "normal", "request_bytes": "", "reply_bytes": "", "rule": ""})
        mine = {member: value for member, value in step.items() if member != "trace"}
        kept.append(mine | {"requests": len(requests)} if requests else mine)
    return tuple(kept), tuple(requests)


def amount(crashes: str, races: str, seed: str) -> Amount:
    """How much the options ask for. Raises `pytest.UsageError`."""
    for name, given in (("--memwal-crashes", crashes), ("--memwal-races", races)):
        if given != "all" and (not given.isdecimal() or not int(given)):
            raise pytest.UsageError(f"{name}: {given!r} must be a number from 1, or all")
    every = 1 if crashes == "all" else int(crashes)
    return Amount(every=every, orders=None if races == "all" else int(races), seed=seed)


def suite_size() -> Counter[str]:
    """How many cases the whole suite has under each revision, selected or not."""
    found: Counter[str] = Counter()
    for file in vector_files():
        vector = vectors.load(file)
        found[vector.revision] += len(vector.directions)
    for file in scenario_files():
        scenario = scenarios.load(file)
        found.update({revision: len(variants(scenario)) for revision in scenario.revisions})
    return found


def log_name(config: pytest.Config) -> str:
    """Name of this process's run log: ``run.jsonl``, or ``run.<worker>.jsonl`` in a worker of pytest-xdist."""
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    return "run.jsonl" if worker is None else f"run.{worker['workerid']}.jsonl"


_SESSION = pytest.StashKey[Session]()


def session_of(config: pytest.Config) -> Session:
    """The session of this process, made when the first case is collected."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = Session(config)
    return config.stash[_SESSION]


def existing_session(config: pytest.Config) -> Session | None:
    """The session of this process, if a case was collected."""
    return config.stash.get(_SESSION, None)
