"""What a store shows of a run is told as steps of the machine, or the run breaks off with the nearest step."""

from dataclasses import replace

import pytest
from memwal_model.course import SEEN
from memwal_model.following import Stopped, begun, follow, literal
from memwal_model.histories import HAZARDS, LIVES, run

HAZARD = {each.name: each for each in HAZARDS}


def _seen(state):
    """What a store shows of a state of the machine; entries have rows, but for the second of each writer."""
    shown = {name: {place: value for place, value in state[name].items() if value} for name in SEEN}
    settings = {name: state[name] for name in ("first", "barrier_first")}
    return {**settings, **shown, "fragments": {place: place[0] for place in shown["retained"]}}


def _told(history, barriers=()):
    """Each change of a history, as it is followed; ``barriers``: positions whose entries have no rows."""
    states = run(history).states
    course = begun(_seen(states[0]), collects_wal=True)
    found = []
    for state in states[1:]:
        seen = _seen(state)
        seen["rows"] = {place: place[0] not in barriers for place in seen["entry"]}
        told = follow(course, seen)
        found.append(told)
        if isinstance(told, Stopped):
            break
        course = told[0]
    return found


@pytest.mark.parametrize(("history", "barriers"), [(LIVES[0], ()), (LIVES[1], (2,))], ids=lambda each: str(each)[:20])
def test_the_changes_of_a_life_are_told_as_the_steps_that_made_them(history, barriers):
    told = _told(history, barriers)
    assert [each for each in told if isinstance(each, Stopped)] == []
    steps = [step for _, steps in told for step in steps]
    for name in ("carry_out", "list_generation", "merge", "expire", "unlist", "delete_entry", "recover", "raise_hint"):
        assert sum(step == name for step, _ in steps) == sum(step == name for step, _ in history.steps()), name


@pytest.mark.parametrize(
    ("name", "barriers", "because"),
    [
        (
            "stop_on_taken_position",
            (2,),
            "position 3 was put under epoch 1: the nearest step is carry_out w1 3, "
            "but w1 cannot have got past position 2, where an entry of epoch 2 stands",
        ),
        (
            "stop_on_newer_epoch",
            (2, 3),
            "position 3 was put under epoch 2: the nearest step is carry_out w2 3, "
            "but w2 cannot have got past position 2, where an entry of epoch 3 stands",
        ),
        (
            "resolve_unknown_put",
            (),
            "position 2 was put under epoch 1: the nearest step is carry_out w1 2, "
            "but w1 cannot have got past position 1, where no entry stands",
        ),
        (
            "conditional_wal_put",
            (2,),
            "position 2 was put under epoch 1: the nearest step is carry_out w1 2, "
            "but an entry of epoch 2 stands there",
        ),
        (
            "contiguous_merge",
            (),
            "newest: 1 -> 2; progress[2]: 0 -> 2; retained[2]: False -> True: the nearest step is prepare_merge m 2, "
            "but g = progress(newest) + 1 or not contiguous_merge and progress(newest) < g does not hold",
        ),
        (
            "nothing_lost",
            (),
            "entry[1]: True -> False; written[1]: 1 -> 0: the nearest step is delete_entry 1, "
            "but p < start does not hold",
        ),
    ],
)
def test_what_a_reading_forbids_breaks_the_run_off(name, barriers, because):
    assert str(_told(HAZARD[name], barriers)[-1]) == because


def test_a_run_goes_on_under_the_reading_that_it_shares():
    states = run(HAZARD["claim_barrier"]).states
    course = begun(_seen(states[0]), collects_wal=False)
    dropped = []
    for state in states[1:]:
        seen = _seen(state)
        seen["rows"] = dict.fromkeys(seen["entry"], True)
        told = follow(course, seen)
        if isinstance(told, Stopped):
            told = literal(course, seen)
            assert told is not None
        course, _ = told
        dropped.append(course.without)
    assert dropped[-1] == ()
    seen["entry"][3,], seen["written"][3,], seen["rows"][3,] = True, 2, True
    assert isinstance(follow(course, seen), Stopped)
    assert literal(course, seen)[0].without == ("claim_barrier",)


def test_an_axiom_about_the_store_is_never_dropped():
    states = run(HAZARD["nothing_lost"]).states
    course = begun(_seen(states[-2]), collects_wal=True)
    assert literal(course, _seen(states[-1])) is None


def test_a_claim_of_which_nobody_learned_is_nobodys():
    history = LIVES[0]
    names = [name for name, _ in history.steps()]
    claimed, first_put = names.index("claim"), names.index("carry_out")
    states = run(history).states
    found = follow(begun(_seen(states[0]), collects_wal=True), _seen(states[claimed + 1]), lost=True)
    course, steps = found
    assert steps == (("read_manifest", ("w1",)), ("claim_of_nobody", ()))
    put = _seen(states[first_put + 1]) | {"rows": {(1,): True}}
    assert isinstance(follow(course, put), Stopped)
    assert literal(course, put)[0].without == ("own_claim_needs_confirmation",)


