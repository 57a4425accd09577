"""Asking an implementation about a vector, in each of its directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memwal_conformance.protocol import AdapterError, Hello, Json, tells
from memwal_conformance.verdicts import Finding

from . import objects, tables
from .case import Vector

WHOLE_TABLES = tuple(tables.DIRECTIONS)
"""Directions that are about a table, which an implementation is given a copy of."""
Call = Callable[[str, Json], Json]
"""Sends a message and gives its result, or raises `AdapterError`."""


def messages(vector: Vector, direction: str) -> tuple[str, ...]:
    """The messages that a direction of a vector needs."""
    if direction in tables.MESSAGES:
        return tables.MESSAGES[direction]
    if direction == "eval" or vector.kind in ("legacy", "bloom"):
        return (f"eval.{vector.kind}",)
    return (f"eval.{direction}",)


def missing(vector: Vector, direction: str, hello: Hello) -> list[str]:
    """What a direction of a vector needs and an adapter does not claim, or claims to do without."""
    needed = messages(vector, direction)
    return [
        *(message for message in needed if not hello.answers(message)),
        *(f"{message} {vector.kind}" for message in needed if f"{message} {vector.kind}" in hello.without),
    ]


def configured(vector: Vector, hello: Hello) -> str:
    """The revision that an adapter is configured with for a vector: any for revision 0."""
    return hello.revisions[0] if vector.revision == "0" else vector.revision


def run(vector: Vector, direction: str, call: Call, served: tables.Served = tables.copied) -> Finding:
    """Ask and compare. Raises what ``call`` raises for anything but an error reply.

    A note of the vector covers the outcomes that it names, which are asked for then; any other answer is wrong.
    ``served``: where a vector's table is copied to.
    """
    broken, clauses = _asked(vector, direction, call, served)
    note = None
    if broken is not None:
        others = [replace(vector, **outcome) for outcome in vector.outcomes]
        open_to = [other for other in others if direction not in tables.DIRECTIONS or direction in other.expected]
        if any(_asked(other, direction, call, served)[0] is None for other in open_to):
            note = vector.ambiguity
    chosen = vector.chosen if broken is None else None
    return Finding(clauses=clauses, broken=broken, ambiguity=note, chosen=chosen)


def _asked(vector: Vector, direction: str, call: Call, served: tables.Served) -> tuple[str | None, tuple[str, ...]]:
    """What is wrong, and the clauses that it is about: none where an error was not due and says nothing of them."""
    try:
        if direction in tables.DIRECTIONS:
            return tables.ask(vector, direction, call, served), vector.clauses
        return objects.DIRECTIONS[direction](vector, call), vector.clauses
    except AdapterError as error:
        return f"refused: {error}", vector.clauses if tells(messages(vector, direction)[0], error) else ()
