"""What the collector decides, and the form of the tables by which it decides.

A table has a row per reason to keep a thing. The code walks the rows in order, the first that applies keeps the thing,
and what no row keeps goes. The same rows are what ``memwal table gc-rules`` prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from ...ids import Milliseconds

Kind = Literal[
    "version", "generation", "orphan", "wal", "manifest", "data", "deletion", "index", "transaction"
]  # fmt: skip
T = TypeVar("T", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the collector decided about one thing, and why."""

    kind: Kind
    name: str
    """Object or folder name relative to the table."""
    collected: bool
    """Deleted; in a dry run: would be."""
    reason: str
    rule: str = ""
    """Name of the row that keeps it; empty for what goes."""
    size_bytes: int | None = None
    """Of the objects that go, where it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule(Generic[T]):
    """A reason to keep things of one kind."""

    name: str
    stays: str
    """The condition in words, after "stays ..."."""
    clauses: tuple[str, ...]
    reason: Callable[[T], str]
    """Why this thing stays; empty if this row does not keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility(Generic[T]):
    """The table of one kind of thing."""

    kind: Kind
    what: str
    """The kind in words, plural."""
    rules: tuple[KeepRule[T], ...]

    def decide(self, thing: T, name: str, gone: str) -> Decision:
        """Walk the rows; ``gone``: why a thing goes that none of them keeps."""
        for rule in self.rules:
            reason = rule.reason(thing)
            if reason:
                return Decision(kind=self.kind, name=name, collected=False, reason=reason, rule=rule.name)
        return Decision(kind=self.kind, name=name, collected=True, reason=gone)


def lasting(duration_ms: Milliseconds) -> str:
    """A duration for people: in the largest unit that gives a whole number."""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if duration_ms and duration_ms % size_ms == 0:
            return f"{duration_ms // size_ms} {unit}"
    return f"{duration_ms} ms"
