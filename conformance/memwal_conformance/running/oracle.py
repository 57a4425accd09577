"""What a reader may see after the writes of a scenario: last write wins, nothing acknowledged lost, nothing halved.

An acknowledged write is there. Of the writes that a writer had only buffered, the first so-many are there and the
others are not (recovery gives a prefix of the sequence of writes). A write that ended in an error is there or not.
Every write is there whole or not at all, at its own place in the order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Fate = Literal["acknowledged", "buffered", "failed"]

MOST_EXPLANATIONS = 4096
"""More combinations of unacknowledged writes than this are refused: the scenario is too large for an exact verdict."""


@dataclass(slots=True)
class Write:
    """One write: rows by key in order, None for a delete."""

    writer: str
    rows: tuple[tuple[Key, Row | None], ...]
    fate: Fate


@dataclass(slots=True)
class History:
    """The writes of a scenario in the order in which they were sent."""

    key: tuple[str, ...]
    writes: list[Write] = field(default_factory=list)

    def key_of(self, row: Row) -> Key:
        """Key of a row."""
        return tuple(row[name] for name in self.key)

    def put(self, writer: str, rows: Iterable[Row], fate: Fate) -> None:
        """A write of rows."""
        self.writes.append(Write(writer, tuple((self.key_of(row), row) for row in rows), fate))

    def delete(self, writer: str, keys: Iterable[Row], fate: Fate) -> None:
        """A write of deletes."""
        self.writes.append(Write(writer, tuple((self.key_of(key), None) for key in keys), fate))

    def made_durable(self, writer: str) -> None:
        """Everything that ``writer`` had buffered is acknowledged."""
        for write in self.writes:
            if write.writer == writer and write.fate == "buffered":
                write.fate = "acknowledged"

    def why_not(self, seen: Sequence[Row]) -> str | None:
        """Why no fate of the unacknowledged writes gives exactly the rows ``seen``; None if one does."""
        found: dict[Key, Row] = {}
        for row in seen:
            key = self.key_of(row)
            if key in found:
                return f"key {key} is there twice"
            found[key] = row
        nearest: str | None = None
        for present in self._fates():
            difference = _difference(self._fold(present), found)
            if difference is None:
                return None
            nearest = nearest or difference
        return nearest

    def _fates(self) -> Iterable[frozenset[int]]:
        """Sets of unacknowledged writes, by index, that may be there together; all of them first."""
        choices: list[list[frozenset[int]]] = []
        buffered: dict[str, list[int]] = {}
        for index, write in enumerate(self.writes):
            if write.fate == "buffered":
                buffered.setdefault(write.writer, []).append(index)
            elif write.fate == "failed":
                choices.append([frozenset({index}), frozenset()])
        for indices in buffered.values():
            choices.append([frozenset(indices[:n]) for n in range(len(indices), -1, -1)])
        total = 1
        for choice in choices:
            total *= len(choice)
        if total > MOST_EXPLANATIONS:
            raise ValueError(f"{total} fates of unacknowledged writes are too many to try")
        return (frozenset().union(*chosen) for chosen in itertools.product(*choices))

    def _fold(self, present: frozenset[int]) -> dict[Key, Row]:
        state: dict[Key, Row] = {}
        for index, write in enumerate(self.writes):
            if write.fate != "acknowledged" and index not in present:
                continue
            for key, row in write.rows:
                if row is None:
                    state.pop(key, None)
                else:
                    state[key] = row
        return state


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
