"""What processes note of their clients' calls, and the history that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memwal.effects import Note

from .history import History, Rows

WRITE_INVOKED, WRITE_ACKNOWLEDGED, WRITE_REFUSED = "write_invoked", "write_acknowledged", "write_refused"
"""Events that a client makes around a write: fields ``write`` (its name) and, when invoked, ``rows``. One that is never
heard of again is of unknown outcome."""
READ_INVOKED, READ_RETURNED = "read_invoked", "read_returned"
"""Events that a client makes around a read of the whole table: fields ``read`` (its name), when invoked ``strong``, and
when it returned ``rows`` and, of a reader of table versions, ``version``."""


def observe(history: History, actor: str, note: Note) -> History:
    """`world.Observe` for a `History` that keeps all calls."""
    heard = _HEARD.get(note.event)
    return history if heard is None else heard(history, actor, dict(note.fields))


def observe_condensed(history: History, actor: str, note: Note) -> History:
    """`observe` for an exploration: what no later call can tell apart is one state."""
    after = observe(history, actor, note)
    return history if after is history else after.condensed()


def _write_begins(history: History, actor: str, fields: Mapping[str, Any]) -> History:
    return history.begun(str(fields["write"]), _rows(fields["rows"]), process=actor)


def _read_begins(history: History, actor: str, fields: Mapping[str, Any]) -> History:
    return history.begun(str(fields["read"]), kind="read", process=actor, strong=bool(fields.get("strong", True)))


def _acknowledged(history: History, _actor: str, fields: Mapping[str, Any]) -> History:
    return history.ended(str(fields["write"]), "ok")


def _refused(history: History, _actor: str, fields: Mapping[str, Any]) -> History:
    return history.ended(str(fields["write"]), "failed")


def _read_ends(history: History, _actor: str, fields: Mapping[str, Any]) -> History:
    version = fields.get("version")
    number = None if version is None else int(version)
    return history.ended(str(fields["read"]), "ok", kind="read", rows=_rows(fields["rows"]), version=number)


def _rows(found: Any) -> Rows:
    return tuple(sorted(((str(key), None if value is None else str(value)) for key, value in found), key=str))


_HEARD: Mapping[str, Callable[[History, str, Mapping[str, Any]], History]] = {
    WRITE_INVOKED: _write_begins,
    WRITE_ACKNOWLEDGED: _acknowledged,
    WRITE_REFUSED: _refused,
    READ_INVOKED: _read_begins,
    READ_RETURNED: _read_ends,
}
HEARD = frozenset(_HEARD)
"""The events that `observe` makes something of."""
