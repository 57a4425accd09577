"""The store as clients in virtual time see it: latency, rate limits, and faults, all drawn from one seed.

A request that is sent waits for the way there, is applied in one atomic step, and waits for the way back; others come
between. What a fault does to it is a `memwal_sim.outcomes.Fate`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from memwal.effects import (
    Copy,
    Delete,
    Get,
    GetRanges,
    Head,
    List,
    ListFolders,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    StoreRequest,
)

from ..outcomes import MUTATING, Fate
from .settings import SoakSettings

SHAPES: dict[type[StoreRequest[Any]], float] = {
    Get: 1.0,
    GetRanges: 1.0,
    Head: 0.7,
    List: 2.0,
    ListFolders: 2.0,
    PutIfAbsent: 1.8,
    Put: 1.8,
    Delete: 1.2,
    Copy: 2.5,
    RenameIfAbsent: 2.5,
}
"""Median latency of each kind of request, as a multiple of `SoakSettings.latency_ms`."""

_READS = (Get, GetRanges, Head)
_BLOCK = 1024


def generator(seed: int, *names: str) -> np.random.Generator:
    """A random generator of its own for each seed and names."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def prefix_of(path: str) -> str:
    """The prefix by which the store partitions: the region's folder, or the table's folder below its root."""
    first, second, third, *_ = (*path.split("/", 3), "", "", "")
    return f"{first}/{second}/{third}" if second == "_mem_wal" else f"{first}/{second}"


class _Drawn:
    """Numbers drawn in blocks, which is many times faster than one by one."""

    def __init__(self, block: Any) -> None:
        self._block = block
        self._left: Iterator[float] = iter(())

    def next(self) -> float:
        for number in self._left:
            return number
        self._left = iter(self._block(_BLOCK).tolist())
        return next(self._left)


class Network:
    """Latency and fate of each request; deterministic for one seed and one order of requests."""

    def __init__(self, settings: SoakSettings) -> None:
        random = generator(settings.seed, "network")
        self._settings = settings
        self._uniform = _Drawn(random.random)
        self._spread = _Drawn(lambda size: np.exp(random.normal(0.0, settings.latency_sigma, size)))
        self._delay = _Drawn(lambda size: random.exponential(settings.late_ms, size))
        self._second = -1
        self._rates: Counter[tuple[str, bool]] = Counter()
        self.calm = False
        """Whether faults have stopped; latency and rate limits stay."""

    def latency_ms(self, request: StoreRequest[Any], size_bytes: int) -> float:
        """One way of ``request``, drawn; the way back takes the same distribution."""
        shape = self._settings.latency_ms * SHAPES[type(request)] / 2
        return shape * self._spread.next() + size_bytes / self._settings.bandwidth_bytes_per_ms

    def late_ms(self) -> float:
        """Delay of a request that is applied late."""
        return min(self._delay.next(), self._settings.grace_ms / 2)

    def fate(self, request: StoreRequest[Any], now_ms: float) -> Fate:
        """What becomes of ``request``, which is sent now."""
        if self._over_rate(request, now_ms):
            return Fate.THROTTLED
        settings = self._settings
        if self.calm:
            return Fate.NORMAL
        drawn = self._uniform.next()
        if drawn < settings.throttled:
            return Fate.THROTTLED
        if not isinstance(request, MUTATING):
            return Fate.NORMAL
        drawn -= settings.throttled
        for fate, probability in (
            (Fate.LOST, settings.lost),
            (Fate.APPLIED, settings.applied),
            (Fate.LATE, settings.late),
        ):
            if drawn < probability:
                return fate
            drawn -= probability
        return Fate.NORMAL

    def _over_rate(self, request: StoreRequest[Any], now_ms: float) -> bool:
        second = int(now_ms // 1000)
        if second != self._second:
            self._second = second
            self._rates.clear()
        reads = isinstance(request, _READS)
        key = (prefix_of(request.path), reads)
        self._rates[key] += 1
        settings = self._settings
        return self._rates[key] > (settings.prefix_reads_per_s if reads else settings.prefix_writes_per_s)
