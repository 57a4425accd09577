"""What is seen of a store changes by steps of the machine, or a change is refused with the nearest step."""

import pytest
from memwal_model.histories import HAZARDS, LIVES, run
from memwal_model.refinement import SEEN, UNKNOWN, Refused, explained, known
from memwal_model.states import Setting
from memwal_model.terms import Sort, Term, term


def _seen(state):
    """What a store shows of a state of the machine; its settings and assumptions are known."""
    settings = {name: state[name] for name, value in Setting().initial().items() if value.keys() == {()}}
    return settings | {name: {place: value for place, value in state[name].items() if value} for name in SEEN}


@pytest.mark.parametrize("history", LIVES, ids=lambda each: each.name)
def test_every_step_of_a_life_is_explained(history):
    states = run(history).states
    for step, before, after in zip(history.steps(), states, states[1:], strict=False):
        found = explained(_seen(before), _seen(after))
        assert not isinstance(found, Refused), (step, found)
        assert found is None or _seen(before) != _seen(after)


HAZARD = {each.name: each for each in HAZARDS}


@pytest.mark.parametrize(
    ("name", "nearest", "because"),
    [
        ("conditional_wal_put", "carry_out", "not entry(p) or not conditional_wal_put does not hold"),
        ("reverify_each_attempt", "list_generation", "epoch = mine(w) or not reverify_each_attempt does not hold"),
        ("nothing_lost", "delete_entry", "p < start does not hold"),
        (
            "contiguous_merge",
            "merge",
            "merging(m) = progress(newest) + 1 or not contiguous_merge and progress(newest) < merging(m)"
            " or not progress_in_conflict does not hold",
        ),
    ],
)
def test_what_no_step_does_is_refused_with_the_nearest(name, nearest, because):
    """What the assumption forbids is seen in a change of the store."""
    states = [_seen(each) | {name: {(): True}} for each in run(HAZARD[name]).states]
    found = [each for each in map(explained, states, states[1:]) if isinstance(each, Refused)]
    assert [(each.nearest[0], each.because) for each in found] == [(nearest, because)]


def test_nothing_that_is_seen_is_no_step():
    state = _seen(Setting().initial())
    assert explained(state, state) is None


def test_what_is_not_known_decides_nothing():
    true, false, unknown = term(True), term(False), Term("var", ("w",), Sort.BOOL)
    values = [
        known(each, {}, {}) for each in (unknown & true, unknown & false, unknown | true, unknown | false, ~unknown)
    ]
    assert values == [UNKNOWN, False, True, UNKNOWN, UNKNOWN]
    assert known(false >> unknown, {}, {}) is True
