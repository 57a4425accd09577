"""Operations of clients on registers, one register per key, and the text form of a history of them.

A history is JSON Lines: one object per operation, in any order. A recorder, in whatever language, needs one
clock for all clients: any numbers that grow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from memwal.codec import json_text
from memwal.errors import ArtifactError, InvalidArgument

from .history import History, Kind

CLAUSE = "HISTORY"
"""Clause of the `ArtifactError` that a broken history is."""

Value: TypeAlias = str | int | None
"""What a register holds; None: nothing, the key is absent."""
Outcome = Literal["ok", "unknown", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A write or a read of one register, with the interval in which it took effect, if it did.

    An operation that returned before another was invoked comes before it. Equal times say nothing.
    """

    key: str
    kind: Kind
    value: Value
    """What is written, or what the read found. A write of None deletes the key."""
    invoked: int
    """When the client called."""
    returned: int | None
    """When the call came back; None: it never did."""
    outcome: Outcome = "ok"
    """``ok``: it took effect before it returned. ``unknown``: it may have, once, at any time since it was invoked.
    ``failed``: it never does. A call that never came back is ``unknown``."""
    name: str = ""
    """For people; need not be unique."""
    batch: str | None = None
    """Writes, or reads, of one batch are one atomic operation on several keys, see `histories.check_batches`."""

    def __post_init__(self) -> None:
        if self.returned is None and self.outcome == "ok":
            raise InvalidArgument(f"{self}: an operation that never returned must have an unknown outcome")
        if self.returned is not None and self.returned < self.invoked:
            raise InvalidArgument(f"{self}: it returned at {self.returned}, before it was invoked at {self.invoked}")

    def __str__(self) -> str:
        found = "nothing" if self.value is None else repr(self.value)
        what = f"{self.kind} of {self.key} = {found}"
        return f"{self.name} ({what})" if self.name else what

    @property
    def end(self) -> float:
        """The latest moment at which it can take effect: open for a write of unknown outcome."""
        return float("inf") if self.returned is None or self.outcome == "unknown" else self.returned

    @property
    def counts(self) -> bool:
        """Whether it can tell anything: reads without an answer do not, and nor do writes that never take effect."""
        return self.outcome == "ok" or (self.kind == "write" and self.outcome == "unknown")


def operations(history: History) -> tuple[Operation, ...]:
    """``history`` key by key, without eventual reads: each call is a batch, and a read is one of all keys there are."""
    keys = sorted({key for call in history.calls for key, _ in call.rows})
    return tuple(
        Operation(
            key=key,
            kind=call.kind,
            value=dict(call.rows).get(key),
            invoked=int(call.invoked),
            returned=None if call.returned is None else int(call.returned),
            outcome="unknown" if call.outcome == "buffered" else call.outcome,
            name=call.name,
            batch=str(number),
        )
        for number, call in enumerate(call for call in history.calls if call.strong)
        for key in (keys if call.kind == "read" else dict(call.rows))
    )


_NEEDED = {
    "key": (str,),
    "kind": (str,),
    "value": (str, int, type(None)),
    "invoked": (int,),
    "returned": (int, type(None)),
}
_MORE = {"outcome": (str,), "name": (str,), "batch": (str, type(None))}


def parse(text: str, name: str) -> tuple[Operation, ...]:
    """The history in ``text``; raises `ArtifactError` with ``name`` and line number for anything else."""
    return tuple(_operation(line, name, number) for number, line in enumerate(text.splitlines(), 1))


def dumps(operations: Iterable[Operation]) -> str:
    """The text of a history: one JSON object per line; fields that say nothing are left out."""
    return "".join(json.dumps(_line(each), ensure_ascii=False) + "\n" for each in operations)


def _line(operation: Operation) -> dict[str, Any]:
    line = asdict(operation)
    empty = {"name": "", "batch": None}
    return {field: value for field, value in line.items() if field not in empty or value != empty[field]}


def _operation(line: str, name: str, number: int) -> Operation:
    try:
        found = json_text.parse(line, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise _broken(name, number, f"not JSON: {error.msg} at column {error.colno}") from None
    except (_TwiceError, RecursionError) as error:
        raise _broken(name, number, str(error)) from None
    if not isinstance(found, dict):
        raise _broken(name, number, "not a JSON object")
    known = {**_NEEDED, **_MORE}
    for wrong in sorted(found.keys() - known.keys()):
        raise _broken(name, number, f"unknown field {wrong!r}; there are {', '.join(known)}")
    for missing in (field for field in _NEEDED if field not in found):
        raise _broken(name, number, f"field {missing!r} is missing")
    for field, value in found.items():
        if isinstance(value, bool) or not isinstance(value, known[field]):
            raise _broken(name, number, f"field {field!r} cannot be {json.dumps(value)}")
    if found["kind"] not in get_args(Kind):
        raise _broken(name, number, f"kind {found['kind']!r} must be one of {', '.join(get_args(Kind))}")
    outcome = found.setdefault("outcome", "ok" if found["returned"] is not None else "unknown")
    if outcome not in get_args(Outcome):
        raise _broken(name, number, f"outcome {outcome!r} is none of {', '.join(get_args(Outcome))}")
    try:
        return Operation(**found)
    except InvalidArgument as error:
        raise _broken(name, number, str(error)) from None


class _TwiceError(ValueError):
    """A field is there twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError("a field is there twice")
    return found


def _broken(name: str, line: int, reason: str) -> ArtifactError:
    return ArtifactError(CLAUSE, f"{name}, line {line}", reason)
