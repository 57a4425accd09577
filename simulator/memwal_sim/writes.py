"""Writes of clients as ghosts, and whether the rows found after a crash can be explained by them.

A write puts rows under keys, whole or not at all. One that was acknowledged has happened; one that was invoked and
failed, or has not come back, may have happened at any time since its invocation (AMB-22); one that was never invoked
has not. Writes of one region take effect one after another, and a write that was acknowledged before another was
invoked takes effect before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memwal.effects import Note

from .world import Violation

WRITE_INVOKED = "write_invoked"
WRITE_ACKNOWLEDGED = "write_acknowledged"
"""Events that a client makes around a put: fields ``write`` (unique name) and, when invoked, ``rows``."""

Rows = tuple[tuple[str, str], ...]
"""(key, value) pairs."""


@dataclass(frozen=True, slots=True, order=True)
class Write:
    """One atomic write of a client."""

    name: str
    """Unique in its scenario."""
    rows: Rows
    """Key and value; each key once."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What clients of one region did so far: the ghosts of a writer scenario."""

    invoked: frozenset[Write] = frozenset()
    acknowledged: frozenset[Write] = frozenset()
    before: frozenset[tuple[Write, Write]] = frozenset()
    """Pairs whose first was acknowledged before the second was invoked."""


def observe_writes(ghosts: Writes, _actor: str, note: Note) -> Writes:
    """`Observe` for `Writes`."""
    fields = dict(note.fields)
    if note.event == WRITE_INVOKED:
        rows: Rows = tuple((str(key), str(value)) for key, value in _pairs(fields["rows"]))
        write = Write(str(fields["write"]), rows)
        return replace(
            ghosts,
            invoked=ghosts.invoked | {write},
            before=ghosts.before | {(earlier, write) for earlier in ghosts.acknowledged},
        )
    if note.event == WRITE_ACKNOWLEDGED:
        (done,) = (write for write in ghosts.invoked if write.name == fields["write"])
        return replace(ghosts, acknowledged=ghosts.acknowledged | {done})
    return ghosts


def _pairs(rows: object) -> Iterator[tuple[object, object]]:
    assert isinstance(rows, tuple)
    yield from rows


def judge(rows: Mapping[str, str], writes: Writes) -> Violation | None:
    """None if some order of the writes explains ``rows`` (key -> value), else what is wrong with them."""
    if explain(rows, writes) is not None:
        return None
    return _never_written(rows, writes) or _lost(rows, writes) or _torn(rows, writes) or _no_order(rows, writes)


def explain(rows: Mapping[str, str], writes: Writes) -> tuple[Write, ...] | None:
    """Writes in an order that leaves exactly ``rows``: all acknowledged ones, some of the others; None if none does."""
    return _explained(dict(rows), frozenset(), writes.invoked, writes)


def _explained(
    rows: Mapping[str, str], decided: frozenset[str], left: frozenset[Write], writes: Writes
) -> tuple[Write, ...] | None:
    """Search backwards: the last write decides its keys; ``decided`` keys are those of later writes."""
    if not (left & writes.acknowledged) and set(rows) <= decided:
        return ()
    for last in sorted(left):
        if any((last, other) in writes.before for other in left):
            continue
        if any(key not in decided and rows.get(key) != value for key, value in last.rows):
            continue
        earlier = _explained(rows, decided | {key for key, _ in last.rows}, left - {last}, writes)
        if earlier is not None:
            return (*earlier, last)
    droppable = [write for write in sorted(left) if write not in writes.acknowledged]
    for unheard in droppable:
        found = _explained(rows, decided, left - {unheard}, writes)
        if found is not None:
            return found
    return None


def _violation(clause: str, reason: str, rows: Mapping[str, str], writes: Writes, **shown: str) -> Violation:
    counterexample = (
        *shown.items(),
        ("rows found", ", ".join(f"{key}={value}" for key, value in sorted(rows.items())) or "none"),
        ("acknowledged", ", ".join(write.name for write in sorted(writes.acknowledged)) or "none"),
        ("invoked", ", ".join(write.name for write in sorted(writes.invoked)) or "none"),
    )
    return Violation(clause, "acknowledged writes survive", reason, counterexample)


def _never_written(rows: Mapping[str, str], writes: Writes) -> Violation | None:
    written = {row for write in writes.invoked for row in write.rows}
    for row in sorted(rows.items()):
        if row not in written:
            reason = f"{row[0]}={row[1]} is there after the crash, and no write that was invoked put it"
            return _violation("AMB-22", reason, rows, writes, key=row[0])
    return None


def _lost(rows: Mapping[str, str], writes: Writes) -> Violation | None:
    """An acknowledged write of whose keys one holds nothing, or what was acknowledged before it was invoked."""
    for write in sorted(writes.acknowledged):
        older = {row for earlier in writes.invoked if (earlier, write) in writes.before for row in earlier.rows}
        for key, value in write.rows:
            found = rows.get(key)
            if found is None or (found != value and (key, found) in older):
                instead = "nothing" if found is None else f"the older {found}"
                reason = f"write {write.name} was acknowledged, and {key} holds {instead} after the crash"
                return _violation("WAL-001", reason, rows, writes, write=write.name, key=key)
    return None


def _torn(rows: Mapping[str, str], writes: Writes) -> Violation | None:
    for write in sorted(writes.invoked):
        here = [key for key, value in write.rows if rows.get(key) == value]
        gone = [key for key, _ in write.rows if key not in rows]
        if here and gone:
            reason = f"write {write.name} left {here[0]} and not {gone[0]}: it is there in part"
            return _violation("AMB-22", reason, rows, writes, write=write.name)
    return None


def _no_order(rows: Mapping[str, str], writes: Writes) -> Violation:
    return _violation("WAL-019", "no order of the writes explains the rows after the crash", rows, writes)
