"""The client history of a soak, which forgets what no read may find any more, and whether a read fits it.

A write puts values that no other process writes under its keys, whole or not at all. It has taken effect when it was
acknowledged, or when a read that has ended saw it; before that, and for ever if it failed, it may take effect at any
moment after it was begun (AMB-22). A value is stale for a read if some write of that key was begun after the value had
taken effect, and had itself taken effect before the read began. Time is virtual, in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from memwal.violations import Violation

from ..histories.history import Call

STRONG = "strong reads see acknowledged writes"
EVENTUAL = "eventual reads never go back"
DRAINED = "the drained base table is the fold of the writes"

_BEGINNING = float("-inf")


@dataclass(slots=True)
class _Key:
    """Writes of one key that took effect: times ascending, and the latest beginning among them up to there."""

    done_ms: list[float] = field(default_factory=list)
    begun_ms: list[float] = field(default_factory=list)

    def add(self, write: Call, done_ms: float) -> None:
        latest = self.begun_ms[-1] if self.begun_ms else _BEGINNING
        self.done_ms.append(done_ms)
        self.begun_ms.append(max(latest, write.invoked))

    def floor_ms(self, start_ms: float) -> float:
        """Latest beginning of a write that had taken effect before ``start_ms``."""
        at = bisect_left(self.done_ms, start_ms)
        return self.begun_ms[at - 1] if at else _BEGINNING

    def forget(self, start_ms: float) -> None:
        """Drop what no read that begins at ``start_ms`` or later asks for."""
        at = bisect_left(self.done_ms, start_ms) - 1
        if at > 0:
            del self.done_ms[:at], self.begun_ms[:at]


class SoakHistory:
    """All writes of a soak, by number. Values are text that begins with that number in hexadecimal, and a point."""

    def __init__(self, value_bytes: int) -> None:
        self._value_bytes = value_bytes
        self._writes: dict[int, Call] = {}
        self._keys: dict[str, _Key] = {}
        self._reading: dict[int, float] = {}
        self._next_read = 0
        self.begun = 0
        """Writes that were begun, which is also the next number."""
        self.acknowledged = 0

    def begin(self, who: str, keys: tuple[str, ...], now_ms: float) -> tuple[int, str]:
        """A write of ``keys`` begins; returns its number, and the value that it puts under each."""
        number = self.begun
        self.begun += 1
        value = f"{number:x}.".ljust(self._value_bytes, "~")
        rows = tuple((key, value) for key in keys)
        self._writes[number] = Call(name=f"write {number}", rows=rows, invoked=now_ms, process=who)
        return number, value

    def acknowledge(self, number: int, now_ms: float) -> None:
        """The client was told that the write is durable."""
        self.acknowledged += 1
        self._done(number, now_ms)
        self._writes[number] = replace(self._writes[number], outcome="ok")

    def _done(self, number: int, now_ms: float) -> None:
        """The write has taken effect, which is known from now on."""
        write = self._writes[number]
        if write.returned is None:
            self._writes[number] = replace(write, returned=now_ms)
            for key, _ in write.rows:
                self._keys.setdefault(key, _Key()).add(write, now_ms)

    def start_read(self, now_ms: float) -> int:
        """A read begins; returns a handle for `end_read`."""
        self._next_read += 1
        self._reading[self._next_read] = now_ms
        return self._next_read

    def drop_read(self, handle: int) -> None:
        """The read failed or its reader crashed."""
        self._reading.pop(handle, None)

    def end_read(self, handle: int, rows: Mapping[str, str], now_ms: float, oracle: str = STRONG) -> Violation | None:
        """Judge a strong read of all rows (key -> value) that began with ``handle`` and ends now."""
        start_ms = self._reading.pop(handle)
        violation = self._judged(rows, start_ms, oracle)
        if violation is None:
            for value in set(rows.values()):
                if (number := self._number(value)) in self._writes:
                    self._done(number, now_ms)
        return violation

    def _judged(self, rows: Mapping[str, str], start_ms: float, oracle: str) -> Violation | None:
        for key, known in self._keys.items():
            if key not in rows and known.floor_ms(start_ms) > _BEGINNING:
                return self._violation("WAL-001", oracle, f"{key} was written and acknowledged, and is not there", key)
        for key, value in rows.items():
            write = self._write_of(value)
            if write is None or (key, value) not in write.rows:
                replaced = write is None and self._number(value) < self.begun
                reason = "is long replaced" if replaced else "was never written"
                clause = "WAL-001" if replaced else "AMB-22"
                return self._violation(clause, oracle, f"{key} holds {value!r}, which {reason}", key)
            if self._is_stale(key, write, start_ms):
                reason = f"{key} holds {write.name}, and a later one had taken effect before the read began"
                return self._violation("WAL-001", oracle, reason, key, write)
            for other, _ in write.rows:
                beside = self._write_of(rows[other]) if other in rows else None
                if other not in rows or (beside is not None and beside.precedes(write)):
                    reason = f"{write.name} is there under {key} and not under {other}"
                    return self._violation("AMB-22", oracle, reason, key, write)
        return None

    def _is_stale(self, key: str, write: Call, start_ms: float) -> bool:
        known = self._keys.get(key)
        return known is not None and write.returned is not None and known.floor_ms(start_ms) > write.returned

    def went_back(
        self, before: Mapping[str, str], after: Mapping[str, str], *, words: str = "before", clause: str = "READ-009"
    ) -> Violation | None:
        """What is older in the eventual read ``after`` than in ``before``, than which it must not be older.

        ``before``: an earlier one, of a version that is not newer, or (``words``) something else.
        """
        for key, value in before.items():
            if key not in after:
                return self._violation(clause, EVENTUAL, f"{key} was read {words}, and is gone", key)
            old, new = self._write_of(value), self._write_of(after[key])
            if old is not None and new is not None and new.precedes(old):
                reason = f"{key} holds {old.name} {words}, and the older {new.name} in an eventual read"
                return self._violation(clause, EVENTUAL, reason, key, new)
        for key, value in after.items():
            if self._number(value) >= self.begun:
                return self._violation("AMB-22", EVENTUAL, f"{key} holds {value!r}, which was never written", key)
        return None

    def forget(self, now_ms: float) -> None:
        """Drop writes that no read may return any more."""
        start_ms = min(self._reading.values(), default=now_ms)
        gone = [
            number
            for number, write in self._writes.items()
            if all(self._is_stale(key, write, start_ms) for key, _ in write.rows)
        ]
        for number in gone:
            del self._writes[number]
        for known in self._keys.values():
            known.forget(start_ms)

    def _write_of(self, value: str) -> Call | None:
        return self._writes.get(self._number(value))

    def _number(self, value: str) -> int:
        """Number of the write that put ``value``; one that was never given for a value of any other form."""
        digits, point, _ = value.partition(".")
        try:
            return int(digits, 16) if point else self.begun
        except ValueError:
            return self.begun

    def _violation(self, clause: str, oracle: str, reason: str, key: str, found: Call | None = None) -> Violation:
        shown = [("key", key)]
        for one in [write for write in self._writes.values() if key in dict(write.rows)][-5:]:
            state = "acknowledged" if one.outcome == "ok" else "not acknowledged"
            until = "" if one.returned is None else f", took effect by {one.returned:.0f} ms"
            shown.append((one.name, f"by {one.process}, begun at {one.invoked:.0f} ms, {state}{until}"))
        if found is not None:
            shown.append(("found", f"{found.name} by {found.process}"))
        return Violation(clause, oracle, reason, tuple(shown))
