"""The abstract machine is proved, and the proof notices what is left out."""

import itertools

import pytest
import z3
from memwal_model.histories import LIVES, run
from memwal_model.invariants import INVARIANTS
from memwal_model.logic import Logic, obligations
from memwal_model.machine import ACTIONS, ASSUMPTIONS, FIELDS, INITIAL
from memwal_model.states import SIZES
from memwal_model.terms import Sort, fields_of


def test_every_step_keeps_every_statement():
    found = list(obligations())
    assert [(each.step, each.statement, each.answer) for each in found if not each.proved] == []
    asked = {each.step for each in found}
    harmless = {"create_region", "crash", "delete_manifests", "read_manifest"}  # no statement is about what they change
    assert asked | harmless == {"initial state"} | {name for name, action in ACTIONS.items() if not action.without}
    assert not asked & harmless
    assert {each.statement for each in found} >= set(INVARIANTS)


@pytest.mark.parametrize("name", ASSUMPTIONS)
def test_the_proof_fails_without(name):
    field = ASSUMPTIONS[name].field
    reads = (
        action.name
        for action in ACTIONS.values()
        if action.without == name
        or field in fields_of(action.when)
        or any(field in fields_of(u.value) for u in action.updates)
    )
    initial = () if name == "zero_by_generation" else tuple(reads)  # it is part of the word `start`
    assert any(not each.proved for each in obligations({name}, steps=initial, seconds=2))


@pytest.mark.parametrize("history", LIVES, ids=lambda each: each.name)
def test_the_solver_means_by_a_step_what_its_run_does(history):
    """Both translations give the same values after each step; processes are numbers here, by their place in `SIZES`."""
    states = run(history).states
    for step, before, after in zip(history.steps(), states, states[1:], strict=False):
        action, logic = ACTIONS[step[0]], Logic()
        logic.now = _values_of(before)
        env = {p.args[0]: _number(p.sort, given) for p, given in zip(action.parameters, step[1], strict=True)}
        changed = logic.after(action, env)
        # What `greatest` stands for is a function of the solver's own.
        for field in action.changed - (
            {field for field in FIELDS if field.name == "base"} if step[0] == "merge" else set()
        ):
            for place in itertools.islice(after[field.name], 40):
                args = tuple(_number(sort, given) for sort, given in zip(field.over, place, strict=True))
                found = z3.simplify(changed(field, args))
                assert str(found) == str(after[field.name][place]), (step, field.name, place)


def _number(sort, given):
    return z3.IntVal(given if sort.number else SIZES[sort].index(given))


def _values_of(state):
    def at(field, args):
        numbers = [z3.simplify(each).as_long() for each in args]
        place = tuple(n if sort.number else SIZES[sort][n] for n, sort in zip(numbers, field.over, strict=True))
        found = state[field.name].get(place, INITIAL[field])
        return z3.BoolVal(found) if field.sort is Sort.BOOL else z3.IntVal(found)

    return at
