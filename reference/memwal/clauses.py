"""`@implements`: which code carries which clause of the specification.

The decorator only records; the registry with the statements themselves is data (``conformance/clauses``), and a test
holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object] | type)

IMPLEMENTED: dict[str, set[str]] = {}
"""Clause id -> qualified names of the code that implements it."""


def implements(*clauses: str) -> Callable[[F], F]:
    """Record that the decorated function or class implements ``clauses`` (requirement or AMB ids)."""

    def record(thing: F) -> F:
        name = f"{thing.__module__}.{thing.__qualname__}"
        for clause in clauses:
            IMPLEMENTED.setdefault(clause, set()).add(name)
        return thing

    return record
