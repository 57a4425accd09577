"""What the machine is made of: fields, assumptions, steps and statements. Other modules declare them in its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .terms import NAMES, Field, Sort, Term, both, forall, term, variables


@dataclass(frozen=True, slots=True, eq=False)
class Assumption:
    """What is taken to be so: a reading of the texts, or an axiom about the store. Without it something goes wrong."""

    field: Field
    note: str
    """The note of SPEC_NOTES that resolves it so; empty for an axiom."""


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What a step does to one field: its new value at ``at``, for all values of the variables ``bound`` in there."""

    field: Field
    at: tuple[Term, ...]
    bound: tuple[Term, ...]
    value: Term


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """One step: possible where ``when`` holds, for any values of ``parameters``; all updates happen at once."""

    name: str
    words: str
    parameters: tuple[Term, ...]
    when: Term
    updates: tuple[Update, ...]
    without: str
    """It happens only without this assumption; empty for a step of the machine as it is proved."""

    @property
    def changed(self) -> frozenset[Field]:
        """The fields that it may change."""
        return frozenset(update.field for update in self.updates)


@dataclass(frozen=True, slots=True, eq=False)
class Invariant:
    """A statement about one state."""

    name: str
    words: str
    holds: Term
    theorem: bool
    """Whether users are promised it; else it says why a theorem holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A statement about a step and the states before and after it."""

    name: str
    words: str
    holds: Term
    only: str = ""
    """The only step that is judged; empty: all of them. Its parameters are free in ``holds``."""
    but: str = ""
    """The step that may break it."""

    def judges(self, step: str) -> bool:
        """Whether the rule says anything of that step."""
        return step != self.but and self.only in ("", step)


class ManifestView(NamedTuple):
    """What one reading of the region manifest tells, as a process or a table version keeps it."""

    epoch: Field
    start: Field
    """Where the WAL tail began then."""
    current: Field
    """The next generation then; 0: there is no view yet."""
    listed: Field


FIELDS: list[Field] = []
INITIAL: dict[Field, int | bool] = {}
ASSUMPTIONS: dict[str, Assumption] = {}
ACTIONS: dict[str, Action] = {}
INVARIANTS: dict[str, Invariant] = {}
RULES: dict[str, Rule] = {}

Changes = tuple[Any, ...]
"""When a step can happen, and what it changes: places with their new values, or `Update`."""
Body = Callable[..., Changes]
"""Parameters of a step -> the step."""


def field(name: str, over: str, sort: Sort, words: str, initial: int | bool = 0, *, rigid: bool = False) -> Field:
    """Declare a part of the state, over variables of the names ``over``."""
    made = Field(name, tuple(NAMES[each] for each in over), sort, words, rigid)
    FIELDS.append(made)
    INITIAL[made] = bool(initial) if sort is Sort.BOOL else initial
    return made


def view(name: str, over: str, words: str) -> ManifestView:
    """Declare the fields of a view of the region, over the variable ``over``."""
    return ManifestView(
        epoch=field(f"{name}_epoch", over, Sort.EPOCH, f"{words}: the epoch"),
        start=field(f"{name}_from", over, Sort.POSITION, f"{words}: where the WAL tail began then"),
        current=field(f"{name}_current", over, Sort.GENERATION, f"{words}: the next generation then; 0: there is none"),
        listed=field(f"{name}_listed", f"{over}g", Sort.BOOL, f"{words}: generation g was listed then"),
    )


def assumption(name: str, note: str, words: str) -> Term:
    """Declare an assumption, by the number of its note (``AMB-24``); an axiom has none."""
    made = field(name, "", Sort.BOOL, words, True, rigid=True)
    ASSUMPTIONS[name] = Assumption(made, note)
    return made()


def action(body: Body) -> Body:
    """Declare a step; its name and its words are those of the function."""
    return _declared(body, "")


def without(name: str) -> Callable[[Body], Body]:
    """Declare a step that happens only without the assumption of that name."""
    return lambda body: _declared(body, name)


def _declared(body: Body, name: str) -> Body:
    parameters = variables(body)
    when, *changes = body(*parameters)
    updates = tuple(each if isinstance(each, Update) else _update(*each) for each in changes)
    guard = both((~ASSUMPTIONS[name].field(), when)) if name else when
    words = " ".join((body.__doc__ or "").split())
    ACTIONS[body.__name__] = Action(body.__name__, words, parameters, guard, updates, name)
    return body


def _update(place: Term, value: Term | int) -> Update:
    changed, *at = place.args
    return Update(changed, tuple(at), (), term(value))


def everywhere(body: Callable[..., tuple[Term, Term | int]]) -> Update:
    """A place and its new value, for all values of the parameters of ``body``."""
    place, value = body(*(bound := variables(body)))
    changed, *at = place.args
    return Update(changed, tuple(at), bound, term(value))


def theorem(name: str, words: str, body: Callable[..., Term]) -> None:
    """Declare a statement about all states that users are promised, for all values of the parameters of ``body``."""
    INVARIANTS[name] = Invariant(name, words, forall(body), theorem=True)


def because(name: str, words: str, body: Callable[..., Term]) -> None:
    """Declare a statement about all states that says why theorems hold."""
    INVARIANTS[name] = Invariant(name, words, forall(body), theorem=False)


def never(name: str, words: str, holds: Term, *, only: str = "", but: str = "") -> None:
    """Declare what no step does; see `Rule`."""
    RULES[name] = Rule(name, words, holds, only, but)
