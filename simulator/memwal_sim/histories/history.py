"""What clients called and what they were told: one history, whichever process keeps it, and what oracles ask of it.

A call writes or deletes rows by key, whole or not at all, or reads the whole table. A write that was acknowledged has
happened between its invocation and its return; one of unknown outcome may have happened, once (AMB-22); one that was
refused has not. A call that returned before another was invoked comes before it; equal times say nothing.

Explorer, workloads, soak and conformance suite keep what they know in this form, and the register histories of
`memwal explore check-history` are made of it (`operations.operations`). The module needs nothing but Python, since
the judge of the suite, which must not import the engine, asks it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["write", "read"]
Outcome: TypeAlias = Literal["ok", "unknown", "failed", "buffered"]
"""``ok``: acknowledged, or a read that found something. ``unknown``: it may have taken effect. ``failed``: refused, it
never does. ``buffered``: it was taken, and may be lost; of the buffered writes of one process a prefix is there."""
Rows: TypeAlias = tuple[tuple[Any, Any], ...]
"""Key and value; None: the key is deleted."""
Time: TypeAlias = float
"""Any numbers that grow: ticks of a history's own, or milliseconds."""

UNDECIDED_MOST = 4096
"""More cuts through buffered writes, times fates of unknown ones, are not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A write, or a read of the whole table, by a client."""

    name: str
    kind: Kind = "write"
    rows: Rows = ()
    """Written, or found; of a read that has not returned: empty."""
    invoked: Time
    returned: Time | None = None
    """By when it took effect, if it did; None: not known, it may still."""
    outcome: Outcome = "unknown"
    process: str = ""
    """Whose call it is, where that is known."""
    strong: bool = True
    """False: a read that may find less than what was acknowledged before it."""

    def precedes(self, other: Call) -> bool:
        """Whether it took effect, if it did, before ``other``."""
        return self.returned is not None and self.returned < other.invoked

    @property
    def counts(self) -> bool:
        """Whether it can tell anything: reads without an answer do not, and nor do writes that never take effect."""
        return self.outcome == "ok" or (self.kind == "write" and self.outcome != "failed")


@dataclass(frozen=True, slots=True)
class History:
    """All calls so far, in the order in which they began. A value: what follows is another history."""

    calls: tuple[Call, ...] = ()
    versions: tuple[tuple[int, Rows], ...] = ()
    """Table versions that were read, and what they held, in the order in which the reads returned."""
    settled: frozenset[str] = frozenset()
    """Names of acknowledged writes that every eventual read finds too."""

    @property
    def now(self) -> Time:
        """The latest time in it; 0 at the beginning."""
        return max((each.invoked if each.returned is None else each.returned for each in self.calls), default=0)

    @property
    def writes(self) -> tuple[Call, ...]:
        """The writes that may have taken effect, acknowledged or not."""
        return tuple(call for call in self.calls if call.kind == "write" and call.outcome != "failed")

    @property
    def acknowledged(self) -> tuple[Call, ...]:
        """The writes that have taken effect for certain."""
        return tuple(call for call in self.calls if call.kind == "write" and call.outcome == "ok")

    @property
    def reads(self) -> tuple[Call, ...]:
        """The reads that have returned."""
        return tuple(call for call in self.calls if call.kind == "read" and call.outcome == "ok")

    def begun(
        self, name: str, rows: Rows = (), *, kind: Kind = "write", process: str = "", strong: bool = True
    ) -> History:
        """The history after a client called."""
        call = Call(name=name, kind=kind, rows=rows, invoked=self.now + 1, process=process, strong=strong)
        return replace(self, calls=(*self.calls, call))

    def ended(
        self, name: str, outcome: Outcome, *, kind: Kind = "write", rows: Rows | None = None, version: int | None = None
    ) -> History:
        """The history after the latest call of that name and kind came back; of a read with what it found."""
        at = max(at for at, call in enumerate(self.calls) if call.name == name and call.kind == kind)
        before = self.calls[at]
        found = before.rows if rows is None else rows
        after = replace(before, returned=self.now + 1, outcome=outcome, rows=found)
        versions = self.versions if version is None else (*self.versions, (version, found))
        return replace(self, calls=(*self.calls[:at], after, *self.calls[at + 1 :]), versions=versions)

    def synced(self, process: str) -> History:
        """The history after all that ``process`` had buffered was acknowledged."""
        calls = (
            replace(call, outcome="ok") if call.process == process and call.outcome == "buffered" else call
            for call in self.calls
        )
        return replace(self, calls=tuple(calls))

    def first(self, writes: int) -> History:
        """Its first so many writes, and no read."""
        return History(tuple(call for call in self.calls if call.kind == "write")[:writes])

    def seen_by(self, read: Call) -> tuple[Call, ...]:
        """The writes as ``read``, which returned, may have found them: acknowledged are those that it has to find.

        A strong one has to find what was acknowledged before it began, an eventual one what is settled.
        """

        def seen(write: Call) -> Call:
            needed = write.precedes(read) if read.strong else write.name in self.settled
            return write if needed or write.outcome != "ok" else replace(write, outcome="unknown")

        return tuple(seen(write) for write in self.writes if not read.precedes(write))

    def explains(self, read: Call) -> bool:
        """Whether some order of the writes explains what ``read`` found."""
        found = dict(read.rows)
        return len(found) == len(read.rows) and explanation(found, self.seen_by(read)) is not None

    def condensed(self) -> History:
        """What matters for all that comes: equal for histories that no later call tells apart.

        A read that is explained goes; what a strong one found has taken effect by its end. Of times their order stays.
        """
        calls = list(self.calls)
        for read in self.reads:
            found = set(read.rows) if read.strong else set()
            calls = [
                replace(call, outcome="ok", returned=read.returned)
                if call.kind == "write" and call.outcome == "unknown" and found.intersection(call.rows)
                else call
                for call in calls
                if call is not read or not self.explains(read)
            ]
        versions = tuple(sorted(dict.fromkeys(self.versions), key=lambda each: each[0]))
        return History(_renumbered(calls), versions, self.settled)

    def cuts(self) -> tuple[tuple[Call, ...], ...]:
        """The writes as they may have been kept: of the buffered ones of each process a prefix, the longest first.

        Those that are kept are acknowledged. Raises `ValueError` if there are too many for an exact verdict.
        """
        buffered: dict[str, list[Call]] = {}
        for call in self.writes:
            if call.outcome == "buffered":
                buffered.setdefault(call.process, []).append(call)
        unknown = sum(call.outcome == "unknown" for call in self.writes)
        total = 2**unknown
        for calls in buffered.values():
            total *= len(calls) + 1
        if total > UNDECIDED_MOST:
            raise ValueError(f"{total} outcomes of unacknowledged writes are too many to try")
        choices = [[calls[:kept] for kept in range(len(calls), -1, -1)] for calls in buffered.values()]
        return tuple(self._kept({id(call) for calls in chosen for call in calls}) for chosen in product(*choices))

    def _kept(self, kept: set[int]) -> tuple[Call, ...]:
        return tuple(
            replace(call, outcome="ok") if call.outcome == "buffered" else call
            for call in self.writes
            if call.outcome != "buffered" or id(call) in kept
        )


