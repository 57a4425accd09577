"""What a reader may see after the writes of a scenario: last write wins, nothing acknowledged lost, nothing halved.

An acknowledged write is there. Of the writes that a writer had only buffered, the first so-many are there and the
others are not (recovery gives a prefix of the sequence of writes). A write that ended in an error is there or not.
Every write is there whole or not at all, at its own place in the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memwal_sim.histories.history import History, Outcome, explanation, fold

Row = Mapping[str, Any]
Key = tuple[Any, ...]


def key_of(key: Sequence[str], row: Row) -> Key:
    """Key of a row."""
    return tuple(row[name] for name in key)


def written(
    history: History, key: Sequence[str], writer: str, rows: Iterable[Row], outcome: Outcome, *, deletes: bool = False
) -> History:
    """``history`` and one write of ``writer`` behind it, of rows, or of deletes of their keys."""
    name = f"{writer}/{len(history.calls) + 1}"
    told = tuple((key_of(key, row), None if deletes else row) for row in rows)
    return history.begun(name, told, process=writer).ended(name, outcome)


def why_not(history: History, key: Sequence[str], seen: Sequence[Row]) -> str | None:
    """Why no fate of the unacknowledged writes gives exactly the rows ``seen``; None if one does."""
    found: dict[Key, Row] = {}
    for row in seen:
        its = key_of(key, row)
        if its in found:
            return f"key {its} is there twice"
        found[its] = row
    if any(explanation(found, writes) is not None for writes in history.cuts()):
        return None
    return _difference(fold(history.writes), found)


def _difference(expected: Mapping[Key, Row], found: Mapping[Key, Row]) -> str | None:
    """The first difference between two states; None if there is none."""
    for key in sorted({*expected, *found}, key=repr):
        if key not in found:
            return f"the row {dict(expected[key])} is missing"
        if key not in expected:
            return f"the row {dict(found[key])} should not be there"
        if dict(expected[key]) != dict(found[key]):
            return f"the row is {dict(found[key])} instead of {dict(expected[key])}"
    return None
