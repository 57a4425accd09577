"""Several coroutines of one process: what one waits for that another does, and reads that are made at once."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .effects import Busy, Io, Join, Protocol, Spawn, Task, Until
from .ids import Milliseconds

T = TypeVar("T")

MOST_CONCURRENT = 32
"""Coroutines of one process that `concurrently` keeps busy, also where what it runs calls it again."""
MOST_AHEAD = 16
"""So many things are read at once before they are asked for; the last ones may not be needed."""


async def until(holds: Callable[[], bool], timeout_ms: Milliseconds | None = None) -> bool:
    """As `Until`; where it holds already no other coroutine runs first."""
    return holds() or await Until(holds, timeout_ms)


@dataclass(slots=True)
class Turn:
    """What one coroutine of a process has at a time; an asynchronous context manager that waits for it."""

    taken: bool = False

    async def __aenter__(self) -> None:
        if self.taken:
            await until(lambda: not self.taken)
        self.taken = True

    async def __aexit__(self, *_: object) -> None:
        self.taken = False


async def concurrently(io: Io, reads: Sequence[Callable[[], Protocol[T]]]) -> list[T]:
    """What ``reads`` give, which only read, and none of which needs another: all at once where `Io.concurrent`.

    Elsewhere one after another, so that only the order of requests differs. After a failure no more of them begin; of
    several failures the one of the first of them is raised.
    """
    if not io.concurrent:
        return [await read() for read in reads]
    found: dict[int, T] = {}
    failed: dict[int, Exception] = {}
    waiting = deque(enumerate(reads))
    others = list[Task[None]]()

    async def work() -> None:
        while waiting:
            # Where those that call this from inside of others wait for what it does, there is room for more.
            if len(waiting) > 1 and len(others) < MOST_CONCURRENT - 1 and await Busy() < MOST_CONCURRENT:
                others.append(await Spawn(work))
            number, read = waiting.popleft()
            try:
                found[number] = await read()
            except Exception as failure:  # noqa: BLE001 - it is raised below
                failed[number] = failure
                waiting.clear()

    try:
        await work()
    finally:
        waiting.clear()  # where this one is interrupted, no more begin
    for task in others:
        await Join(task)
    if failed:
        raise failed[min(failed)]
    return [found[number] for number in range(len(reads))]


async def ahead(io: Io, reads: Sequence[Callable[[], Protocol[T]]]) -> AsyncIterator[T]:
    """What ``reads`` give, in order: as `concurrently` for `MOST_AHEAD` of them at a time, or each when it is asked."""
    step = MOST_AHEAD if io.concurrent else 1
    for first in range(0, len(reads), step):
        for found in await concurrently(io, reads[first : first + step]):
            yield found