def fold(writes: Sequence[Call]) -> dict[Any, Any]:
    """Key -> value after ``writes``, one after another."""
    rows = dict(row for write in writes for row in write.rows)
    return {key: value for key, value in rows.items() if value is not None}


def explanation(rows: Mapping[Any, Any], writes: Sequence[Call]) -> tuple[Call, ...] | None:
    """Writes in an order that leaves exactly ``rows`` (key -> value): the acknowledged ones, and some of the others.

    None if there is no such order. ``writes``: as they began. Each is whole, of a key that it names twice the last
    value counts, and one that precedes another comes first.
    """
    once = tuple(map(_once, writes))
    if fold(once) == dict(rows) and all(write.outcome == "ok" for write in once):
        return once
    return _explained(rows, frozenset(), once)


def _once(write: Call) -> Call:
    rows = dict(write.rows)
    return write if len(rows) == len(write.rows) else replace(write, rows=tuple(rows.items()))


def _explained(rows: Mapping[Any, Any], decided: frozenset[Any], left: tuple[Call, ...]) -> tuple[Call, ...] | None:
    """Search backwards: the last write decides its keys; ``decided`` keys are those of later writes."""
    if decided.issuperset(rows) and not any(write.outcome == "ok" for write in left):
        return ()
    for last in left:
        if any(last.precedes(other) for other in left):
            continue
        if any(key not in decided and rows.get(key) != value for key, value in last.rows):
            continue
        earlier = _explained(rows, decided.union(key for key, _ in last.rows), _without(left, last))
        if earlier is not None:
            return (*earlier, last)
    for unheard in left:
        if unheard.outcome != "ok":
            found = _explained(rows, decided, _without(left, unheard))
            if found is not None:
                return found
    return None


def _without(writes: tuple[Call, ...], one: Call) -> tuple[Call, ...]:
    return tuple(write for write in writes if write is not one)


def _renumbered(calls: Sequence[Call]) -> tuple[Call, ...]:
    """``calls`` with the smallest whole numbers as times that keep who returned before whom was invoked."""
    events = [(call.invoked, 0, at) for at, call in enumerate(calls)]
    events += [(call.returned, 1, at) for at, call in enumerate(calls) if call.returned is not None]
    numbers: dict[tuple[int, int], int] = {}
    now, returned = 0, False
    for _, end, at in sorted(events):
        now, returned = (now, True) if end else (now + returned, False)
        numbers[end, at] = now
    again = (replace(call, invoked=numbers[0, at], returned=numbers.get((1, at))) for at, call in enumerate(calls))
    return tuple(sorted(again, key=lambda call: (call.invoked, call.kind, call.name)))
