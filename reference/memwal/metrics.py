"""What the nodes of a plan spend when it is analysed: rows, requests, bytes and time.

Protocol code has no clock and counts no requests. A node that is watched says by a note when it goes to work and when
it is done; the driver (`memwal.drive.Meter`) charges what happens in between to the node that said so last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import asdict, astuple, dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from .effects import Note

ENTERED, LEFT = "node_entered", "node_left"
"""Notes of a node that is watched; their field ``metrics`` is the node's."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent: requests, bytes and time."""

    requests: int = 0
    """Requests to the store, repeated ones too."""
    bytes_read: int = 0
    elapsed_compute_ns: int = 0
    """Time in which no request was under way."""
    elapsed_io_ns: int = 0
    """Time in which the store worked on requests."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        times = f"elapsed_compute={self.elapsed_compute_ns / 1e6:.3f}ms, elapsed_io={self.elapsed_io_ns / 1e6:.3f}ms"
        return f"{times}, requests={self.requests}, bytes_read={self.bytes_read}"


@dataclass(slots=True)
class Metrics:
    """What one node of a plan gave and spent, without what its inputs spent."""

    watched: bool = False
    """Whether the plan is analysed, so that the node says when it is at work."""
    ran: bool = False
    """Whether it was at work, as far as it is watched."""
    output_rows: int = 0
    spent: Spent = Spent()
    counts: dict[str, int] = field(default_factory=dict)
    """What else was counted, by names that plans print: fragments, partitions, regions."""

    def __str__(self) -> str:
        more = "".join(f", {name}={count}" for name, count in self.counts.items())
        return f"metrics=[output_rows={self.output_rows}, {self.spent}{more}]"

    def as_json(self) -> dict[str, int]:
        """All numbers by name; times in nanoseconds."""
        return {"output_rows": self.output_rows, **asdict(self.spent), **self.counts}


class Metered(Protocol):
    """A node of a plan, as far as it is measured."""

    @property
    def metrics(self) -> Metrics:
        """Of the node alone."""


M = TypeVar("M", bound=Metered)


async def within(node: Metered, work: Awaitable[T]) -> T:
    """Await ``work`` as that of ``node``."""
    if not node.metrics.watched:
        return await work
    await Note(ENTERED, (("metrics", node.metrics),))
    try:
        return await work
    finally:
        await Note(LEFT, (("metrics", node.metrics),))


def metered(work: Callable[Concatenate[M, P], Awaitable[T]]) -> Callable[Concatenate[M, P], Coroutine[Any, Any, T]]:
    """A method of a node that does its work; the rows of a table that it gives are counted."""

    @wraps(work)
    async def of_node(node: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found = await within(node, work(node, *args, **kwargs))
        if isinstance(found, pa.Table):
            node.metrics.output_rows += found.num_rows
        return found

    return of_node


def metered_stream(
    work: Callable[Concatenate[M, P], AsyncIterator[pa.Table]],
) -> Callable[Concatenate[M, P], AsyncIterator[pa.Table]]:
    """The same of a method that streams its rows."""

    @wraps(work)
    def of_node(node: M, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[pa.Table]:
        rows = work(node, *args, **kwargs)
        return _each(node, rows) if node.metrics.watched else rows

    return of_node


async def _each(node: Metered, rows: AsyncIterator[pa.Table]) -> AsyncIterator[pa.Table]:
    while (part := await within(node, _next(rows))) is not None:
        node.metrics.output_rows += part.num_rows
        yield part


async def _next(rows: AsyncIterator[pa.Table]) -> pa.Table | None:
    async for part in rows:
        return part
    return None


def of_note(fields: dict[str, Any]) -> Metrics:
    """The metrics that a note of a node is about."""
    found = fields["metrics"]
    assert isinstance(found, Metrics)
    return found
