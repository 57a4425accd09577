"""Processes that are given orders over a pipe, one at a time, and killed, stopped and continued by signals."""

from __future__ import annotations

import json
import multiprocessing
import os
import selectors
import signal
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from .actor import serve

_IMPORTED_LATER = ("memwal.api", "memwal.api.table", "memwal.api.base", "lance.file")


@dataclass(slots=True, eq=False)
class Member:
    """One process."""

    name: str
    role: str
    region: str | None
    process: BaseProcess
    pipe: Connection
    errors: Path
    """What it wrote to standard error."""
    under_way: dict[str, Any] | None = field(default_factory=lambda: {"do": "open"})
    """The order that it has not replied to; opening is the first."""
    since_ms: float = 0
    """When that was given."""
    stopped_until_ms: float | None = None
    """While it is stopped: when it continues."""
    full: bool = False
    """Whether the disk was full at any moment of the order that is under way."""
    rests_until_ms: float = 0
    """When it is to get its next order."""
    epoch: int | None = None
    """Of a writer that is open: that of its claim."""
    succeeded: bool = False
    """Whether another writer of its region is known to have claimed it since."""
    _text: bytes = b""

    def idle(self, now_ms: float) -> bool:
        return self.under_way is None and self.stopped_until_ms is None and now_ms >= self.rests_until_ms

    def order(self, order: dict[str, Any], now_ms: float, *, full: bool) -> None:
        """Give it an order. Nothing happens if it has died: then `replies` says so."""
        self.under_way, self.since_ms, self.full = order, now_ms, full
        try:
            os.write(self.pipe.fileno(), json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            return

    def replies(self) -> tuple[list[dict[str, Any]], bool]:
        """What it has said since, and whether it has ended."""
        try:
            found = os.read(self.pipe.fileno(), 1 << 20)
        except ConnectionResetError:  # it was killed with an order unread
            found = b""
        *lines, self._text = (self._text + found).split(b"\n")
        return [json.loads(line) for line in lines], not found

    def signal(self, number: signal.Signals) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def close(self) -> None:
        """Kill it if it runs, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.process.join()
        self.pipe.close()


class Crew:
    """All processes that run. A context manager, which kills what is left.

    Each is forked from a process that has imported everything and done nothing: so that starting one takes no second.
    """

    def __init__(self, location: str, errors: Path) -> None:
        """``errors``: folder for what the processes write to standard error."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([serve.__module__, *_IMPORTED_LATER])
        self._location, self._errors = location, errors
        self._selector = selectors.DefaultSelector()
        self.members: list[Member] = []
        self.started = 0

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for member in list(self.members):
            self.drop(member)
        self._selector.close()

    def start(self, role: str, region: str | None, now_ms: float, *, full: bool) -> Member:
        self.started += 1
        name = f"{role}-{self.started}"
        ours, theirs = self._context.Pipe()
        errors = self._errors / f"{name}.txt"
        process = self._context.Process(target=serve, args=(theirs, str(errors), self._location, role, region))
        process.start()
        theirs.close()
        member = Member(name, role, region, process, ours, errors, since_ms=now_ms, full=full)
        self._selector.register(ours, selectors.EVENT_READ, member)
        self.members.append(member)
        return member

    def drop(self, member: Member) -> None:
        """Kill the process if it runs, and forget it."""
        self._selector.unregister(member.pipe)
        self.members.remove(member)
        member.close()

    def heard(self, timeout_s: float) -> list[Member]:
        """Processes that have said something or ended, after waiting for that."""
        return [key.data for key, _ in self._selector.select(timeout_s)]

    def of(self, role: str, region: str | None = None) -> list[Member]:
        """The processes of ``role``, and of that region, that no other has succeeded."""
        return [m for m in self.members if m.role == role and m.region == region and not m.succeeded]
