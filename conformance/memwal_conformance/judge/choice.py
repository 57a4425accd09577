"""What a structural check says of one thing that it looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something that the text leaves open, and that harms nothing."""

    what: str
    ambiguity: str


Seen = Iterator[str | Choice | None]
"""One item per thing looked at: None if it is in order, else what is wrong with it, or what was chosen."""
