"""Jobs that work on the table while Spark writes it: each in a thread of its own, with a table object of its own.

They are the engine's jobs, called again and again until they are told to stop. An error of one of them is raised when
the context is left, unless the body failed first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import memwal
import pyarrow as pa
from memwal.errors import Conflict
from memwal.violations import Violation

INDEX = "by_key_column"
"""Of the base table; it is what the index builder catches up."""
GRACE_MS = 30_000
"""How long operations of others may be under way without being harmed by the collector."""
RETAINED = 3
"""Table versions that the collector keeps."""


_INDEXED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideReport:
    """What was done while Spark wrote."""

    builds: int = 0
    """Times that the index was caught up."""
    collections: int = 0
    """Passes of the collector."""
    collected: int = 0
    """Merged generations that it deleted."""
    looks: int = 0
    """Times that all invariants but those of rows were looked at."""
    reads: int = 0
    """Lookups of watched keys that were answered."""
    conflicts: int = 0
    """Commits of builder and collector that were lost to others, and begun again."""


class Beside:
    """Context manager: calls ``step`` in a thread until it is left, with ``pause_s`` between two calls."""

    def __init__(self, name: str, step: Callable[[], None], pause_s: float = 0.02) -> None:
        self._step, self._pause_s = step, pause_s
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._pause_s):
                self._step()
        except BaseException as failure:  # noqa: BLE001 - handed to the caller's thread by __exit__
            self._failure = failure


def make_index(path: Path) -> str | None:
    """Put a btree over the first key column that can have one; returns its name, None if there is no such column."""
    table = memwal.open(path)
    for name in table.primary_key:
        if any(accepts(table.schema.field(name).type) for accepts in _INDEXED):
            table.to_lance().create_scalar_index(name, "BTREE", name=INDEX)
            return name
    return None


class BesideBuilder:
    """Catches the index up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.builds = self.conflicts = 0

    def step(self) -> None:
        """One pass."""
        try:
            self.builds += len(memwal.open(self._path).catch_up(INDEX).committed)
        except Conflict as lost:
            if not lost.retryable:
                raise
            self.conflicts += 1


class BesideCollector:
    """Collects what the last `RETAINED` versions do not need."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.passes = self.collected = self.conflicts = 0

    def step(self) -> None:
        """One pass."""
        try:
            done = memwal.open(self._path).gc(retain_versions=RETAINED, grace_ms=GRACE_MS)
        except Conflict as lost:
            if not lost.retryable:
                raise
            self.conflicts += 1
        else:
            self.passes += 1
            self.collected += sum(decision.kind == "generation" for decision in done.collected)


class BesideLooker:
    """Looks at all invariants but those of rows. What it finds on a table that moved meanwhile counts for nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.looks = 0
        self.findings: list[Violation] = []

    def step(self) -> None:
        """One look."""
        found = memwal.open(self._path).verify(fast=True)
        self.looks += 1
        if not found.moved:
            self.findings += [each for each in found.findings if each not in self.findings]
