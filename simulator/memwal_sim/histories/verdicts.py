"""Verdicts on histories: whether registers, one per key, can have done what their clients saw.

Two algorithms that share nothing but the operations: `zones` where every value is written once, and the search of
`linearization` for everything else: deletes, repeated values, and operations on several keys at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from memwal.errors import InvalidArgument
from memwal.words import counted

from . import zones
from .conflict import OF_ONE_READ, Contradiction
from .linearization import ObjectStep, linearization
from .operations import Operation, Value

__all__ = ["Contradiction", "Operation", "Value", "check_batches", "check_history", "check_registers", "search_history"]

Check: TypeAlias = Callable[[Sequence[Operation]], "Contradiction | None"]
_Registers: TypeAlias = tuple[tuple[str, Value], ...]
"""Key and value, sorted, without keys that are absent."""


def check_history(operations: Iterable[Operation], initial: Value = None) -> Contradiction | None:
    """None if one register that starts with ``initial`` can have done this; else why not.

    By zones, in O(n log n), if no value is written twice and none writes ``initial``; else by search. Raises
    `InvalidArgument` for operations on several keys.
    """
    history = _of_one_key(operations)
    written = [op.value for op in history if op.kind == "write"]
    if len({initial, *written}) <= len(written):
        return search_history(history, initial)
    found = zones.conflict_of(history, initial)
    return None if found is None else _minimal(found, partial(zones.conflict_of, initial=initial))


def search_history(operations: Iterable[Operation], initial: Value = None) -> Contradiction | None:
    """As `check_history`, by search whatever the values."""
    history = _of_one_key(operations)
    return _searched(history, {} if initial is None or not history else {history[0].key: initial})


def check_registers(
    operations: Iterable[Operation], initial: Mapping[str, Value] | None = None
) -> dict[str, Contradiction]:
    """The conflict of each key that has one. ``initial``: values of keys that are not absent at first."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    verdicts = {key: check_history(history, (initial or {}).get(key)) for key, history in sorted(by_key.items())}
    return {key: found for key, found in verdicts.items() if found is not None}


def check_batches(operations: Iterable[Operation], initial: Mapping[str, Value] | None = None) -> Contradiction | None:
    """As `check_registers`, of all keys at once: operations of one batch happen together, in one moment.

    Exact: it finds writes that are seen in part, and reads that mix two moments. By search, so that many clients at
    once make it slow. Raises `InvalidArgument` for a batch that mixes kinds, outcomes or intervals, or names a key
    twice.
    """
    history = tuple(operations)
    _steps(history)
    return _searched(history, initial or {})


def _of_one_key(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    history = tuple(operations)
    keys = sorted({operation.key for operation in history})
    if len(keys) > 1:
        raise InvalidArgument(
            f"operations on {counted(len(keys), 'key')} ({', '.join(keys[:3])}…): check them one by one"
        )
    return history


def _searched(history: Sequence[Operation], initial: Mapping[str, Value]) -> Contradiction | None:
    state = _registers(initial)

    def check(operations: Sequence[Operation]) -> Contradiction | None:
        if linearization(_steps(operations), state) is not None:
            return None
        names = ", ".join(map(str, operations))
        return Contradiction("unordered", f"no order explains {names}", tuple(operations))

    found = check([op for op in history if op.counts])
    return None if found is None else _minimal(found, check)


def _minimal(found: Contradiction, check: Check) -> Contradiction:
    """The conflict without operations that it does not need; a batch goes as a whole."""
    if found.kind in OF_ONE_READ:
        return found
    wanted = set(_needed_by_reads(found.operations))
    for group in _groups(found.operations):
        if group[0].kind == "write" and wanted.intersection((op.key, op.value) for op in group):
            continue
        fewer = check([op for op in found.operations if op not in group])
        if fewer is not None and fewer.kind not in OF_ONE_READ:
            found = fewer
            wanted = set(_needed_by_reads(found.operations))
    return found


def _needed_by_reads(operations: Iterable[Operation]) -> list[tuple[str, Value]]:
    return [(op.key, op.value) for op in operations if op.kind == "read"]


def _groups(operations: Iterable[Operation]) -> list[tuple[Operation, ...]]:
    """Batches, and operations alone; reads first, so that writes are needed by few of them."""
    groups: dict[object, list[Operation]] = defaultdict(list)
    for number, operation in enumerate(operations):
        groups[number if operation.batch is None else operation.batch].append(operation)
    return sorted(map(tuple, groups.values()), key=lambda group: group[0].kind == "write")


def _registers(values: Mapping[str, Value]) -> _Registers:
    return tuple(sorted((key, value) for key, value in values.items() if value is not None))


def _steps(operations: Sequence[Operation]) -> list[ObjectStep[_Registers]]:
    return [_step(group) for group in _groups([op for op in operations if op.counts])]


def _step(group: tuple[Operation, ...]) -> ObjectStep[_Registers]:
    first, rows = group[0], {op.key: op.value for op in group}
    alike = {(op.kind, op.invoked, op.returned, op.outcome) for op in group}
    if len(alike) > 1 or len(rows) < len(group):
        raise InvalidArgument(
            f"batch {first.batch!r} is not a single operation: kinds, outcomes or times differ, or a key"
        )
    reading = first.kind == "read"
    return ObjectStep(
        name=str(first),
        invoked=first.invoked,
        returned=None if first.outcome == "unknown" else first.returned,
        optional=first.outcome == "unknown",
        reading=reading,
        apply=partial(_read if reading else _written, rows),
    )


def _read(rows: Mapping[str, Value], state: _Registers) -> _Registers | None:
    held = dict(state)
    return state if all(held.get(key) == value for key, value in rows.items()) else None


def _written(rows: Mapping[str, Value], state: _Registers) -> _Registers:
    return _registers({**dict(state), **rows})
