"""A run up to here as a state of the machine, and where it differs from what a store shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .machine import FIELDS, INITIAL
from .states import State

SEEN = (
    "epoch", "pointer", "current", "listed", "entry", "written", "newest", "progress", "caught_up", "retained", "hint",
    "version", "files", "covered",
)  # fmt: skip
"""Fields that a store shows, what says most first. What is not there is as in the beginning.

The files of a generation count while it is listed. What an index covers is worked out of what it lacks, where a version
is made: it has to be what the machine says, or more.
"""

Partial = Mapping[str, Mapping[tuple[Any, ...], Any]]
"""What a store shows of a state: field -> arguments -> value."""

_MOVING = tuple(each.name for each in FIELDS if not each.over or not each.rigid)
FIRST = {each.name: INITIAL[each] for each in FIELDS}


@dataclass(frozen=True, slots=True)
class Course:
    """A run up to here, as a state of the machine."""

    state: State
    known_from: int
    """Claims up to this epoch were made before the run was followed: what their writers know is not known."""
    without: tuple[str, ...] = ()
    """Readings that the run has been seen not to share."""
    made: Mapping[Any, int] = field(default_factory=dict)
    """What merges have added to the base table -> the progress before it."""

    def of(self, field: str, *place: Any) -> Any:
        """The value of a field."""
        return self.state[field].get(place, FIRST[field])

    def reading(self, values: Mapping[str, bool]) -> Course:
        """With other values of settings or readings."""
        return replace(self, state={**self.state, **{name: {(): value} for name, value in values.items()}})

    def key(self) -> tuple[Any, ...]:
        """Equal for equal courses."""
        told = ((name, frozenset(self.state[name].items())) for name in _MOVING if self.state[name])
        return self.known_from, self.without, frozenset(told), frozenset(self.made.items())


def moved(name: str, course: Course, seen: Partial) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Where a field is not as ``seen``, and both values.

    Of versions that are not retained, dropped indexes and generations that are not listed a store says nothing.
    """
    for place in seen[name] if name in _SAID else {*course.state[name], *seen[name]}:
        ours, theirs = course.of(name, *place), seen[name].get(place, FIRST[name])
        if theirs < ours if name == "covered" else theirs != ours:
            yield place, ours, theirs


_SAID = ("progress", "caught_up", "files", "covered")


def differs(course: Course, seen: Partial, name: str) -> bool:
    """Whether a field is not as ``seen``."""
    return next(moved(name, course, seen), None) is not None
