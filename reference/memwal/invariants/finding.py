"""Invariants as data, and what is said when one is broken.

An invariant is a function that looks at what was loaded from the store and yields its counterexamples. Its name is the
sentence that has to hold; `invariant` registers it with its clauses and with what an operator can do when it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

from ..clauses import implements
from ..effects import Protocol
from ..errors import ArtifactError, EngineBug, InvalidArgument, NoRoom, NotFound, StorageError
from ..violations import Severity, Violation, objection

P = ParamSpec("P")
T = TypeVar("T")

About = Literal["table", "index", "snapshot", "region", "manifest", "WAL", "generation", "rows"]
"""What an invariant is about, in the order in which they are listed."""
ABOUT: tuple[About, ...] = ("table", "index", "snapshot", "region", "manifest", "WAL", "generation", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInvariant:
    """One row of the list that ``memwal table verify --list`` prints."""

    name: str
    about: About
    clauses: tuple[str, ...]
    """What it follows from, the main one first."""
    says: str
    """One sentence: what holds."""
    remedy: str
    """What an operator can do when it is broken."""
    severity: Severity
    rows: bool
    """Whether rows have to be read; ``--fast`` leaves such invariants out."""


INVARIANTS: dict[str, StoreInvariant] = {}
"""Every invariant by name."""

Check = Callable[P, list[Violation]]
"""A registered invariant: what was loaded -> counterexamples."""


def invariant(
    *clauses: str, about: About, remedy: str, severity: Severity = "error", rows: bool = False
) -> Callable[[Callable[P, Iterable[Violation]]], Check[P]]:
    """Register the decorated function under its own name; its docstring's first line is the sentence."""

    def register(function: Callable[P, Iterable[Violation]]) -> Check[P]:
        name = function.__name__
        if name in INVARIANTS:
            raise EngineBug(f"two invariants are called {name}")
        says = (function.__doc__ or "").partition("\n")[0]
        INVARIANTS[name] = StoreInvariant(
            name=name, about=about, clauses=clauses, says=says, remedy=remedy, severity=severity, rows=rows
        )

        @wraps(function)
        def check(*args: P.args, **kwargs: P.kwargs) -> list[Violation]:
            found = function(*args, **kwargs)
            return [replace(v, clause=v.clause or clauses[0], oracle=name, severity=severity) for v in found]

        return implements(*clauses)(check)

    return register


async def attempted(step: Protocol[T], path: str) -> T | Violation:
    """The result of ``step``, or why ``path`` cannot be loaded: missing, damaged, not understood, or refused."""
    try:
        return await step
    except ArtifactError as error:
        return objection(error.path, error.reason, error.clause, error.offset)
    except NotFound as missing:
        return objection(missing.path or path, "it is not there")
    except InvalidArgument as error:
        return objection(path, str(error), error.clause)
    except NoRoom:
        raise  # nothing is known about the object
    except StorageError as refused:
        return objection(refused.path, f"the store does not give it: {refused.fields['reason']}")
