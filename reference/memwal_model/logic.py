"""Proof by induction: every step keeps every invariant, for any number of processes, entries and generations.

One obligation for each step and each statement: the invariants hold before, the step happens, the statement holds
after. What is after is not a second state: each field stands for its value after the step, as a term over the state
before it. Needs the extra ``proofs`` (z3-solver).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import z3

from . import state
from .form import Action
from .invariants import INVARIANTS, RULES
from .machine import ACTIONS, ASSUMPTIONS, FIELDS, INITIAL
from .terms import Field, Sort, Term, fields_of

PROCESSES = {sort: z3.DeclareSort(sort.value) for sort in Sort if not sort.number and sort is not Sort.BOOL}
At = Callable[[Field, tuple[Any, ...]], Any]
"""The value of a field for arguments that are expressions of the solver."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """What was asked of the solver, and its answer."""

    step: str
    statement: str
    answer: str
    """``proved``, ``unknown``, or ``fails``: then a state is known from which the step breaks the statement."""
    seconds: float
    model: Any = None

    @property
    def proved(self) -> bool:
        return self.answer == "proved"


def _sort(sort: Sort) -> Any:
    if sort is Sort.BOOL:
        return z3.BoolSort()
    return z3.IntSort() if sort.number else PROCESSES[sort]


class Logic:
    """Terms as formulas; what `greatest` stands for is a function of its own, with two axioms."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self.without = without
        self.functions = {
            field: z3.Function(field.name, *(_sort(each) for each in field.over), _sort(field.sort)) for field in FIELDS
        }
        self.axioms: list[Any] = []
        self.count = 0
        self.then: At = self.now
        """What fields are after the step that is judged."""

    def now(self, field: Field, args: tuple[Any, ...]) -> Any:
        """The value in the state before the step."""
        if field.name in ASSUMPTIONS:
            return z3.BoolVal(field.name not in self.without)
        return self.functions[field](*args)

    def initial(self, field: Field, args: tuple[Any, ...]) -> Any:
        """The value in the initial state."""
        if field.rigid:
            return self.now(field, args)
        if field is state.bottom.args[0]:
            return self.now(state.first.args[0], ())
        if field is state.retained:
            return args[0] == 1
        value = INITIAL[field]
        return z3.BoolVal(value) if isinstance(value, bool) else z3.IntVal(value)

    def constant(self, name: str, sort: Sort) -> Any:
        self.count += 1
        return z3.Const(f"{name}!{self.count}", _sort(sort))

    def of(self, term: Term, env: Mapping[str, Any], at: At) -> Any:
        """The formula of ``term``; ``env``: what variables stand for."""
        match term.op:
            case "var":
                return env[term.args[0]]
            case "const":
                return z3.BoolVal(term.args[0]) if term.sort is Sort.BOOL else z3.IntVal(term.args[0])
            case "field":
                field, *args = term.args
                return at(field, tuple(self.of(each, env, at) for each in args))
            case "forall" | "exists":
                return self._quantified(term, env, at)
            case "greatest":
                return self._greatest(term, env, at)
            case "after":
                return self.of(term.args[0], env, self.then)
            case _:
                return _OPERATIONS[term.op](*(self.of(each, env, at) for each in term.args))

    def _quantified(self, term: Term, env: Mapping[str, Any], at: At) -> Any:
        bound, body = term.args
        if not bound:
            return self.of(body, env, at)
        fresh = {each.args[0]: self.constant(each.args[0], each.sort) for each in bound}
        inner = self.of(body, {**env, **fresh}, at)
        quantifier = z3.ForAll if term.op == "forall" else z3.Exists
        return quantifier(list(fresh.values()), inner)

    def _greatest(self, term: Term, env: Mapping[str, Any], at: At) -> Any:
        bound, body = term.args
        name, free = bound.args[0], [each for each in env.values() if z3.is_const(each)]
        self.count += 1
        chosen = z3.Function(f"greatest!{self.count}", *(each.sort() for each in free), z3.IntSort())(*free)
        other = self.constant(name, bound.sort)
        found = self.of(body, {**env, name: chosen}, at)
        inside = self.of(body, {**env, name: other}, at)
        self._axiom(free, z3.Or(chosen == -1, z3.And(chosen >= 0, found)))
        self._axiom([*free, other], z3.Implies(z3.And(other >= 0, inside), other <= chosen))
        return chosen

    def _axiom(self, free: list[Any], formula: Any) -> None:
        self.axioms.append(z3.ForAll(free, formula) if free else formula)

    def after(self, action: Action, env: Mapping[str, Any]) -> At:
        """What fields are after the step."""
        changed = {update.field: update for update in action.updates}

        def at(field: Field, args: tuple[Any, ...]) -> Any:
            update = changed.get(field)
            if update is None:
                return self.now(field, args)
            inner, same = dict(env), []
            bound = {each.args[0] for each in update.bound}
            for place, arg in zip(update.at, args, strict=True):
                if place.op == "var" and place.args[0] in bound:
                    inner[place.args[0]] = arg
                else:
                    same.append(self.of(place, env, self.now) == arg)
            value = self.of(update.value, inner, self.now)
            return value if not same else z3.If(z3.And(*same), value, self.now(field, args))

        return at

    def parameters(self, action: Action) -> dict[str, Any]:
        """Constants for the parameters of a step."""
        return {each.args[0]: self.constant(each.args[0], each.sort) for each in action.parameters}


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "and": z3.And,
    "or": z3.Or,
    "not": z3.Not,
    "implies": z3.Implies,
    "ite": z3.If,
}


