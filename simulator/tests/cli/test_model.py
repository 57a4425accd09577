"""`memwal explore prove` and `memwal explore model`."""

import importlib.util
import json
from pathlib import Path

import pytest
from kit.commands import call
from memwal_model.machine import ACTIONS

ROOT = Path(__file__).parents[3]


def test_prove_says_how_much_is_proved():
    code, said, _ = call("prove", "--step", "merge", "--step", "claim")
    assert (code, "obligations proved, the slowest in" in said) == (0, True)


def test_prove_ends_with_1_and_names_what_fails():
    code, said, _ = call("prove", "--without", "absence_needs_coverage", "--step", "doom", "--json")
    assert code == 1
    told = json.loads(said)
    assert not told["proved"]
    assert [each["statement"] for each in told["obligations"] if each["answer"] != "proved"] == ["collected_is_covered"]


def test_a_step_of_another_reading_is_refused():
    code, _, said = call("prove", "--step", "skip_taken")
    assert (code, "happens only --without stop_on_taken_position" in said) == (2, True)


def test_without_a_solver_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, said = call("prove")
    assert (code, "memwal[proofs]" in said) == (2, True)


def test_model_lists_steps_and_statements():
    told = json.loads(call("model", "--json")[1])
    assert [each["name"] for each in told["steps"]] == list(ACTIONS)
    assert all(each["words"] for kind in told.values() for each in kind)
    assert "from_put_to_base" in call("model")[1]


def test_model_shows_what_each_step_changes():
    found = json.loads(call("model", "own_claim_needs_confirmation", "--json")[1])
    assert found["broken"] == "one_owner"
    assert found["steps"][2] == {
        "step": "claim w1",
        "changes": {"epoch": 1, "version": 1, "mine(w1)": 1, "begins(w1)": 1, "number(w1)": 1, "at(w1)": 1},
    }
    assert "broken: one_owner" in call("model", "own_claim_needs_confirmation")[1]


def test_model_tells_a_trace_up_to_where_it_breaks_off():
    trace = str(ROOT / "faults" / "recorded" / "wal" / "skip_newer_epoch.jsonl")
    code, said, _ = call("model", trace, "--json")
    told = json.loads(said)
    assert code == 1
    assert told["steps"][0]["steps"] == "read_manifest w1; claim w1; send w1"
    assert told["stopped"]["number"] == 17
    assert "where an entry of epoch 2 stands" in told["stopped"]["reason"]
    assert "breaks off: region" in call("model", trace)[1]


def test_model_tells_a_trace_that_is_a_history():
    trace = str(ROOT / "faults" / "recorded" / "fencing" / "two_claims_of_one_version.jsonl")
    code, said, _ = call("model", trace)
    assert (code, "a history of the machine, to its end" in said) == (0, True)


def test_model_says_that_there_is_no_such_history():
    code, _, said = call("model", "no_such_history")
    assert (code, "no history 'no_such_history'" in said) == (2, True)


_CLAIMED = "own w1\nopen_without_barrier w1\nput w1 1\n"


def test_the_machine_is_stepped_through_by_lines():
    code, said, _ = call("model", "--run", "--json", typed=f"{_CLAIMED}crash w1\nback\n")
    told = json.loads(said)
    assert (code, told["broken"]) == (0, None)
    assert told["steps"][-1] == {
        "step": "acknowledge w1", "changes": {"acked(1, 1)": 1, "at(w1)": 2, "holds(w1, 1)": 1},
    }  # fmt: skip
    assert {"crash w1", "flush w1 1 1", "read_manifest w2"} < set(told["possible"])
    assert "claim w1" not in told["possible"]


def test_stepping_begins_after_a_history_and_says_what_can_happen():
    code, said, _ = call("model", "from_put_to_base", "--run", typed="?\n")
    assert (code, "every statement holds" in said, "restore" in said) == (0, True, True)


def test_stepping_ends_with_1_where_a_statement_breaks():
    typed = f"{_CLAIMED}flush w1 1 1\nown w2\nlist_generation w1\ncrash w2\n"
    code, said, _ = call("model", "--run", "--without", "reverify_each_attempt", typed=typed)
    assert (code, "broken: epoch_never_falls" in said, "crash w2" in said) == (1, True, False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("clain w1", "Did you mean 'claim'?"),
        ("claim", "claim takes 1 parameter (w), not 0"),
        ("put w1", "put means several steps here: give more parameters"),
        ("claim w9", "claim: w9 is no writer; there are w1, w2, w3"),
        ("claim w1", "claim w1 cannot happen: 0 ≤ basis(w) does not hold"),
        ("claim_of_nobody\n" * 6, "claim_of_nobody: the numbers of this small machine end here"),
    ],
)
def test_a_line_that_is_no_possible_step_is_refused(line, reason):
    code, _, said = call("model", "--run", typed=line)
    assert (code, reason in said) == (2, True)


@pytest.mark.parametrize(("flag", "begin"), [("--tla", "---- MODULE MemWAL ----"), ("--quint", "module memwal {")])
def test_model_prints_other_notations(flag, begin):
    assert call("model", flag)[1].startswith(begin)
