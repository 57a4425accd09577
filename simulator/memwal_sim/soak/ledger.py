"""What clients wrote and were told, and whether a read fits that: the ghosts of a soak.

A write puts values that nobody else writes under its keys, whole or not at all. It has taken effect when it was
acknowledged, or when a read that has ended saw it; before that, and for ever if it failed, it may take effect at any
moment after it was begun (AMB-22). A value is stale for a read if some write of that key was begun after the value had
taken effect, and had itself taken effect before the read began. Time is virtual, in milliseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..world import Violation

STRONG = "strong reads see acknowledged writes"
EVENTUAL = "eventual reads never go back"
DRAINED = "the drained base table is the fold of the writes"

_NEVER = math.inf
_BEGINNING = -math.inf


@dataclass(slots=True)
class Put:
    """One write of a client."""

    number: int
    who: str
    keys: tuple[str, ...]
    begun_ms: float
    done_ms: float = _NEVER
    """When it had taken effect for certain."""
    acknowledged: bool = False


@dataclass(slots=True)
class _Key:
    """Writes of one key that took effect: times ascending, and the latest beginning among them up to there."""

    done_ms: list[float] = field(default_factory=list)
    begun_ms: list[float] = field(default_factory=list)

    def add(self, put: Put) -> None:
        latest = self.begun_ms[-1] if self.begun_ms else _BEGINNING
        self.done_ms.append(put.done_ms)
        self.begun_ms.append(max(latest, put.begun_ms))

    def floor_ms(self, start_ms: float) -> float:
        """Latest beginning of a write that had taken effect before ``start_ms``."""
        at = bisect_left(self.done_ms, start_ms)
        return self.begun_ms[at - 1] if at else _BEGINNING

    def forget(self, start_ms: float) -> None:
        """Drop what no read that begins at ``start_ms`` or later asks for."""
        at = bisect_left(self.done_ms, start_ms) - 1
        if at > 0:
            del self.done_ms[:at], self.begun_ms[:at]


class Ledger:
    """All writes of a soak. Values are text that begins with the write's number in hexadecimal, and a point."""

    def __init__(self, value_bytes: int) -> None:
        self._value_bytes = value_bytes
        self._puts: dict[int, Put] = {}
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
        self._puts[number] = Put(number, who, keys, now_ms)
        return number, f"{number:x}.".ljust(self._value_bytes, "~")

    def acknowledge(self, number: int, now_ms: float) -> None:
        """The client was told that the write is durable."""
        put = self._puts[number]
        put.acknowledged = True
        self.acknowledged += 1
        self._done(put, now_ms)

    def _done(self, put: Put, now_ms: float) -> None:
        if put.done_ms == _NEVER:
            put.done_ms = now_ms
            for key in put.keys:
                self._keys.setdefault(key, _Key()).add(put)

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
            for value in rows.values():
                put = self._put_of(value)
                if put is not None:
                    self._done(put, now_ms)
        return violation

    def _judged(self, rows: Mapping[str, str], start_ms: float, oracle: str) -> Violation | None:
        for key, known in self._keys.items():
            if key not in rows and known.floor_ms(start_ms) > _BEGINNING:
                return self._violation("WAL-001", oracle, f"{key} was written and acknowledged, and is not there", key)
        for key, value in rows.items():
            put = self._put_of(value)
            if put is None or key not in put.keys:
                written = self._number(value) < self.begun
                reason = "is long replaced" if written else "was never written"
                clause = "WAL-001" if written else "AMB-22"
                return self._violation(clause, oracle, f"{key} holds {value!r}, which {reason}", key)
            if self._is_stale(key, put, start_ms):
                reason = f"{key} holds write {put.number}, and a later one had taken effect before the read began"
                return self._violation("WAL-001", oracle, reason, key, put)
            for other in put.keys:
                beside = self._put_of(rows[other]) if other in rows else None
                if other not in rows or (beside is not None and beside.done_ms < put.begun_ms):
                    reason = f"write {put.number} is there under {key} and not under {other}"
                    return self._violation("AMB-22", oracle, reason, key, put)
        return None

    def _is_stale(self, key: str, put: Put, start_ms: float) -> bool:
        return self._keys[key].floor_ms(start_ms) > put.done_ms if key in self._keys else False

    def went_back(
        self, before: Mapping[str, str], after: Mapping[str, str], *, words: str = "before", clause: str = "READ-009"
    ) -> Violation | None:
        """What is older in the eventual read ``after`` than in ``before``, than which it must not be older.

        ``before``: an earlier one, of a version that is not newer, or (``words``) something else.
        """
        for key, value in before.items():
            if key not in after:
                return self._violation(clause, EVENTUAL, f"{key} was read {words}, and is gone", key)
            old, new = self._put_of(value), self._put_of(after[key])
            if old is not None and new is not None and new.done_ms < old.begun_ms:
                reason = f"{key} holds write {old.number} {words}, and the older {new.number} in an eventual read"
                return self._violation(clause, EVENTUAL, reason, key, new)
        for key, value in after.items():
            if self._number(value) >= self.begun:
                return self._violation("AMB-22", EVENTUAL, f"{key} holds {value!r}, which was never written", key)
        return None

    def forget(self, now_ms: float) -> None:
        """Drop writes that no read may return any more."""
        start_ms = min(self._reading.values(), default=now_ms)
        gone = [
            number for number, put in self._puts.items() if all(self._is_stale(key, put, start_ms) for key in put.keys)
        ]
        for number in gone:
            del self._puts[number]
        for known in self._keys.values():
            known.forget(start_ms)

    def _put_of(self, value: str) -> Put | None:
        return self._puts.get(self._number(value))

    def _number(self, value: str) -> int:
        """Number of the write that put ``value``; one that was never given for a value of any other form."""
        digits, point, _ = value.partition(".")
        try:
            return int(digits, 16) if point else self.begun
        except ValueError:
            return self.begun

    def _violation(self, clause: str, oracle: str, reason: str, key: str, put: Put | None = None) -> Violation:
        shown = [("key", key)]
        for one in sorted((p for p in self._puts.values() if key in p.keys), key=lambda p: p.number)[-5:]:
            state = "acknowledged" if one.acknowledged else "not acknowledged"
            until = "" if one.done_ms == _NEVER else f", took effect by {one.done_ms:.0f} ms"
            shown.append((f"write {one.number}", f"by {one.who}, begun at {one.begun_ms:.0f} ms, {state}{until}"))
        if put is not None:
            shown.append(("found", f"write {put.number} by {put.who}"))
        return Violation(clause, oracle, reason, tuple(shown))