def test_a_region_is_created_under_epoch_0_once():
    first = _seen(run(LIVES[0]).states[0])
    course, steps = follow(begun(first, collects_wal=True), {**first, "version": {(): 1}})
    assert steps == (("create_region", ()),)
    again = follow(course, {**first, "version": {(): 2}})
    assert isinstance(again, Stopped)
    assert again.nearest == ("create_region", ())


def test_who_has_claimed_before_may_be_anywhere():
    states = run(LIVES[0]).states
    put = next(n for n, (name, given) in enumerate(LIVES[0].steps()) if (name, given) == ("carry_out", ("w1", 2)))
    before, after = _seen(states[put]), _seen(states[put + 1])
    course, steps = follow(begun(before, collects_wal=True), after)
    assert steps[0] == ("carry_out", ("w1", 2))
    assert course.of("mine", "w1") == 1


def test_progress_falls_by_a_restore_only():
    states = run(LIVES[0]).states
    merged = next(n for n, (name, _) in enumerate(LIVES[0].steps()) if name == "merge")
    before = _seen(states[merged + 1])
    back = {
        **before,
        "newest": {(): 3},
        "retained": {**before["retained"], (3,): True},
        "progress": {**before["progress"], (3,): 0},
        "fragments": {(1,): 7, (2,): 8, (3,): 7},
    }
    restored = follow(begun(before, collects_wal=True), back)
    assert restored[1][0] == ("restore", (1,))
    undone = follow(begun(before, collects_wal=True), {**back, "fragments": {(1,): 7, (2,): 8, (3,): 9}})
    assert "commit_snapshot b, but it does not make that: progress[3]: 1 -> 0" in str(undone)


@pytest.mark.parametrize(("credit", "step"), [(1, "commit_snapshot"), (2, "catch_up")])
def test_an_index_may_have_been_built_before_it_is_maintained_but_no_further_than_what_is_merged(credit, step):
    merged = [name for name, _ in LIVES[0].steps()].index("merge")
    before = _seen(run(LIVES[0]).states[merged + 1])
    newest = before["newest"][()] + 1
    after = {**before, "newest": {(): newest}, "retained": {**before["retained"], (newest,): True}}
    after |= {"progress": {**before["progress"], (newest,): 1}, "caught_up": {(newest, "j"): credit}}
    found = follow(begun(before, collects_wal=True), after)
    if credit == 1:
        assert step in [name for name, _ in found[1]]
    else:
        assert (found.nearest[0], found.because) == (
            step,
            f"it does not make that: caught_up[{newest}, 'j']: 1 -> 2 is left",
        )


@pytest.mark.parametrize(("lacks", "because"), [((), ""), (("added",), "0 -> 1 is left")])
def test_a_merge_may_credit_an_index_with_what_it_covered_by_then_and_no_more(lacks, because):
    merged = [name for name, _ in LIVES[0].steps()].index("merge")
    before, first = (_seen(run(LIVES[0]).states[merged + n]) for n in (0, 1))
    first["listed"], first["files"] = ({**first[name], (2,): True} for name in ("listed", "files"))
    first["current"] = {(): 3}
    (old,), new = [place for place in first["retained"] if place not in before["retained"]], first["newest"][()] + 1
    first |= {"caught_up": {(*old, "i"): 0}, "missing": {(*old, "i"): frozenset(lacks)}}
    course = replace(begun(first, collects_wal=True), made={"added": 0})
    then = {**first, "newest": {(): new}, "retained": {**first["retained"], (new,): True}}
    then |= {"progress": {**first["progress"], (new,): 2}, "caught_up": {(new, "i"): 1}}
    then["missing"] = {**first["missing"], (new, "i"): frozenset({"added", "more"} if lacks else {"more"})}
    found = follow(course, then)
    assert because in str(found) if lacks else "merge" in [name for name, _ in found[1]]


def test_catch_up_that_is_forgotten_breaks_the_run_off_and_the_message_says_what_to_do():
    merged = [name for name, _ in LIVES[0].steps()].index("merge")
    before = _seen(run(LIVES[0]).states[merged + 1])
    versions = [before["newest"][()] + n for n in (1, 2)]
    seen = [before]
    for newest, credit in zip(versions, (1, 0), strict=True):
        last = seen[-1]
        after = {**last, "newest": {(): newest}, "retained": {**last["retained"], (newest,): True}}
        after |= {"progress": {**last["progress"], (newest,): 1}}
        seen.append({**after, "caught_up": {**last["caught_up"], (newest, "j"): credit}})
    course, _ = follow(begun(before, collects_wal=True), seen[1])
    forgotten = follow(course, seen[2])
    assert f"caught_up[{versions[1]}, 'j']: 1 -> 0 (what indexes cover is forgotten, as by a comp" in str(forgotten)
    assert "have every index catch up before anything is collected" in str(forgotten)


def test_nothing_that_is_seen_is_no_step():
    seen = _seen(run(LIVES[0]).states[0])
    assert follow(begun(seen, collects_wal=True), seen)[1] == ()


def test_a_barrier_where_it_should_not_stand_is_told_as_one():
    barrier = _told(HAZARD["stop_on_newer_epoch"], (2, 3))[-1]
    rows = _told(HAZARD["stop_on_newer_epoch"], (2,))[-1]
    assert (barrier.barrier, rows.barrier) == (True, False)
