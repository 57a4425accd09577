"""The language in which the abstract machine is written: terms over numbers, processes and keys.

A term is a tree that says nothing of how it is used. `evaluate` gives its value in one state, `logic` translates it to
first-order logic, `text` prints it. The sort of a variable follows from its name (`NAMES`), so that a formula is
written as a function of its variables: ``forall(lambda p, q: ...)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast


class Sort(Enum):
    """What a term stands for."""

    BOOL = "bool"
    POSITION = "position"
    EPOCH = "epoch"
    GENERATION = "generation"
    MANIFEST = "manifest version"
    TABLE = "table version"
    KEY = "key"
    WRITER = "writer"
    MERGER = "merger"
    BUILDER = "builder"
    READER = "reader"
    INDEX = "index"

    @property
    def number(self) -> bool:
        """Whether its values are whole numbers."""
        return self in _NUMBERS


_NUMBERS = frozenset({Sort.POSITION, Sort.EPOCH, Sort.GENERATION, Sort.MANIFEST, Sort.TABLE})

NAMES = {
    "p": Sort.POSITION, "q": Sort.POSITION, "c": Sort.POSITION, "x": Sort.EPOCH, "y": Sort.EPOCH,
    "g": Sort.GENERATION, "h": Sort.GENERATION, "n": Sort.MANIFEST, "t": Sort.TABLE, "u": Sort.TABLE, "k": Sort.KEY,
    "w": Sort.WRITER, "v": Sort.WRITER, "m": Sort.MERGER, "b": Sort.BUILDER, "r": Sort.READER, "i": Sort.INDEX,
    "j": Sort.INDEX,
}  # fmt: skip
"""Name of a variable -> its sort."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One node: an operation and what it is applied to. ``==`` and ``<`` make terms, they do not compare terms."""

    op: str
    args: tuple[Any, ...]
    sort: Sort

    def __add__(self, other: Term | int) -> Term:
        return Term("+", (self, term(other)), self.sort)

    def __sub__(self, other: Term | int) -> Term:
        return Term("-", (self, term(other)), self.sort)

    def __lt__(self, other: Term | int) -> Term:
        return Term("<", (self, term(other)), Sort.BOOL)

    def __le__(self, other: Term | int) -> Term:
        return Term("<=", (self, term(other)), Sort.BOOL)

    def __gt__(self, other: Term | int) -> Term:
        return Term("<", (term(other), self), Sort.BOOL)

    def __ge__(self, other: Term | int) -> Term:
        return Term("<=", (term(other), self), Sort.BOOL)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return Term("=", (self, term(other)), Sort.BOOL)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return ~(self == other)

    def __and__(self, other: Term) -> Term:
        return Term("and", (self, other), Sort.BOOL)

    def __or__(self, other: Term) -> Term:
        return Term("or", (self, other), Sort.BOOL)

    def __rshift__(self, other: Term) -> Term:
        return Term("implies", (self, other), Sort.BOOL)

    def __invert__(self) -> Term:
        return Term("not", (self,), Sort.BOOL)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("a term has no truth value: use &, |, ~ and >>")


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A part of the state: a value for each choice of its arguments. ``rigid``: no action changes it."""

    name: str
    over: tuple[Sort, ...]
    sort: Sort
    words: str
    rigid: bool = False

    def __call__(self, *args: Term | int) -> Term:
        if len(args) != len(self.over):
            raise TypeError(f"{self.name} takes {len(self.over)} arguments, not {len(args)}")
        return Term("field", (self, *(term(each) for each in args)), self.sort)


def term(value: object) -> Term:
    """``value`` as a term: a number or a truth value stands for itself."""
    if isinstance(value, Term):
        return value
    if isinstance(value, bool):
        return Term("const", (value,), Sort.BOOL)
    if isinstance(value, int):
        return Term("const", (value,), Sort.POSITION)
    raise TypeError(f"no term: {value!r}")


TRUE, FALSE = term(True), term(False)


def variable(name: str) -> Term:
    """The variable of that name, whose sort is that of its first letter in `NAMES`."""
    return Term("var", (name,), NAMES[name[0]])


def variables(body: Callable[..., Any]) -> tuple[Term, ...]:
    """The variables that a function is written over, by the names of its parameters."""
    return tuple(variable(name) for name in inspect.signature(body).parameters)


def forall(body: Callable[..., Term]) -> Term:
    """For all values of the parameters of ``body``."""
    bound = variables(body)
    return Term("forall", (bound, body(*bound)), Sort.BOOL)


def exists(body: Callable[..., Term]) -> Term:
    """For some values of the parameters of ``body``."""
    bound = variables(body)
    return Term("exists", (bound, body(*bound)), Sort.BOOL)


def greatest(body: Callable[[Term], Term]) -> Term:
    """The greatest number from 0 on for which ``body`` holds; -1 if there is none."""
    (bound,) = variables(body)
    return Term("greatest", (bound, body(bound)), bound.sort)


def ite(condition: Term, yes: Term | int, no: Term | int) -> Term:
    """``yes`` where the condition holds, else ``no``."""
    chosen = term(yes)
    return Term("ite", (condition, chosen, term(no)), chosen.sort)


def after(value: Term) -> Term:
    """What ``value`` is after the step; only where steps are judged."""
    return Term("after", (value,), value.sort)


def both(terms: Sequence[Term]) -> Term:
    """All of ``terms``."""
    joined = TRUE
    for each in terms:
        joined = each if joined is TRUE else joined & each
    return joined


def fields_of(value: Term) -> frozenset[Field]:
    """The fields that a term reads."""
    found: set[Field] = set()
    todo: list[object] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, Field):
            found.add(each)
        elif isinstance(each, Term):
            todo.extend(each.args)
        elif isinstance(each, tuple):
            todo.extend(cast("tuple[object, ...]", each))
    return frozenset(found)
