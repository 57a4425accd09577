"""The same work on several things at once, one operating-system process each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(work: Callable[[T], R], things: Sequence[T], jobs: int = 1) -> Iterator[tuple[T, R]]:
    """``work`` of each of ``things``, in the order in which it is done; ``jobs`` at a time.

    ``work`` is a function of a module, and ``things`` and results can be pickled, unless ``jobs`` is 1.
    """
    if jobs == 1:
        for thing in things:
            yield thing, work(thing)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(work, thing): thing for thing in things}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
