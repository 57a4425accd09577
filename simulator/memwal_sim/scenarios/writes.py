"""Writes and reads of clients as ghosts, and whether the rows that anybody finds can be explained by the writes.

A write puts or deletes rows by key, whole or not at all. One that was acknowledged has happened; one that was invoked
and failed, or has not come back, may have happened at any time since its invocation (AMB-22); one that was never
invoked has not. Writes of one region take effect one after another, and a write that was acknowledged before another
was invoked takes effect before it. A strong read finds all that was acknowledged before it began, and nothing that was
invoked after its end; an eventual one may be behind. What a strong read found has happened, and must survive like
what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memwal.effects import Note

from ..oracles import Asking
from ..world import Violation, says

WRITE_INVOKED = "write_invoked"
WRITE_ACKNOWLEDGED = "write_acknowledged"
"""Events that a client makes around a put: fields ``write`` (unique name) and, when invoked, ``rows``."""
READ_INVOKED = "read_invoked"
READ_RETURNED = "read_returned"
"""Events that a client makes around a read of the whole table: fields ``read`` (unique name), when invoked ``strong``,
and when it returned ``rows``."""

READS = "reads are explained"
"""Name of the oracle for reads."""
SURVIVE = "acknowledged writes survive"
"""Name of the oracle for rows."""
HEARD = frozenset({WRITE_INVOKED, WRITE_ACKNOWLEDGED, READ_INVOKED, READ_RETURNED})
"""The events that `observe_writes` makes something of."""

Rows = tuple[tuple[str, str | None], ...]
"""(key, value) pairs; None: the key is deleted."""


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
    settled: frozenset[Write] = frozenset()
    """Those of the acknowledged that every eventual read finds too."""
    reading: tuple[tuple[str, frozenset[Write], bool], ...] = ()
    """Reads under way: name, writes acknowledged before it began, whether it is strong."""
    versions: tuple[tuple[int, Rows], ...] = ()
    """Table versions that were read, and what they held."""
    misread: Violation | None = None
    """The first read that no order of the writes explains."""


def observe_writes(ghosts: Writes, _actor: str, note: Note) -> Writes:
    """`Observe` for `Writes`."""
    fields = dict(note.fields)
    if note.event == WRITE_INVOKED:
        rows: Rows = tuple((str(key), None if value is None else str(value)) for key, value in _pairs(fields["rows"]))
        write = Write(str(fields["write"]), rows)
        return replace(
            ghosts,
            invoked=ghosts.invoked | {write},
            before=ghosts.before | {(earlier, write) for earlier in ghosts.acknowledged},
        )
    if note.event == WRITE_ACKNOWLEDGED:
        (done,) = (write for write in ghosts.invoked if write.name == fields["write"])
        return replace(ghosts, acknowledged=ghosts.acknowledged | {done})
    if note.event == READ_INVOKED:
        begun = (str(fields["read"]), ghosts.acknowledged, bool(fields["strong"]))
        return replace(ghosts, reading=tuple(sorted((*ghosts.reading, begun), key=lambda each: each[0])))
    if note.event == READ_RETURNED:
        (begun,) = (each for each in ghosts.reading if each[0] == fields["read"])
        rows = tuple((str(key), str(value)) for key, value in _pairs(fields["rows"]))
        seen = {write for write in ghosts.invoked if begun[2] and set(write.rows) & set(rows)}
        left = tuple(each for each in ghosts.reading if each != begun)
        misread = ghosts.misread or _misread(begun, rows, ghosts)
        told = replace(ghosts, acknowledged=ghosts.acknowledged | seen, reading=left, misread=misread)
        version = fields.get("version")
        return told if version is None else _of_version(told, int(str(version)), rows)
    return ghosts


def _of_version(ghosts: Writes, version: int, rows: Rows) -> Writes:
    """``ghosts`` after ``version`` was read: it must hold what it held before."""
    before = dict(ghosts.versions).get(version)
    if before is None:
        return replace(ghosts, versions=tuple(sorted((*ghosts.versions, (version, rows)))))
    if before == rows or ghosts.misread is not None:
        return ghosts
    reason = f"version {version} held {before} when it was read first, and holds {rows}"
    return replace(ghosts, misread=Violation("READ-013", READS, reason))


def _misread(begun: tuple[str, frozenset[Write], bool], rows: Rows, ghosts: Writes) -> Violation | None:
    """What is wrong with a read that found ``rows``; None if some order of the writes explains it."""
    name, acknowledged, strong = begun
    needed = acknowledged if strong else ghosts.settled
    found = {key: str(value) for key, value in rows}
    if len(found) < len(rows):
        return Violation("READ-002", READS, f"read {name} found a key twice: {rows}")
    wrong = judge(found, Writes(invoked=ghosts.invoked, acknowledged=needed, before=ghosts.before))
    if wrong is None:
        return None
    kind, clause = ("strong", "READ-008") if strong else ("eventual", "READ-010")
    shown = (("read", name), *wrong.counterexample)
    return Violation(clause, READS, f"{kind} read {name} found rows that no order of the writes explains", shown)


@says(READS)
def _told(_contents: object, ghosts: Writes) -> Violation | None:
    return ghosts.misread


reads_are_explained = Asking(_told)
"""Oracle: every read so far is explained by the writes around it. It looks at nothing that is stored."""


def _pairs(rows: object) -> Iterator[tuple[object, object]]:
    assert isinstance(rows, tuple)
    yield from rows


@says(SURVIVE)
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
    return Violation(clause, SURVIVE, reason, counterexample)


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
