"""`memwal explore prove` and `memwal explore model`."""

import importlib.util
import json

import pytest
import typer
from memwal_model.cli import commands
from memwal_model.machine import ACTIONS
from typer.testing import CliRunner

APP = typer.Typer()
commands(APP)


def _run(*words):
    return CliRunner().invoke(APP, list(words))


def test_prove_says_how_much_is_proved():
    found = _run("prove", "--step", "merge", "--step", "claim")
    assert found.exit_code == 0, found.output
    assert "obligations proved, the slowest in" in found.stdout


def test_prove_ends_with_1_and_names_what_fails():
    found = _run("prove", "--without", "absence_needs_coverage", "--step", "doom", "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert not told["proved"]
    assert [each["statement"] for each in told["obligations"] if each["answer"] != "proved"] == ["collected_is_covered"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prove", "--step", "merg"), "no step is called 'merg': did you mean merge?"),
        (("prove", "--without", "bariere"), "no assumption is called 'bariere': "),
        (("prove", "--step", "skip_taken"), "skip_taken happens only --without stop_on_taken_position"),
        (("model", "from_put_to_bse"), "no history is called 'from_put_to_bse': did you mean from_put_to_base?"),
    ],
)
def test_a_name_that_is_not_known_ends_with_2(words, said):
    found = _run(*words)
    assert (found.exit_code, said in found.stderr) == (2, True)


def test_without_a_solver_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = _run("prove")
    assert (found.exit_code, "memwal[proofs]" in found.stderr) == (2, True)


def test_model_lists_steps_and_statements():
    found = _run("model", "--json")
    told = json.loads(found.stdout)
    assert [each["name"] for each in told["steps"]] == list(ACTIONS)
    assert all(each["words"] for kind in told.values() for each in kind)
    assert "from_put_to_base" in _run("model").stdout


def test_model_shows_what_each_step_changes():
    found = json.loads(_run("model", "own_claim_needs_confirmation", "--json").stdout)
    assert found["broken"] == "one_owner"
    assert found["steps"][2] == {
        "step": "claim w1",
        "changes": {"epoch": 1, "version": 1, "mine(w1)": 1, "begins(w1)": 1, "number(w1)": 1, "at(w1)": 1},
    }
    assert "broken: one_owner" in _run("model", "own_claim_needs_confirmation").stdout


@pytest.mark.parametrize(("flag", "begin"), [("--tla", "---- MODULE MemWAL ----"), ("--quint", "module memwal {")])
def test_model_prints_other_notations(flag, begin):
    assert _run("model", flag).stdout.startswith(begin)
