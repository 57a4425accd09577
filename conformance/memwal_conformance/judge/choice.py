"""What a structural check says of one thing that it looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something that the text leaves open, and that harms nothing."""

    what: str
    ambiguity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """Something that is wrong, with the clauses that it breaks; a check is about more of them."""

    what: str
    clauses: tuple[str, ...]


def breach(what: str, *clauses: str) -> Breach:
    """``what`` is wrong, and breaks ``clauses``."""
    return Breach(what=what, clauses=clauses)


Seen = Iterator[str | Breach | Choice | None]
"""One item per thing looked at: None if it is in order, else what is wrong with it, or what was chosen.

A text alone breaks every clause of its check."""
