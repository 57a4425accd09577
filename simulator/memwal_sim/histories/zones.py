"""Linearizability of one register by zones: exact where every value is written once, and O(n log n).

The operations of one value, its write and its reads, are a cluster. Its zone goes from the earliest end of any of
them to the latest beginning of any. If the end comes first the zone is *forward*: the register must hold the value all
through it. Else it is *backward*: the whole cluster can happen at any one moment of it. A cluster A has to come before
another one B where something of A ended before something of B began. There is an order of all clusters unless two of
them have to come before each other: two forward zones overlap, or a backward zone is inside a forward one.

The end of a write of unknown outcome is open, and its reads alone say by when it happened; one that was never read is a
zone without an end, which is inside nothing. The initial value is a cluster whose write ended before everything.

Source: Gibbons and Korach, "Testing Shared Memories" (1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memwal.errors import InvalidArgument

from .conflict import Contradiction
from .operations import Operation, Value

_EVER = float("-inf")


@dataclass(slots=True)
class _Cluster:
    """All that is known of one value."""

    value: Value
    write: Operation | None
    """None: the initial value."""
    earliest: float
    """The earliest end."""
    latest: float
    """The latest beginning."""
    ended: Operation | None = None
    """An operation that ended first."""
    began: Operation | None = None
    """An operation that began last."""

    def take(self, operation: Operation) -> None:
        if operation.end < self.earliest:
            self.earliest, self.ended = operation.end, operation
        if operation.invoked > self.latest:
            self.latest, self.began = operation.invoked, operation

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The write and what bounds the zone."""
        return tuple(dict.fromkeys(op for op in (self.write, self.ended, self.began) if op is not None))

    def __str__(self) -> str:
        return "its initial value" if self.write is None else repr(self.value)


def conflict_of(operations: Sequence[Operation], initial: Value = None) -> Contradiction | None:
    """None if one register that starts with ``initial`` can have done this; else the conflict.

    Raises `InvalidArgument` if a value is written twice, or if the initial one is written: see `linearization`.
    """
    clusters = _clusters(operations, initial)
    for operation in operations:
        if operation.kind == "read" and operation.counts:
            wrong = _misread(operation, clusters)
            if wrong is not None:
                return wrong
            clusters[operation.value].take(operation)
    return _between(clusters.values())


def _clusters(operations: Iterable[Operation], initial: Value) -> dict[Value, _Cluster]:
    clusters = {initial: _Cluster(initial, None, _EVER, _EVER)}
    for write in operations:
        if write.kind == "write":
            if write.value in clusters:
                raise InvalidArgument(f"{write}: zones need values that are written once and differ from the first")
            clusters[write.value] = _Cluster(write.value, write, float("inf"), _EVER)
            clusters[write.value].take(write)
    return clusters


def _misread(read: Operation, clusters: dict[Value, _Cluster]) -> Contradiction | None:
    cluster = clusters.get(read.value)
    if cluster is None:
        return Contradiction("unwritten", f"{read} found what was never written", (read,))
    write = cluster.write
    if write is None:
        return None
    if write.outcome == "failed":
        return Contradiction("refused", f"{read} found what {write} failed to write", (write, read))
    if read.end < write.invoked:
        return Contradiction(
            "early", f"{read} ended at {read.returned}, before {write} began at {write.invoked}", (write, read)
        )
    return None


def _between(clusters: Iterable[_Cluster]) -> Contradiction | None:
    """A conflict of two zones, if there is one."""
    known = [c for c in clusters if c.write is None or c.write.counts]
    forward = sorted((c for c in known if c.earliest < c.latest), key=lambda c: (c.earliest, c.latest))
    for first, second in zip(forward, forward[1:], strict=False):
        if second.earliest < first.latest:
            return _conflict("overlapping", first, second)
    begins = [c.earliest for c in forward]
    for inner in known:
        if inner.earliest < inner.latest or inner.latest == _EVER:
            continue
        at = bisect_left(begins, inner.latest) - 1
        if at >= 0 and inner.earliest < forward[at].latest:
            return _conflict("inside", forward[at], inner)
    return None


def _conflict(kind: str, held: _Cluster, other: _Cluster) -> Contradiction:
    since = "the beginning" if held.ended is None else f"{_time(held.earliest)} ({held.ended} ended)"
    reason = f"the register has to hold {held} from {since} to {_time(held.latest)} ({held.began} began), "
    if kind == "overlapping":
        reason += f"and {other} from {_time(other.earliest)} ({other.ended} ended) to {_time(other.latest)} "
        reason += f"({other.began} began)"
    else:
        reason += f"and {other} came and was over between {_time(other.latest)} ({other.began} began) "
        reason += f"and {_time(other.earliest)} ({other.ended} ended)"
    return Contradiction(kind, reason, tuple(dict.fromkeys((*held.operations, *other.operations))))


def _time(moment: float) -> str:
    return str(int(moment))
