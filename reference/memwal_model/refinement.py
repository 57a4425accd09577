"""Is what somebody did to a store a step of the machine? Of a store only some fields are known.

A field that is not known may have any value, so that a step is refused only if nothing could allow it: a guard is false
whatever the unknown fields are, or what changed is not what the step changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .form import Action, Update
from .machine import ACTIONS, FIELDS, INITIAL
from .states import Step
from .terms import Field, Sort, Term
from .text import PLAIN, parts

SEEN = frozenset(
    {"epoch", "version", "pointer", "hint", "current", "listed", "entry", "written", "newest", "progress", "retained"}
)
"""Fields that a store shows. What is not there is as in the beginning; all other fields are not known."""

UNKNOWN = object()

Partial = Mapping[str, Mapping[tuple[Any, ...], Any]]
"""What is known of a state: field -> arguments -> value."""

_BY_NAME = {each.name: each for each in FIELDS}
_CHANGING = tuple(
    action for action in ACTIONS.values() if not action.without and any(each.name in SEEN for each in action.changed)
)


def known(value: Term, state: Partial, env: Mapping[str, Any]) -> Any:
    """The value of a term where it is the same whatever is not known; else `UNKNOWN`."""
    match value.op:
        case "var":
            return env.get(value.args[0], UNKNOWN)
        case "const":
            return value.args[0]
        case "field":
            field, *args = value.args
            return _field(field, tuple(known(each, state, env) for each in args), state)
        case "not":
            inner = known(value.args[0], state, env)
            return UNKNOWN if inner is UNKNOWN else not inner
        case "and" | "or" | "implies":
            return _joined(value.op, [known(each, state, env) for each in value.args])
        case "ite":
            test, yes, no = (known(each, state, env) for each in value.args)
            return (yes if yes == no else UNKNOWN) if test is UNKNOWN else yes if test else no
        case "forall" | "exists" | "greatest" | "after":
            return UNKNOWN
        case _:
            left, right = (known(each, state, env) for each in value.args)
            return UNKNOWN if UNKNOWN in (left, right) else _COMPARED[value.op](left, right)


_COMPARED: Mapping[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
}


def _joined(op: str, values: Sequence[Any]) -> Any:
    if op == "implies":
        left = values[0] if values[0] is UNKNOWN else not values[0]
        return _joined("or", [left, values[1]])
    decisive = op == "or"
    if any(each is decisive for each in values):
        return decisive
    return UNKNOWN if any(each is UNKNOWN for each in values) else not decisive


def _field(field: Field, place: tuple[Any, ...], state: Partial) -> Any:
    if field.rigid and field.name in state:
        return state[field.name].get(place, UNKNOWN)
    if field.name not in SEEN:
        return state.get(field.name, {}).get(place, UNKNOWN)
    return UNKNOWN if any(each is UNKNOWN for each in place) else state[field.name].get(place, INITIAL[field])


@dataclass(frozen=True, slots=True)
class Refused:
    """A change that no step of the machine makes."""

    changed: tuple[str, ...]
    """The fields that changed, with their places and values."""
    nearest: Step | None
    """The step that comes nearest: it changes the same fields."""
    because: str
    """What of its guard does not hold, or what it would have changed otherwise; empty without a nearest step."""


def explained(before: Partial, after: Partial) -> Step | Refused | None:
    """The step from ``before`` to ``after``; None if nothing that is seen changed."""
    changed = {name for name in SEEN if dict(before[name]) != dict(after[name])}
    if not changed:
        return None
    nearest: tuple[tuple[bool, int], Step, str] | None = None
    for action in _CHANGING:
        for parameters in _candidates(action, before, after):
            env = {each.args[0]: value for each, value in zip(action.parameters, parameters, strict=True)}
            wrong = _misfits(action, env, before, after)
            step = (action.name, parameters)
            if not wrong:
                return step
            distance = not changed & {each.name for each in action.changed}, len(wrong)
            if nearest is None or distance < nearest[0]:
                nearest = distance, step, wrong[0]
    told = tuple(sorted(_told(name, before, after) for name in changed))
    return Refused(told, nearest and nearest[1], nearest[2] if nearest else "")


def _told(name: str, before: Partial, after: Partial) -> str:
    places = sorted({*before[name], *after[name]}, key=str)
    initial = INITIAL[_BY_NAME[name]]
    moved = [(p, before[name].get(p, initial), after[name].get(p, initial)) for p in places]
    return ", ".join(f"{name}{list(p) if p else ''}: {a} -> {b}" for p, a, b in moved if a != b)


def _candidates(action: Action, before: Partial, after: Partial) -> Iterator[tuple[Any, ...]]:
    """Values for the parameters of a step: numbers that changed, and processes of which nothing is known."""
    choices = []
    for each in action.parameters:
        if not each.sort.number:
            choices.append(["?"])
            continue
        found = {
            place[at]
            for name in SEEN
            for at, sort in enumerate(_BY_NAME[name].over)
            if sort is each.sort
            for place in {*before[name], *after[name]}
            if sort is Sort.TABLE or before[name].get(place) != after[name].get(place)
        }
        if each.sort is Sort.POSITION:
            found.add(after["hint"].get((), 0))
        choices.append(sorted(found))
    return itertools.product(*choices)


def _misfits(action: Action, env: Mapping[str, Any], before: Partial, after: Partial) -> list[str]:
    """What does not fit: conjuncts of the guard that are false, and fields that are not as the step makes them."""
    state = _learned(action, env, before, after)
    wrong = [f"{PLAIN.of(each)} does not hold" for each in parts(action.when) if known(each, state, env) is False]
    updates = {update.field.name: update for update in action.updates}
    for name in SEEN:
        own = {tuple(known(each, state, env) for each in updates[name].at)} if name in updates else set()
        for place in {*before[name], *after[name], *(each for each in own if UNKNOWN not in each)}:
            initial = INITIAL[_BY_NAME[name]]
            now, then = before[name].get(place, initial), after[name].get(place, initial)
            made = _made(updates[name], place, now, state, env) if name in updates else now
            if made is not UNKNOWN and made != then:
                wrong.append(f"{name}{list(place) if place else ''} would be {made}, and is {then}")
    return wrong


def _learned(action: Action, env: Mapping[str, Any], before: Partial, after: Partial) -> Partial:
    """``before``, with what the values after the step say of fields that are not seen, such as a writer's epoch."""
    learned: dict[str, dict[tuple[Any, ...], Any]] = {}
    for update in action.updates:
        at = tuple(known(each, before, env) for each in update.at)
        if update.field.name in SEEN and update.value.op == "field" and not update.bound and UNKNOWN not in at:
            field, *args = update.value.args
            if field.name not in SEEN and not field.rigid:
                place = tuple(known(each, before, env) for each in args)
                value = after[update.field.name].get(at, INITIAL[update.field])
                learned.setdefault(field.name, {}).setdefault(place, value)
    return {**before, **learned}


def _made(update: Update, place: tuple[Any, ...], now: Any, state: Partial, env: Mapping[str, Any]) -> Any:
    """What a step makes of a field at ``place``."""
    inner = dict(env)
    bound = {each.args[0] for each in update.bound}
    same = []
    for at, value in zip(update.at, place, strict=True):
        if at.op == "var" and at.args[0] in bound:
            inner[at.args[0]] = value
        else:
            chosen = known(at, state, env)
            same.append(UNKNOWN if chosen is UNKNOWN else chosen == value)
    here = _joined("and", same) if same else True
    if here is False:
        return now
    made = known(update.value, state, inner)
    return made if here is True or made == now else UNKNOWN
