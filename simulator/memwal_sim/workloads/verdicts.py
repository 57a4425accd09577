"""Verdicts on what clients called and were told: whether reads, and what the table holds, have an order with writes."""

from __future__ import annotations

from collections.abc import Mapping

from memwal.violations import Violation

from ..histories.conflict import Contradiction
from ..histories.history import Call, History, Rows
from ..histories.operations import operations
from ..histories.verdicts import check_batches, check_registers
from ..oracles import Asking
from ..scenarios.writes import SURVIVE, disagreeing, twice

LOST, STALE, TORN = SURVIVE, "strong reads find the newest", "writes are whole"
AGREE = "reads agree with writes and with each other"
FINAL = "the read at the end"


def final(history: History, found: Rows) -> Call:
    """The read of what the table holds at the end of ``history``."""
    end = history.now + 1
    return Call(name=FINAL, kind="read", rows=found, invoked=end, returned=end + 1, outcome="ok")


def judge(found: Mapping[str, str], history: History, *, together: bool = True) -> Violation | None:
    """None if the calls and the rows ``found`` at the end have an order.

    ``together``: also if all keys are looked at at once, which holds for the rows of one region.
    """
    last = final(history, tuple(sorted(found.items())))
    return ordered(History((*history.calls, last)), stale=STALE, torn=TORN if together else None)


def ordered(history: History, *, stale: str, torn: str | None) -> Violation | None:
    """None if writes and strong reads have an order, key by key, and all keys at once if there is an oracle ``torn``.

    ``stale``: the oracle for reads.
    """
    calls = operations(history)
    for conflict in check_registers(calls).values():
        return _violation(conflict, stale)
    found = None if torn is None else check_batches(calls)
    return None if found is None or torn is None else found.violation("AMB-22", torn)


def _violation(conflict: Contradiction, stale: str) -> Violation:
    if any(operation.name == FINAL for operation in conflict.operations):
        return conflict.violation("WAL-001", LOST)
    return conflict.violation("READ-008", stale)


def judge_reads(history: History) -> Violation | None:
    """Whether readers of one table version agree, no read finds a key twice, and none finds what was not written."""
    written = {row for call in history.calls if call.kind == "write" for row in call.rows}
    if (wrong := disagreeing(history, AGREE)) is not None:
        return wrong
    for read in history.reads:
        if (wrong := twice(read, AGREE)) is not None:
            return wrong
        unheard = [] if read.strong else sorted(set(read.rows) - written, key=str)
        if unheard:
            return Violation("READ-010", AGREE, f"read {read.name} found {unheard[0]}, which was never written")
    return None


def _told(_contents: object, history: History) -> Violation | None:
    return judge_reads(history)


reads_agree = Asking(_told)
"""Oracle: `judge_reads`. It looks at nothing that is stored."""