def obligations(
    without: Collection[str] = (), *, steps: Collection[str] = (), seconds: float = 30
) -> Iterator[Obligation]:
    """Ask for each in turn: the initial state, then step by step; a step keeps what it does not touch.

    ``without``: assumptions that are dropped, by their names in `ASSUMPTIONS`. ``steps``: names of actions; if empty
    all of them, and the initial state too. ``seconds``: after which an answer is ``unknown``.
    """
    logic = Logic(frozenset(without))
    solver = z3.Solver()
    solver.set("timeout", int(seconds * 1000))
    first = logic.of(state.first, {}, logic.now)
    solver.add(first >= 0, first <= 1)
    if not steps:
        for name, invariant in INVARIANTS.items():
            yield _answer(solver, logic, "initial state", name, logic.of(invariant.holds, {}, logic.initial))
    for invariant in INVARIANTS.values():
        solver.add(logic.of(invariant.holds, {}, logic.now))
    for action in ACTIONS.values():
        if (not steps or action.name in steps) and (not action.without or action.without in without):
            yield from _of_step(solver, logic, action)


def _of_step(solver: Any, logic: Logic, action: Action) -> Iterator[Obligation]:
    env = logic.parameters(action)
    changed = action.changed
    solver.push()
    solver.add(logic.of(action.when, env, logic.now), *logic.axioms)
    logic.axioms.clear()
    logic.then = logic.after(action, env)
    for name, invariant in INVARIANTS.items():
        if fields_of(invariant.holds) & changed:
            yield _answer(solver, logic, action.name, name, logic.of(invariant.holds, {}, logic.then))
    for name, rule in RULES.items():
        if rule.judges(action.name) and (rule.only or fields_of(rule.holds) & changed):
            yield _answer(solver, logic, action.name, name, logic.of(rule.holds, env, logic.now))
    solver.pop()


def _answer(solver: Any, logic: Logic, step: str, statement: str, holds: Any) -> Obligation:
    solver.push()
    solver.add(z3.Not(holds), *logic.axioms)
    logic.axioms.clear()
    began = time.perf_counter()
    answer = str(solver.check())
    seconds = time.perf_counter() - began
    model = solver.model() if answer == "sat" else None
    solver.pop()
    return Obligation(step, statement, {"unsat": "proved", "sat": "fails"}.get(answer, answer), seconds, model)
