from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import memwal.confirm
import memwal.paths
import pytest
from memwal.effects import Commits
from memwal.errors import InvalidArgument
from memwal.revisions import STRICT
from memwal_sim.bugs import Bug, choose, load, none_planted, owner, planted, readings
from memwal_sim.scenarios import commits


def bug(name: str = "b", **more: object) -> Bug:
    fields = {"clause": "X", "what": "w", "why": "y", "scenario": "one_writer", "oracle": "o", "violated": "X"}
    return Bug(**{"name": name, **fields, **more})  # type: ignore[arg-type]


def test_a_planted_function_is_in_place_inside_the_context_only() -> None:
    original = memwal.paths.wal
    with planted([bug(replaced={"memwal.paths:wal": lambda *_: "nowhere"})]):
        assert memwal.paths.wal(1, "arrow") == "nowhere"  # type: ignore[arg-type]
    assert memwal.paths.wal is original


def test_a_planted_function_replaces_what_other_modules_imported() -> None:
    original = memwal.errors.NotFound

    class OtherError(Exception):
        """In place of `NotFound`."""

    with planted([bug(replaced={"memwal.errors:NotFound": OtherError})]):
        assert memwal.confirm.NotFound is OtherError  # type: ignore[attr-defined, comparison-overlap]
    assert memwal.confirm.NotFound is original  # type: ignore[attr-defined]


def test_a_module_that_was_imported_while_a_bug_was_planted_has_the_engine_s_own_function_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, late = memwal.paths.wal, ModuleType("memwal.late")
    with planted([bug(replaced={"memwal.paths:wal": lambda *_: "nowhere"})]):
        late.wal = memwal.paths.wal  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, late.__name__, late)
        with none_planted():
            assert late.wal is original  # type: ignore[attr-defined]
        assert late.wal is not original  # type: ignore[attr-defined]
    assert late.wal is original  # type: ignore[attr-defined]


def test_a_method_can_be_replaced() -> None:
    original = memwal.effects.Io.path
    with planted([bug(replaced={"memwal.effects:Io.path": lambda _self, _name: "here"})]):
        assert memwal.effects.Io(interpretation=STRICT).path("a") == "here"
    assert memwal.effects.Io.path is original


def test_the_engine_is_restored_after_a_failure() -> None:
    original = memwal.paths.wal
    with pytest.raises(RuntimeError), planted([bug(replaced={"memwal.paths:wal": lambda *_: "nowhere"})]):
        raise RuntimeError
    assert memwal.paths.wal is original


@pytest.mark.parametrize("target", ["memwal.paths:gone", "memwal.gone:wal", "memwal.effects:Io.gone"])
def test_a_function_that_the_engine_does_not_have_is_refused(target: str) -> None:
    with pytest.raises(InvalidArgument, match="the engine has no"), planted([bug(replaced={target: print})]):
        pass


def test_a_function_of_the_simulated_world_is_refused() -> None:
    replaced = {"memwal_sim.scenarios.actors:memory_of": print}
    with pytest.raises(InvalidArgument, match="is not a part of the engine"), planted([bug(replaced=replaced)]):
        pass


def test_readings_of_several_bugs_are_joined_and_must_agree() -> None:
    first, second = bug("a", readings={"x": False}), bug("b", readings={"y": False})
    assert readings([first, second]) == {"x": False, "y": False}
    with pytest.raises(InvalidArgument, match="set x to different values"):
        readings([first, bug("c", readings={"x": True})])


def test_an_unknown_bug_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="there is no planted bug 'c'; choose one of a, b"):
        choose(["a", "c"], {"a": bug("a"), "b": bug("b")})


REPLACED = [pytest.param(*item, id=name) for name, each in load().items() for item in each.replaced.items()]


@pytest.mark.parametrize(("target", "replacement"), REPLACED)
def test_a_replacement_can_be_called_as_what_it_replaces(target: str, replacement: Callable[..., object]) -> None:
    place, attribute = owner(target)
    original = inspect.getattr_static(place, attribute)
    if not inspect.isfunction(original):
        assert not callable(original), target
        return
    parameters = inspect.signature(original).parameters.values()
    by_name = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    by_place = [None for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    inspect.signature(replacement).bind(*by_place, **by_name)


SOURCE = """
from memwal_sim.bugs import Bug
BUG = Bug(name={name!r}, clause="X", what="w", why="y", scenario="s", oracle="o", violated="X")
"""


def test_bugs_are_found_below_a_folder_by_the_name_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "area").mkdir()
    (tmp_path / "area" / "one.py").write_text(SOURCE.format(name="one"))
    assert list(load(tmp_path)) == ["one"]
    (tmp_path / "two.py").write_text(SOURCE.format(name="other"))
    with pytest.raises(InvalidArgument, match="it must have the file's name"):
        load(tmp_path)
    (tmp_path / "two.py").write_text("")
    with pytest.raises(InvalidArgument, match=r"two\.py must define BUG"):
        load(tmp_path)


READING = """
[[bug]]
name = "one"
title = "T."
clause = "AMB-24"
what = "W."
why = "Y."
scenario = "one_writer"
oracle = "o"
violated = "WAL-001"
readings = { claim_barrier = false }
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("claim_barrier", "claim_barier", r"readings\.toml, bug 1 \(one\): there is no reading.*Did you mean 'claim_b"),
        ('oracle = "o"', "", r"readings\.toml, bug 1 \(one\): oracle is missing"),
        ("why", "reason = 1\nwhy", r"readings\.toml, bug 1 \(one\): there is no field 'reason'"),
        ("[[bug]]", "[bug", r"readings\.toml is not TOML"),
        ("[[bug]]", "[[bugs]]", r"readings\.toml: bug is missing; the fields are bugs"),
        ("T.", "\xff", r"readings\.toml is not UTF-8 from byte"),
        ("[[bug]]", READING + "[[bug]]", r"readings\.toml: there is already a planted bug 'one'"),
    ],
)
def test_a_bug_that_is_only_a_reading_is_data(tmp_path: Path, old: str, new: str, says: str) -> None:
    (tmp_path / "area").mkdir()
    file = tmp_path / "area" / "readings.toml"
    file.write_text(READING)
    [found] = load(tmp_path).values()
    assert (found.group, found.title, found.readings) == ("area", "T.", {"claim_barrier": False})
    file.write_bytes(READING.replace(old, new).encode("latin-1"))
    with pytest.raises(InvalidArgument, match=says):
        load(tmp_path)


def test_a_scenario_begins_in_the_same_way_with_any_bug() -> None:
    begun = {}
    for names in ((), *((name,) for name in sorted(load()))):
        commits.table.cache_clear()
        with planted(choose(names)):
            begun[names] = commits.table(Commits.EXTERNAL).digest
    commits.table.cache_clear()
    assert {names for names, found in begun.items() if found != begun[()]} == set()
