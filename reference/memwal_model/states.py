"""The machine run on values: states of a few processes and small numbers, and the steps that are possible in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as field_of
from functools import cache
from typing import Any

from .form import Action
from .invariants import INVARIANTS, RULES
from .machine import ACTIONS, ASSUMPTIONS, FIELDS, INITIAL
from .terms import Sort, Term

State = Mapping[str, Mapping[tuple[Any, ...], Any]]
"""Field -> arguments -> value; what is not there is as in the beginning."""
Step = tuple[str, tuple[Any, ...]]
"""Name of an action, and its parameters."""

Sizes = Mapping[Sort, Sequence[Any]]
"""The values that variables range over."""

SIZES: Sizes = {
    Sort.POSITION: range(10),
    Sort.EPOCH: range(1, 6),
    Sort.GENERATION: range(1, 6),
    Sort.MANIFEST: range(1, 12),
    Sort.TABLE: range(1, 9),
    Sort.KEY: ("k", "l"),
    Sort.WRITER: ("w1", "w2", "w3"),
    Sort.MERGER: ("m1", "m2"),
    Sort.BUILDER: ("b",),
    Sort.INDEX: ("i",),
    Sort.READER: ("r",),
}
"""Those of small histories."""
_COUNTERS = {
    "version": Sort.MANIFEST, "epoch": Sort.EPOCH, "current": Sort.GENERATION, "newest": Sort.TABLE,
}  # fmt: skip
"""Fields that grow for ever, and the sort whose values bound them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run begins with: the rigid fields, all readings strict but the ``without`` ones.

    Every entry has a row of key ``k``, those at odd positions one of ``l`` too.
    """

    first: int = 1
    barrier_first: bool = False
    collects_wal: bool = True
    without: frozenset[str] = field_of(default_factory=frozenset)

    def initial(self) -> State:
        state: dict[str, dict[tuple[Any, ...], Any]] = {each.name: {} for each in FIELDS}
        state["first"] = {(): self.first}
        state["bottom"] = {(): self.first}
        state["barrier_first"] = {(): self.barrier_first}
        state["collects_wal"] = {(): self.collects_wal}
        state["retained"] = {(1,): True}
        entries = itertools.product(SIZES[Sort.POSITION], SIZES[Sort.EPOCH], SIZES[Sort.KEY])
        state["has"] = {(p, x, k): k == "k" or p % 2 == 1 for p, x, k in entries}
        for name in ASSUMPTIONS:
            state[name] = {(): name not in self.without}
        return state


def python(value: Term) -> str:
    """The Python expression of a term; ``s`` is the state, ``z`` the one after the step."""
    match value.op:
        case "var":
            return str(value.args[0])
        case "const":
            return repr(value.args[0])
        case "field":
            return _read(value, "s")
        case "after":
            return python(value.args[0]).replace("s['", "z['")
        case "forall" | "exists":
            bound, body = value.args
            loops = "".join(f" for {each.args[0]} in d['{each.sort.name}']" for each in bound)
            quantifier = "all" if value.op == "forall" else "any"
            return f"{quantifier}({python(body)}{loops})" if bound else python(body)
        case "greatest":
            bound, body = value.args
            name = bound.args[0]
            return f"max(({name} for {name} in d['{bound.sort.name}'] if {python(body)}), default=-1)"
        case "not":
            return f"(not {python(value.args[0])})"
        case "ite":
            condition, yes, no = (python(each) for each in value.args)
            return f"({yes} if {condition} else {no})"
        case "implies":
            left, right = (python(each) for each in value.args)
            return f"(not {left} or {right})"
        case _:
            sign = {"=": "=="}.get(value.op, value.op)
            left, right = (python(each) for each in value.args)
            return f"({left} {sign} {right})"


def _read(value: Term, state: str) -> str:
    read, *args = value.args
    key = "(" + "".join(f"{python(each)}," for each in args) + ")"
    return f"{state}['{read.name}'].get({key}, {INITIAL[read]!r})"


@cache
def _compiled(value: Term, parameters: tuple[str, ...]) -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda {', '.join(('s', 'z', 'd', *parameters))}: {python(value)}")
    return made


def value_of(
    value: Term, state: State, env: Mapping[str, Any], after: State | None = None, sizes: Sizes = SIZES
) -> Any:
    """The value of ``value`` in ``state``; ``env``: what its free variables stand for."""
    domains = {sort.name: values for sort, values in sizes.items()}
    return _compiled(value, tuple(env))(state, after or state, domains, *env.values())


def _env(action: Action, parameters: Sequence[Any]) -> dict[str, Any]:
    return {each.args[0]: value for each, value in zip(action.parameters, parameters, strict=True)}


def possible(state: State, step: Step, sizes: Sizes = SIZES) -> bool:
    """Whether a step can happen, its reading included."""
    action = ACTIONS[step[0]]
    return bool(value_of(action.when, state, _env(action, step[1]), sizes=sizes))


def after(state: State, step: Step, sizes: Sizes = SIZES) -> State:
    """The state after a step."""
    action = ACTIONS[step[0]]
    env = _env(action, step[1])
    changed = {}
    for update in action.updates:
        values = dict(state[update.field.name])
        bound = [each.args[0] for each in update.bound]
        for chosen in itertools.product(*(sizes[each.sort] for each in update.bound)):
            inner = {**env, **dict(zip(bound, chosen, strict=True))}
            place = tuple(value_of(each, state, inner, sizes=sizes) for each in update.at)
            values[place] = value_of(update.value, state, inner, sizes=sizes)
        changed[update.field.name] = values
    return {**state, **changed}


def steps(state: State, actions: Sequence[Action]) -> Iterator[Step]:
    """The steps that can happen."""
    for action in actions:
        for parameters in itertools.product(*(SIZES[each.sort] for each in action.parameters)):
            if possible(state, (action.name, parameters)):
                yield action.name, parameters


def broken(before: State, step: Step, state: State, *, theorems: bool = False) -> str:
    """The first statement that does not hold of ``step``, from ``before`` to ``state``; empty if all do.

    ``theorems``: what says only why they hold is not judged.
    """
    for invariant in INVARIANTS.values():
        if (invariant.theorem or not theorems) and not value_of(invariant.holds, state, {}):
            return invariant.name
    for rule in RULES.values():
        if rule.judges(step[0]):
            env = _env(ACTIONS[step[0]], step[1])
            if not value_of(rule.holds, before, env, state):
                return rule.name
    return ""


def inside(state: State) -> bool:
    """Whether the numbers of a state are within `SIZES`, so that formulas over it mean what they say."""
    tops = all(state[name].get((), 0) <= SIZES[sort][-1] for name, sort in _COUNTERS.items())
    last = SIZES[Sort.POSITION][-1]
    return tops and all(value < last for name in ("at", "next_entry") for value in state[name].values())
