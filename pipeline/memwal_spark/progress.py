"""Progress of a long job: phases that are timed and shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from .report import Phase


class RunningPhase:
    """A phase under way; the body fills in how many rows it handled."""

    def __init__(self, name: str, status: Status | None) -> None:
        self.name = name
        self.rows: int | None = None
        self._status = status

    def tell(self, text: str) -> None:
        """Show ``text`` beside the phase's name until the next one or the end."""
        if self._status is not None:
            self._status.update(f"{self.name}: {text}")


class PhaseProgress:
    """Times phases and shows each on ``console``: a spinner while it runs where there is a terminal, a line after."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: list[Phase] = []

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that ended, in order."""
        return tuple(self._phases)

    @contextmanager
    def phase(self, name: str) -> Iterator[RunningPhase]:
        """Run the body as phase ``name``."""
        started = time.monotonic()
        with self._console.status(name) as status:
            running = RunningPhase(name, status if self._console.is_terminal else None)
            yield running
        done = Phase(name=name, seconds=time.monotonic() - started, rows=running.rows)
        self._phases.append(done)
        rows = "" if done.rows is None else f"{done.rows:>12,} rows"
        rate = "" if done.rows_per_second is None else f"{done.rows_per_second:>12,.0f} rows/s"
        self._console.print(f"{done.seconds:7.1f} s  {name:<34}{rows}{rate}", highlight=False)
