"""What a filter says that an index can be asked for: comparisons, texts and labels in a column, joined by AND and OR.

A condition holds for every row that the filter keeps, and perhaps for others: what is not understood of one side of an
AND is left out, and of one side of an OR leaves nothing. None is the condition that holds for every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..maintained.scalar import Between
from .values import NOTHING, Predicate, Values, both, either


@dataclass(frozen=True, slots=True)
class Compare:
    """The value of a column is one of some, or in a range."""

    column: str
    values: Values
    asked: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    """By a column's type what its values are asked for (`memwal.read.wanted.asked`)."""


@dataclass(frozen=True, slots=True)
class HasText:
    """The text in a column has ``text`` somewhere in it."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class HasLabels:
    """The list in a column has all of ``labels``, or one of them."""

    column: str
    labels: frozenset[object]
    every: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of them hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of them holds."""

    parts: tuple[Condition, ...]


Leaf = Compare | HasText | HasLabels
Condition = Leaf | AllOf | OneOf


def of(said: Predicate) -> Condition | None:
    """What is known of columns, as a condition."""
    return all_of([Compare(name, values) for name, values in said.items()])


def all_of(parts: Sequence[Condition | None]) -> Condition | None:
    """All of ``parts`` hold, as far as they say something; what several say of one column is one comparison."""
    found: list[Condition] = []
    compared: list[Predicate] = []
    for part in parts:
        for each in part.parts if isinstance(part, AllOf) else (part,):
            if isinstance(each, Compare):
                compared.append({each.column: each.values})
            elif each is not None:
                found.append(each)
    found[:0] = [Compare(name, values) for name, values in both(compared).items()]
    return AllOf(tuple(found)) if len(found) > 1 else (found[0] if found else None)


def one_of(parts: Sequence[Condition | None]) -> Condition | None:
    """One of ``parts`` holds; single values of one column are one comparison."""
    found: list[Condition] = []
    single: dict[str, frozenset[object]] = {}
    for part in parts:
        if part is None:
            return None
        for each in part.parts if isinstance(part, OneOf) else (part,):
            if isinstance(each, Compare) and isinstance(each.values, frozenset):
                single[each.column] = single.get(each.column, frozenset()) | each.values
            else:
                found.append(each)
    found[:0] = [Compare(name, values) for name, values in single.items()]
    return OneOf(tuple(found)) if len(found) > 1 else (found[0] if found else None)


def known(condition: Condition | None) -> Predicate:
    """What a condition says of single columns."""
    match condition:
        case Compare(column, values):
            return {column: values}
        case AllOf(parts):
            return both([known(part) for part in parts])
        case OneOf(parts):
            return either([known(part) for part in parts])
    return NOTHING


def leaves(condition: Condition | None) -> Iterator[Leaf]:
    """The comparisons in a condition, from left to right."""
    match condition:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from leaves(part)
        case None:
            return
        case _:
            yield condition


def starting_with(column: str, start: str) -> Condition | None:
    """The text in a column starts with ``start``: a range, in the order of code points, which is that of the bytes."""
    if not start:
        return None
    kept = start.rstrip("\U0010ffff")
    # No text has a surrogate in it.
    after = (0xE000 if ord(kept[-1]) == 0xD7FF else ord(kept[-1]) + 1) if kept else 0
    return Compare(column, Between(lower=start, upper=kept[:-1] + chr(after) if kept else None, with_upper=False))


_WILD = "%_"


def like(column: str, pattern: str, escape: str | None) -> Condition | None:
    """The text in a column matches a pattern of SQL: what is before its first wildcard, and the longest text inside."""
    ends = {*_WILD, "\\", escape or "\\"}
    start = 0
    while start < len(pattern) and pattern[start] not in ends:
        start += 1
    if any(mark in pattern for mark in ends - {*_WILD}):
        return starting_with(column, pattern[:start])  # what an escaped wildcard stands for is left to the filter
    inside = max(pattern.replace("_", "%").split("%"), key=len)
    return all_of([starting_with(column, pattern[:start]), HasText(column, inside) if inside else None])
