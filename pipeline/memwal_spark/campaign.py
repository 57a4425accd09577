"""Campaigns of the simulator and of the suite on Spark: `memwal_sim.parallel` finds this module by entry point.

Each thing is a Spark job of one task. So Spark's scheduler spreads them, and tries one again whose executor is lost.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from memwal_sim.parallel import as_done

from .jobs import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

WAITING_MOST = 64
"""Tasks that are with Spark at the same time; it runs as many of them as it has cores."""
_DONE = pa.schema([pa.field("done", pa.binary())])


def each(work: Callable[[T], R], things: Sequence[T]) -> Iterator[tuple[T, R]]:
    """``work`` of each of ``things``, in the order in which it is done, as `memwal_sim.parallel.each` has it.

    The session is the one that is there, the one that the environment names, or one on all cores of this machine.
    Raises what ``work`` raises, at once; a worker that dies is an error of Spark only when it has died several times.
    """
    with sessions.started("memwal campaign") as spark:
        pool = ThreadPoolExecutor(min(len(things), WAITING_MOST), thread_name_prefix="campaign")
        tag = f"memwal-{id(pool)}"

        def one(thing: T) -> R:
            spark.addTag(tag)
            return _task(spark, work, thing)

        try:
            yield from as_done(pool, one, things)
        finally:
            spark.interruptTag(tag)
            pool.shutdown(cancel_futures=True)


def _task(spark: SparkSession, work: Callable[[T], R], thing: T) -> R:
    """``work`` of ``thing`` in a task; an error comes back as it is, so that Spark does not try it again."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            failed: Exception | None = None
            found: R | None = None
            try:
                found = work(thing)
            except Exception as error:  # noqa: BLE001 - raised again by the caller
                failed = error
            yield pa.RecordBatch.from_pylist([{"done": pickle.dumps((found, failed))}], _DONE)

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(run, "done binary").collect()
    found, failed = pickle.loads(row["done"])  # noqa: S301 - what our own task has written
    if failed is not None:
        raise failed
    return found  # type: ignore[no-any-return] # what `work` returned
