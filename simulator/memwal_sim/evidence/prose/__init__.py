"""Faults of which the texts themselves speak, each as one history: what happens, and what has to come out of it.

The texts say of most of them that nothing goes wrong. Then nothing does, and the facts after the last turn say so.
Where a text describes damage, the history ends in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..directing import Example
from . import generations, tables, writers


def tell() -> Iterator[Example]:
    """All of them, by area."""
    for part in (writers, generations, tables):
        yield from part.tell()
