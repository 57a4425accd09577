"""The same work on several things at once: in processes of this machine, or on a cluster.

What runs work elsewhere is found by entry point (group ``memwal.workers``), so that the simulator needs none of it.
``memwal_spark`` brings ``spark``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from multiprocessing import get_context
from typing import TypeVar

from memwal.errors import check_name

T = TypeVar("T")
R = TypeVar("R")

HERE = "here"
SHARE = 16
"""Things of a share at most."""
GROUP = "memwal.workers"
"""Entry points by name: functions with the arguments ``work`` and ``things`` of `each`, which return what it does."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work."""

    jobs: int = 1
    """Things at a time, each in a process of its own; 1: in this process. A cluster takes as many as it has cores."""
    on: str = HERE
    """`HERE`, or the name of an entry point."""

    def __post_init__(self) -> None:
        if self.on != HERE:
            check_name("place to run on", self.on, [HERE, *(entry.name for entry in entry_points(group=GROUP))])


ALONE = Workers()


def each(work: Callable[[T], R], things: Sequence[T], workers: Workers = ALONE) -> Iterator[tuple[T, R]]:
    """``work`` of each of ``things``, in the order in which it is done. A caller that stops listening stops the rest.

    ``work`` is a function of a module, and ``things`` and results can be pickled, unless it is done in this process.
    It may be done twice where a machine of a cluster is lost.
    """
    if not things:
        return
    if workers.on != HERE:
        (entry,) = entry_points(group=GROUP, name=workers.on)
        yield from entry.load()(work, things)
    elif workers.jobs == 1:
        for thing in things:
            yield thing, work(thing)
    else:
        with ProcessPoolExecutor(workers.jobs, mp_context=get_context("spawn")) as pool:
            yield from as_done(pool, work, things)


def in_shares(work: Callable[[Sequence[T]], Iterable[R]], things: Sequence[T], workers: Workers = ALONE) -> Iterator[R]:
    """What ``work`` gives of all of ``things``, in shares where several do it: what each share begins with is dear."""
    if workers == ALONE:
        yield from work(things) if things else ()
        return
    size = SHARE if workers.on != HERE else min(SHARE, math.ceil(len(things) / workers.jobs))
    shares = [things[at : at + size] for at in range(0, len(things), max(1, size))]
    for _, found in each(partial(_listed, work), shares, workers):
        yield from found


def _listed(work: Callable[[Sequence[T]], Iterable[R]], share: Sequence[T]) -> list[R]:
    return list(work(share))


def as_done(pool: Executor, work: Callable[[T], R], things: Sequence[T]) -> Iterator[tuple[T, R]]:
    """``work`` of each of ``things`` by ``pool``, as they end; what has not begun when the caller stops is left out."""
    waiting = {pool.submit(work, thing): thing for thing in things}
    try:
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
