"""What clients called and what was answered, as ghosts of a workload, and verdicts on it.

Each announcement takes one tick of one clock, so that an account is a history in the sense of `histories`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memwal.effects import Note

from ..histories.operations import Outcome
from ..histories.verdicts import Conflict, Operation, check_batches, check_registers
from ..oracles import Asking
from ..scenarios.writes import READ_INVOKED, READ_RETURNED, WRITE_ACKNOWLEDGED, WRITE_INVOKED
from ..world import Violation

WRITE_REFUSED = "write_refused"
"""Event of a client whose write failed for certain: field ``write``."""

Rows = tuple[tuple[str, str | None], ...]
"""Key and value, sorted; None: deleted."""

LOST, STALE, TORN = "acknowledged writes survive", "strong reads find the newest", "writes are whole"
AGREE = "reads agree with writes and with each other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A write or a read of the whole table by a client."""

    name: str
    reading: bool
    strong: bool = True
    """False: a read that may find less than what was acknowledged before it."""
    rows: Rows
    """Written, or found; of a read that has not returned: empty."""
    invoked: int
    returned: int | None = None
    outcome: Outcome = "unknown"


@dataclass(frozen=True, slots=True)
class Account:
    """All calls so far, in the order in which they began."""

    calls: tuple[Call, ...] = ()
    clock: int = 0
    versions: tuple[tuple[int, Rows], ...] = ()
    """What readers of table versions found, in the order in which they returned."""

    def returned(self, name: str, *, reading: bool, outcome: Outcome, rows: Rows | None = None) -> Account:
        """The account after the latest call of that name came back."""
        at = max(at for at, call in enumerate(self.calls) if call.name == name and call.reading is reading)
        before = self.calls[at]
        after = replace(before, returned=self.clock, outcome=outcome, rows=before.rows if rows is None else rows)
        return replace(self, calls=(*self.calls[:at], after, *self.calls[at + 1 :]))


def observe(account: Account, _actor: str, note: Note) -> Account:
    """`Observe` for `Account`."""
    told = dict(note.fields)
    match note.event:
        case "write_invoked":
            return _begun(account, str(told["write"]), _rows(told["rows"]), reading=False)
        case "read_invoked":
            return _begun(account, str(told["read"]), (), reading=True, strong=bool(told.get("strong", True)))
        case "write_acknowledged":
            return _later(account).returned(str(told["write"]), reading=False, outcome="ok")
        case "write_refused":
            return _later(account).returned(str(told["write"]), reading=False, outcome="failed")
        case "read_returned":
            rows = _rows(told["rows"])
            after = _later(account).returned(str(told["read"]), reading=True, outcome="ok", rows=rows)
            if told.get("version") is None:
                return after
            return replace(after, versions=(*account.versions, (int(str(told["version"])), rows)))
    return account


assert {WRITE_INVOKED, WRITE_ACKNOWLEDGED} == {"write_invoked", "write_acknowledged"}
assert {READ_INVOKED, READ_RETURNED, WRITE_REFUSED} == {"read_invoked", "read_returned", "write_refused"}


def _later(account: Account) -> Account:
    return replace(account, clock=account.clock + 1)


def _begun(account: Account, name: str, rows: Rows, *, reading: bool, strong: bool = True) -> Account:
    call = Call(name=name, reading=reading, strong=strong, rows=rows, invoked=account.clock + 1)
    return replace(account, calls=(*account.calls, call), clock=account.clock + 1)


def _rows(told: object) -> Rows:
    assert isinstance(told, tuple)
    return tuple(sorted((str(key), None if value is None else str(value)) for key, value in told))


def operations(account: Account, found: Mapping[str, str] | None = None) -> tuple[Operation, ...]:
    """The account as a history, one batch per call; ``found``: what the table holds at the end, as a last read."""
    keys = sorted({key for call in account.calls for key, _ in call.rows} | set(found or ()))
    return tuple(_operations(account, found, keys))


FINAL = "the read at the end"


def _operations(account: Account, found: Mapping[str, str] | None, keys: list[str]) -> Iterator[Operation]:
    calls = [call for call in account.calls if call.strong]
    if found is not None:
        end = account.clock + 1
        rows: Rows = tuple(sorted(found.items()))
        calls.append(Call(name=FINAL, reading=True, rows=rows, invoked=end, returned=end + 1, outcome="ok"))
    for number, call in enumerate(calls):
        held = dict(call.rows)
        for key in keys if call.reading else held:
            yield Operation(
                key=key,
                kind="read" if call.reading else "write",
                value=held.get(key),
                invoked=call.invoked,
                returned=call.returned,
                outcome=call.outcome,
                name=call.name,
                batch=str(number),
            )


def judge(found: Mapping[str, str], account: Account, *, together: bool = True) -> Violation | None:
    """None if the calls and the rows ``found`` at the end have an order.

    ``together``: also if all keys are looked at at once, which holds for the rows of one region.
    """
    history = operations(account, found)
    for conflict in check_registers(history).values():
        return _violation(conflict)
    torn = check_batches(history) if together else None
    return None if torn is None else torn.violation("AMB-22", TORN)


def _violation(conflict: Conflict) -> Violation:
    if any(operation.name == FINAL for operation in conflict.operations):
        return conflict.violation("WAL-001", LOST)
    return conflict.violation("READ-008", STALE)


def judge_reads(account: Account) -> Violation | None:
    """Whether readers of one table version agree, no read finds a key twice, and none finds what nobody wrote."""
    written = {row for call in account.calls if not call.reading for row in call.rows}
    first: dict[int, Rows] = {}
    for version, rows in account.versions:
        if first.setdefault(version, rows) != rows:
            reason = f"version {version} was read as {first[version]}, and later as {rows}"
            return Violation("READ-013", AGREE, reason)
    for call in account.calls:
        if call.reading and len(dict(call.rows)) < len(call.rows):
            return Violation("READ-002", AGREE, f"read {call.name} found a key twice: {call.rows}")
        unheard = sorted(set(call.rows) - written, key=str) if call.reading and not call.strong else []
        if unheard:
            return Violation("READ-010", AGREE, f"read {call.name} found {unheard[0]}, which nobody wrote")
    return None


def _told(_contents: object, account: Account) -> Violation | None:
    return judge_reads(account)


reads_agree = Asking(_told)
"""Oracle: `judge_reads`. It looks at nothing that is stored."""
