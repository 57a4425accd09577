"""Whether the rows that readers find can be explained by the writes of clients.

Writes of one region take effect one after another, and a write that was acknowledged before another was invoked takes
effect before it. A strong read finds all that was acknowledged before it began, and nothing that was invoked after its
end; an eventual one may be behind. What a strong read found has happened, and must survive like what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memwal.violations import Violation

from ..histories.history import Call, History, explanation
from ..oracles import Asking
from ..world import says

READS = "reads are explained"
"""Name of the oracle for reads."""
SURVIVE = "acknowledged writes survive"
"""Name of the oracle for rows."""


def misread(history: History) -> Violation | None:
    """What is wrong with the first read that no order of the writes explains, or that disagrees with an earlier one."""
    for read in history.reads:
        wrong = _misread(read, history)
        if wrong is not None:
            return wrong
    return disagreeing(history, READS)


def disagreeing(history: History, oracle: str) -> Violation | None:
    """A table version must hold what it held when it was read first."""
    first: dict[int, object] = {}
    for version, rows in history.versions:
        if first.setdefault(version, rows) != rows:
            reason = f"version {version} held {first[version]} when it was read first, and holds {rows}"
            return Violation("READ-013", oracle, reason)
    return None


def twice(read: Call, oracle: str) -> Violation | None:
    """A read finds each key once."""
    if len(dict(read.rows)) == len(read.rows):
        return None
    return Violation("READ-002", oracle, f"read {read.name} found a key twice: {read.rows}")


def _misread(read: Call, history: History) -> Violation | None:
    if (found_twice := twice(read, READS)) is not None:
        return found_twice
    wrong = _judged(dict(read.rows), history.seen_by(read))
    if wrong is None:
        return None
    kind, clause = ("strong", "READ-008") if read.strong else ("eventual", "READ-010")
    shown = (("read", read.name), *wrong.counterexample)
    return Violation(clause, READS, f"{kind} read {read.name} found rows that no order of the writes explains", shown)


@says(READS)
def _told(_contents: object, history: History) -> Violation | None:
    return misread(history)


reads_are_explained = Asking(_told)
"""Oracle: every read so far is explained by the writes around it. It looks at nothing that is stored."""


@says(SURVIVE)
def judge(rows: Mapping[str, str], history: History) -> Violation | None:
    """None if some order of the writes explains ``rows`` (key -> value), else what is wrong with them."""
    return _judged(rows, history.writes)


def _judged(rows: Mapping[str, str], writes: Sequence[Call]) -> Violation | None:
    if explanation(rows, writes) is not None:
        return None
    known = sorted(writes, key=lambda write: write.name)
    return _never_written(rows, known) or _lost(rows, known) or _torn(rows, known) or _no_order(rows, known)


def _violation(clause: str, reason: str, rows: Mapping[str, str], writes: Sequence[Call], **shown: str) -> Violation:
    acknowledged = [write.name for write in writes if write.outcome == "ok"]
    counterexample = (
        *shown.items(),
        ("rows found", ", ".join(f"{key}={value}" for key, value in sorted(rows.items())) or "none"),
        ("acknowledged", ", ".join(acknowledged) or "none"),
        ("invoked", ", ".join(write.name for write in writes) or "none"),
    )
    return Violation(clause, SURVIVE, reason, counterexample)


def _never_written(rows: Mapping[str, str], writes: Sequence[Call]) -> Violation | None:
    written = {row for write in writes for row in write.rows}
    for row in sorted(rows.items()):
        if row not in written:
            reason = f"{row[0]}={row[1]} is there after the crash, and no write that was invoked put it"
            return _violation("AMB-22", reason, rows, writes, key=row[0])
    return None


def _lost(rows: Mapping[str, str], writes: Sequence[Call]) -> Violation | None:
    """An acknowledged write of whose keys one holds nothing, or what was acknowledged before it was invoked."""
    for write in writes:
        if write.outcome != "ok":
            continue
        older = {row for earlier in writes if earlier.precedes(write) for row in earlier.rows}
        for key, value in write.rows:
            found = rows.get(key)
            if (found is None and value is not None) or (found != value and (key, found) in older):
                instead = "nothing" if found is None else f"the older {found}"
                reason = f"write {write.name} was acknowledged, and {key} holds {instead} after the crash"
                return _violation("WAL-001", reason, rows, writes, write=write.name, key=key)
    return None


def _torn(rows: Mapping[str, str], writes: Sequence[Call]) -> Violation | None:
    for write in writes:
        here = [key for key, value in write.rows if rows.get(key) == value]
        gone = [key for key, _ in write.rows if key not in rows]
        if here and gone:
            reason = f"write {write.name} left {here[0]} and not {gone[0]}: it is there in part"
            return _violation("AMB-22", reason, rows, writes, write=write.name)
    return None


def _no_order(rows: Mapping[str, str], writes: Sequence[Call]) -> Violation:
    return _violation("WAL-019", "no order of the writes explains the rows after the crash", rows, writes)
