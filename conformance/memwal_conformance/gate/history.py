"""Crash states: the contents after each change, with the acknowledgements that had been given by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from memwal_sim.store import Contents

from .shelf import Mutation


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Something that an actor was promised."""

    actor: str
    what: object


@dataclass(frozen=True, slots=True)
class CrashState:
    """The store as every process finds it that starts after a crash at this moment."""

    index: int
    """Changes of the store so far; 0 is what the gate began with."""
    contents: Contents
    acknowledged: tuple[Acknowledgement, ...]
    """All that were given before the next change, in order."""
    order: int
    """Order, in the log, of the request that made the change; 0 for the first state."""


class CrashStates(Sequence[CrashState]):
    """All crash states of a run. States are made when they are asked for; walking through them in order is cheap."""

    def __init__(self, start: Contents) -> None:
        self._start = start
        self._changes: list[tuple[Mutation, int]] = []
        self._acknowledged: list[tuple[int, Acknowledgement]] = []

    def record(self, mutation: Mutation, order: int) -> None:
        """One change, made by the request of that order in the log."""
        self._changes.append((mutation, order))

    def acknowledge(self, actor: str, what: object) -> None:
        """A promise, given while the newest state is current."""
        self._acknowledged.append((len(self._changes), Acknowledgement(actor, what)))

    def frozen(self) -> CrashStates:
        """A copy that does not continue."""
        copy = CrashStates(self._start)
        copy._changes, copy._acknowledged = list(self._changes), list(self._acknowledged)
        return copy

    def __len__(self) -> int:
        return len(self._changes) + 1

    def __iter__(self) -> Iterator[CrashState]:
        contents = self._start
        yield self._state(0, contents)
        for number, ((path, data), _) in enumerate(self._changes, 1):
            contents = contents.without(path) if data is None else contents.having(path, data)
            yield self._state(number, contents)

    @overload
    def __getitem__(self, index: int) -> CrashState: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[CrashState]: ...

    def __getitem__(self, index: int | slice) -> CrashState | Sequence[CrashState]:
        if isinstance(index, slice):
            return list(self)[index]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        objects = dict(self._start.objects)
        for (path, data), _ in self._changes[:number]:
            if data is None:
                objects.pop(path, None)
            else:
                objects[path] = data
        return self._state(number, Contents(objects))

    def _state(self, number: int, contents: Contents) -> CrashState:
        given = tuple(promise for state, promise in self._acknowledged if state <= number)
        return CrashState(number, contents, given, self._changes[number - 1][1] if number else 0)
