"""Where a scenario behind the gate takes place: the gate, its rules by label, and folders for the judge to look at."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from memwal_sim.store import Contents, dump

from ..adapters.process import AdapterProcess
from ..gate import FaultRule, Gate, GateLimits
from ..gate.address import ANY
from ..gate.folder import loaded
from ..protocol import AdapterError, Json
from .calls import Answers, PendingCall

FOLDER = "t"
"""The table's folder in the bucket."""
VECTOR = "vector"
"""The actor that answers a vector."""
QUIET_S = 0.5
"""Without a request and an answer for so long, messages that are under way wait for each other."""
BESIDE_S = 10.0
"""Longest that something is held for what was sent beside it."""
LIMITS = GateLimits(life_s=600, log_entries=20_000)
"""Of the gate. A scenario makes a few hundred requests; an adapter that goes round in circles is stopped here."""


class Testbed:
    """The gate of one run of a scenario. A context manager.

    ``rules``: as the schema of scenarios has them. ``contents``: what is there at the beginning.
    """

    def __init__(self, folder: Path, rules: Sequence[Json], contents: Contents | None = None) -> None:
        self._folder = folder
        self.rules = {rule["label"]: rule_of(rule) for rule in rules}
        asleep = [self.rules[rule["label"]] for rule in rules if rule.get("asleep")]
        self.gate = Gate(contents, rules=self.rules.values(), asleep=asleep, kill=self._kill, limits=LIMITS)
        self.optional = {rule["label"] for rule in rules if rule.get("optional")}
        """Labels of rules that need not act."""
        self.processes: dict[str, Answers] = {}
        self.under_way: list[tuple[str, PendingCall]] = []
        """Actors and what they were sent, answered or not."""
        self.killed: set[str] = set()
        """Actors that a rule has killed."""
        self._news = threading.Event()

    def __enter__(self) -> Self:
        self.gate.__enter__()
        self.gate.watch(self._news.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.__exit__(kind, error, trace)

    @property
    def table(self) -> str:
        """URL of the table."""
        return f"s3://{self.gate.bucket}/{FOLDER}"

    def storage(self, actor: str) -> Json:
        """What `configure` gives ``actor``."""
        return storage_of(self.gate, actor)

    def look(self) -> Path:
        """The table as it is, in a new folder."""
        place = Path(tempfile.mkdtemp(prefix="look-", dir=self._folder))
        dump(self.gate.contents, place)
        return place / FOLDER

    def acted(self, label: str) -> bool:
        """Whether a rule has acted: a request waits, or what became of it is in the log."""
        return bool(self.gate.held(self.rules[label])) or any(entry.rule == label for entry in self.gate.log)

    def reached(self, labels: Sequence[str], limit_s: float, *, background: bool = False) -> bool:
        """Wait until one of some rules has acted.

        False after ``limit_s``, or if it cannot act any more: every message that it may be about is answered, or the
        actor waits at another rule. ``background``: actors make requests also when all their messages are answered.
        """
        while not any(map(self.acted, labels)):
            if not background and all(self._is_done(self.rules[label].at.actor) for label in labels):
                return any(map(self.acted, labels))
            if not self._news.wait(limit_s):
                return False
            self._news.clear()
        return True

    def release(self, label: str) -> None:
        """Let go what a rule holds, once everything that was sent beside it is over or waits, too.

        What waits for it without a request of its own is known by that nothing happens for `QUIET_S`; where requests
        never end, it is let go after `BESIDE_S`.
        """
        ends = time.monotonic() + BESIDE_S
        while not self._is_done(ANY) and time.monotonic() < ends:
            if not self._news.wait(QUIET_S):
                break
            self._news.clear()
        self.gate.release(self.rules[label])

    def _is_done(self, about: str) -> bool:
        """Whether an actor makes no request any more: each call that is not over waits at a rule."""
        held = Counter(request.actor for rule in self.rules.values() for request in self.gate.held(rule))
        calls = Counter(name for name, call in self.under_way if about in (ANY, name) and not call.over)
        return calls <= held

    def sent(self, actor: str, call: PendingCall) -> None:
        """A message is under way. It may have met a rule that kills before this is said."""
        self.under_way.append((actor, call))
        call.when_over(self._news)
        if actor in self.killed and not isinstance(self.processes.get(actor), AdapterProcess):
            call.abandon()

    def _kill(self, actor: str) -> None:
        """SIGKILL, from the gate's thread. What has no process of its own is left to wait for ever."""
        self.killed.add(actor)
        process = self.processes.get(actor)
        if isinstance(process, AdapterProcess):
            process.strike()
            return
        for name, call in self.under_way:
            if name == actor:
                call.abandon()


class Served:
    """Tables of vectors behind a gate, for a process that has nothing open; is what `vectors.run` asks for."""

    def __init__(self, process: AdapterProcess, configured: Json, folder: Path) -> None:
        self._process, self._configured, self._folder = process, configured, folder
        self.testbed: Testbed | None = None
        """The last one; its log stays when it is closed."""

    @contextmanager
    def __call__(self, table: Path) -> Iterator[str]:
        objects = {f"{FOLDER}/{name}": data for name, data in loaded(table).objects.items()}
        with Testbed(self._folder, (), Contents(objects)) as self.testbed:
            self._process.call("configure", {**self._configured, "storage": self.testbed.storage(VECTOR)})
            try:
                yield self.testbed.table
            except AdapterError:
                self._leave()
                raise
            self._leave()

    def _leave(self) -> None:
        """Have the process drop what is open, while the gate still answers what it has to say."""
        self._process.call("configure", self._configured)


def storage_of(gate: Gate, actor: str) -> Json:
    """What `configure` gives an adapter that is to come to ``gate`` as ``actor``."""
    key = gate.credentials(actor)
    return {
        "endpoint": gate.endpoint,
        "region": gate.region,
        "access_key_id": key.access_key,
        "secret_access_key": key.secret_key,
    }


def rule_of(described: Mapping[str, Any]) -> FaultRule:
    """A rule of a scenario as the gate takes it."""
    return FaultRule.from_json({name: value for name, value in described.items() if name not in ("asleep", "optional")})
