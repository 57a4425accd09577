"""Mutants: what is written down applies and is marked; the tool tells a test that notices from one that does not."""

from __future__ import annotations

import ast
import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from memwal.errors import InvalidArgument
from memwal_conformance.proving import anchors, chances, deaths, entering, passes, warm, watching
from memwal_conformance.proving import mutants as written
from memwal_conformance.proving import trials as trial
from memwal_conformance.proving.deaths import Death
from memwal_conformance.proving.mutants import Mutant, SourceChange
from memwal_conformance.proving.planted import of_mutant
from memwal_conformance.proving.trials import trials
from memwal_conformance.registry import clauses as registry
from memwal_sim.parallel import Workers

TOY = """\
LIMIT = 3


def within(count: int) -> bool:
    return count <= LIMIT


def other(count: int) -> bool:
    return count > 0
"""
TOY_TESTS = """\
import time
import pytest
from memwal.toy import other, within
from . import scene_of_toys as toys
from .toys import limit

@pytest.fixture
def scene():
    assert within(3)

@pytest.mark.clause("WAL-007")
def test_the_limit_is_within():
    assert within(3) and not within(4)

def test_nothing_of_importance():
    assert within(2)

def test_in_a_scene(scene):
    pass

def test_at_length():
    time.sleep(0 if within(3) else 60)

def test_that_fails():
    assert other(0)

class TestByHelpers:
    top = 4

    def above(self):
        return self.top

    def test_the_limit(self, tolerance):
        other_tests_only = [spare for spare in (tolerance,)]
        assert within(limit()) and not within(self.above()) and toys.SMALL == other_tests_only[0]

def spare():
    return 6
"""
TOYS = """\
def limit():
    return _limit()

def _limit():
    return 3

def unused():
    return 5
"""
TOY_CONFTEST = """\
import memwal.toy
import pytest

@pytest.fixture
def tolerance(base):
    return base

@pytest.fixture
def base():
    return 1

@pytest.fixture(autouse=True)
def prepared():
    yield

@pytest.fixture
def other_tests_only():
    return 2
"""
EXCLUSIVE = ("    return count <= LIMIT\n", "    return count < LIMIT\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of one module and its tests."""
    for name, text in {
        "reference/memwal/__init__.py": "",
        "reference/memwal/toy.py": TOY,
        "reference/tests/__init__.py": "",
        "reference/tests/test_toy.py": TOY_TESTS,
        "reference/tests/toys.py": TOYS,
        "reference/tests/scene_of_toys.py": "SMALL = 1\nLARGE = 2\n",
        "reference/tests/conftest.py": TOY_CONFTEST,
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["clause(*ids): …"]\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "conformance/mutants").mkdir(parents=True)
    return tmp_path


def mutant(
    change: tuple[str, str] = EXCLUSIVE, test: str = "test_the_limit_is_within", name: str = "exclusive"
) -> Mutant:
    return Mutant(
        name=name,
        group="WAL",
        clauses=("WAL-007",),
        what="Takes the limit for the first value outside.",
        file="reference/memwal/toy.py",
        old=change[0],
        new=change[1],
        test=f"reference/tests/test_toy.py::{test}",
    )


def death(one: Mutant, root: Path, digest: str = "", said: str = "…") -> Death:
    """The death of a mutant, as it is now unless another ``digest`` is given."""
    killer = f"test {one.test}"
    now = digest or deaths.digest(of_mutant(one), killer, root)
    return Death(planted=one.name, killer=killer, digest=now, said=said)


def keep(root: Path, known: list[Mutant], *seen: Death) -> None:
    deaths.record({each.name: of_mutant(each) for each in known}, {each.key: each for each in seen}, root)


def dead(one: Mutant, root: Path) -> bool:
    return bool(deaths.fresh(of_mutant(one), deaths.deaths(root).values(), root))


def faults(one: Mutant, marked: dict[str, tuple[str, ...]], root: Path) -> list[str]:
    return deaths.faults({one.name: of_mutant(one)}, marked, root)


def write_down(root: Path, **changed: str) -> None:
    """One entry of WAL.toml."""
    entry = {
        "name": "exclusive",
        "what": "…",
        "file": "reference/memwal/toy.py",
        "old": "LIMIT = 3",
        "new": "LIMIT = 4",
    }
    entry |= {"test": "reference/tests/test_toy.py::test_the_limit_is_within", **changed}
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    clauses = json.dumps([changed.pop("clause", "WAL-007")])
    text = "\n".join(
        ["[[mutant]]", f"clauses = {clauses}", *(line for line in lines if not line.startswith("clause "))]
    )
    (root / "conformance/mutants/WAL.toml").write_text(text + "\n", "utf-8")


def test_every_mutant_names_clauses_of_the_registry() -> None:
    ids = {clause.id for clause in registry.clauses()} | {note.id for note in registry.ambiguities()}
    assert {clause for each in written.mutants() for clause in each.clauses} <= ids


@pytest.mark.long
def test_a_trial_tells_killed_survived_broken_and_too_long(root: Path) -> None:
    chosen = [
        mutant(name="noticed"),
        mutant(test="test_nothing_of_importance", name="not_looked_at"),
        mutant(("count <= LIMIT", "count <= NOTHING"), name="no_program"),
        mutant(test="test_in_a_scene", name="no_scene"),
        mutant(test="test_at_length", name="for_ever"),
    ]
    found = {trial.mutant.name: trial for trial in trials(chosen, Workers(2), root=root, max_s=15)}
    assert {name: trial.verdict for name, trial in found.items()} == {
        "noticed": "killed",
        "not_looked_at": "survived",
        "no_program": "broken",
        "no_scene": "broken",
        "for_ever": "too long",
    }
    assert found["noticed"].message.startswith("assert (False")
    assert found["noticed"].death == death(mutant(name="noticed"), root, said=found["noticed"].message)
    assert found["not_looked_at"].death is None
    assert found["no_program"].message.startswith("NameError")
    assert (root / "reference/memwal/toy.py").read_text("utf-8") == TOY


def test_a_test_that_fails_without_a_mutant_is_refused(root: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not pass without a mutant: assert False"):
        list(trials([mutant(test="test_that_fails")], root=root))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("count", "number"), "has the old text 4 times"),
        (("nowhere", ""), "has the old text 0 times"),
        (("return count <= LIMIT", "return count <="), "line 5: invalid syntax"),
    ],
)
def test_a_mutant_that_does_not_apply_is_refused_by_name(root: Path, change: tuple[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"WAL.toml: exclusive: .*{reason}"):
        list(trials([mutant(change)], root=root))


def test_a_change_is_found_whatever_comments_line_breaks_and_indentation_have_come_since(root: Path) -> None:
    file = root / "reference" / "memwal" / "toy.py"
    file.write_text(
        "def within(a, b):\n"
        "    if a:  # FENCE-001: reason\n"
        "        return call(\n"
        "            # before the first\n"
        "            a,\n"
        "            '# no comment',  # after it\n"
        "        )  # done\n"
        "    return b\n"
    )
    old = "    return call(a, '# no comment')\n"
    source = file.read_text()
    [place] = anchors.places(source, old)
    assert anchors.replaced(source, old, "    if b:\n        return b\n", place) == (
        "def within(a, b):\n    if a:  # FENCE-001: reason\n        if b:\n            return b\n    return b\n"
    )
    [place] = anchors.places(source, "  return b\n")
    assert anchors.replaced(source, "  return b\n", "  c = b\n  return c\n", place).endswith(
        "\n    c = b\n    return c\n"
    )
    assert anchors.places(source, "    return call(a, '# another comment')\n") == []
    assert len(anchors.places(source, "return")) == 2
    line, deeper = "    call(a)\n", "if a:\n        call(a)\n"
    [place] = anchors.places(deeper, line)
    assert anchors.replaced(deeper, line, f"    b()\n{line}", place) == "if a:\n        b()\n        call(a)\n"


def test_comments_are_left_out_and_strings_that_look_like_them_are_not() -> None:
    text = 'a = "# text"  # comment\n\n# comment\nb = """\n# text\n"""\n'
    assert anchors.without_comments(text) == 'a = "# text"\nb = """\n# text\n"""'
    assert anchors.without_prose('    def a():\n        """What it does."""\n        return "what"\n') == (
        '    def a():\n        return "what"'
    )


def test_a_death_is_stale_when_the_definition_or_the_test_has_changed_and_not_before(root: Path) -> None:
    one = mutant()
    keep(root, [one], death(one, root))
    assert dead(one, root)
    for file, old, new, still in (
        ("reference/memwal/toy.py", "count > 0", "count > 1", True),
        ("reference/tests/test_toy.py", "assert within(2)", "assert within(1)", True),
        ("reference/memwal/toy.py", "count <= LIMIT\n", "count <= LIMIT  # WAL-007: the last one, too\n", True),
        ("reference/memwal/toy.py", "def within(count: int)", "def within(count: int, /)", False),
        ("reference/tests/test_toy.py", "within(3) and not within(4)", "within(3) and not within(5)", False),
    ):
        path = root / file
        before = path.read_text("utf-8")
        path.write_text(before.replace(old, new), "utf-8")
        assert before != path.read_text("utf-8")
        assert dead(one, root) is still, new
        path.write_text(before, "utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "still"),
    [
        ("toys.py", "return _limit()", "return _limit() + 0", False),
        ("toys.py", "return 3", "return 2 + 1", False),
        ("toys.py", "return 5", "return 6", True),
        ("scene_of_toys.py", "SMALL = 1", "SMALL = 2 - 1", False),
        ("scene_of_toys.py", "LARGE = 2", "LARGE = 3", True),
        ("conftest.py", "return base", "return base + 0", False),
        ("conftest.py", "return 1", "return 2 - 1", False),
        ("conftest.py", "    yield\n", "    yield None\n", True),
        ("conftest.py", "return 2", "return 3", True),
        ("test_toy.py", "top = 4", "top = 5", False),
        ("test_toy.py", "return self.top", "return self.top + 0", False),
        ("test_toy.py", "return 6", "return 7", True),
        ("test_toy.py", "assert within(2)", "assert within(1)", True),
    ],
)
def test_a_death_is_stale_when_a_helper_of_its_test_has_changed(
    root: Path, file: str, old: str, new: str, still: bool
) -> None:
    one = mutant(test="TestByHelpers::test_the_limit")
    keep(root, [one], death(one, root))
    path = root / "reference/tests" / file
    before = path.read_text("utf-8")
    assert before.count(old) == 1
    path.write_text(before.replace(old, new), "utf-8")
    assert dead(one, root) is still


def test_a_survivor_and_what_is_no_longer_written_down_are_forgotten(root: Path) -> None:
    first, second = mutant(name="first"), mutant(name="second")
    old = [death(each, root, "0" * 64) for each in (first, second)]
    keep(root, [first, second], *old)
    assert set(deaths.deaths(root)) == {each.key for each in old}
    deaths.record({each.name: of_mutant(each) for each in (first, second)}, {old[1].key: None}, root)
    assert set(deaths.deaths(root)) == {old[0].key}
    keep(root, [second], old[1])
    assert set(deaths.deaths(root)) == {old[1].key}


def test_what_is_wrong_with_what_is_written_down_is_told(root: Path) -> None:
    marked = {"WAL-007": ("reference/tests/test_toy.py::test_the_limit_is_within",)}
    one = mutant()
    where = "conformance/mutants/WAL.toml: exclusive"
    assert faults(one, marked, root) == [
        f"{where}: test {one.test}: it was not seen to notice: memwal conformance planted kill"
    ]
    keep(root, [one], death(one, root, "0" * 64))
    stale = "it has changed since, or what it looks at: memwal conformance planted kill"
    assert faults(one, marked, root) == [f"{where}: test {one.test}: {stale}"]
    keep(root, [one], death(one, root))
    assert faults(one, marked, root) == []
    assert faults(one, {}, root) == [f"{where}: {one.test} does not carry the marker of WAL-007"]
    assert faults(mutant(name="gone"), marked, root)[1:] == [
        "conformance/deaths.jsonl: exclusive is not planted any more: memwal conformance planted kill"
    ]
    gone = mutant(test="test_gone")
    keep(root, [gone], death(one, root), Death(planted="exclusive", killer=f"test {gone.test}", digest="0", said="…"))
    assert faults(gone, marked, root) == [f"{where}: there is no test reference/tests/test_toy.py::test_gone"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "No Name"}, "the name is malformed or used twice"),
        ({"clause": "FENCE-001"}, "the first clause is not of the group WAL"),
        ({"file": "reference/tests/test_toy.py"}, "is not below"),
        ({"file": "reference/memwal/../../x.py"}, "is not below"),
        ({"new": "LIMIT = 3"}, "old and new are the same"),
        ({"why": "…"}, "there is no field 'why'"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_file_and_name(root: Path, changed: dict[str, str], reason: str) -> None:
    write_down(root, **changed)
    with pytest.raises(InvalidArgument, match=rf"WAL.toml, mutant 1 .*{reason}"):
        written.mutants(root)


def test_without_a_checkout_there_are_no_mutants(tmp_path: Path) -> None:
    assert written.mutants(tmp_path) == ()
    assert deaths.deaths(tmp_path) == {}


# Random mutants ---------------------------------------------------------------------------------------------------

CHANGED = '''\
"""What 1 < 2 says here is no code."""
LIMIT: int = 3


def within(count: int, most: int = 4) -> bool:
    """Nor here: count < 1."""
    assert count > -2, "count < 0"
    if not count:
        raise ValueError(f"{count + 1} of {most - 1}")
    while count < most and most:
        note(count, most)
        count += 1
    return count in (LIMIT, LIMIT) or True


def bracketed(count: int) -> bool:
    return (less := count) != (count or less)


def note(first: int, second: int) -> None:
    state["é"], = first, second
    state["ß"] = "é" if first - second else None
    state["ä"] += zip(first, max(first, second), strict=True)
'''


def test_every_change_of_what_decides_is_made_and_none_of_what_only_says_something(root: Path) -> None:
    (root / "reference/memwal/toy.py").write_text(CHANGED, "utf-8")
    found = [
        (each.line, each.operator, passes.diff(each.change).splitlines()[-1].strip("+ "))
        for each in chances.chances("reference/memwal/toy.py", root)
    ]
    assert sorted(found) == sorted(
        [
            (2, "off by one", "LIMIT: int = 4"),
            (5, "off by one", "def within(count: int, most: int = 5) -> bool:"),
            (8, "negate", "if (not (not count)):"),
            (9, "drop", "pass"),
            (10, "and-or", "while ((count < most) or (most)):"),
            (10, "negate", "while (not (count < most and most)):"),
            (10, "flip", "while count <= most and most:"),
            (11, "drop", "pass"),
            (11, "swap", "note(most, count)"),
            (12, "drop", "pass"),
            (12, "off by one", "count += 2"),
            (13, "and-or", "return ((count in (LIMIT, LIMIT)) and (True))"),
            (13, "flip", "return count not in (LIMIT, LIMIT) or True"),
            (13, "true-false", "return count in (LIMIT, LIMIT) or False"),
            (17, "and-or", "return (less := count) != (((count) and (less)))"),
            (17, "flip", "return (less := count) == (count or less)"),
            (22, "drop", "pass"),
            (22, "negate", 'state["ß"] = "é" if (not (first - second)) else None'),
            (22, "off by one", 'state["ß"] = "é" if (first + second) else None'),
            (23, "drop", "pass"),
            (23, "swap", 'state["ä"] += zip(max(first, second), first, strict=True)'),
        ]
    )


@pytest.mark.long
def test_the_same_seed_chooses_the_same_changes_and_each_can_be_compiled() -> None:
    first, again, other = (chances.chosen(seed, 40) for seed in (1, 1, 2))
    assert first == again != other
    assert len({each.change for each in first}) == 40
    for each in first:
        each.change.applied(registry.ROOT)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"nothing\.py: there is no such file"):
        chances.chosen(1, 1, files=["reference/memwal/nothing.py"])


BLOCKS = '''\
LIMIT = 3


class Scale:
    low = 0

    def within(self, count: int) -> bool:
        """Says whether."""
        if count > LIMIT:
            return False
        elif count < self.low:
            return False
        else:
            for each in range(3):
                continue
        return True
'''


def test_a_block_is_the_body_of_a_function_or_one_of_those_in_it() -> None:
    found = [(name, body[0].lineno) for name, body in entering.blocks(ast.parse(BLOCKS))]
    assert found == [
        ("Scale.within", 8),
        ("Scale.within: return False", 10),
        ("Scale.within: if count < self.low:", 11),
        ("Scale.within: return False", 12),
        ("Scale.within: for each in range(3):", 14),
        ("Scale.within: continue", 15),
    ]


NOTICING = """\
import time
from memwal.toy import other, within

def test_the_limit_is_within():
    assert within(3) and not within(4)

def test_loops():
    while not other(1): time.sleep(0.1)
"""
LOOKING_AWAY = """\
from memwal import toy

def test_nothing_that_matters():
    assert toy.LIMIT and toy.within(2)

def test_that_fails():
    assert toy.other(0)
"""


@pytest.fixture
def toy_pass(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy, with tests that notice all but ``count > 1``, and the guard of the suite."""
    (root / "reference/tests/test_toy.py").write_text(NOTICING, "utf-8")
    (root / "reference/tests/test_a_looking_away.py").write_text(LOOKING_AWAY, "utf-8")
    for guard in ("conftest.py", "long_tests.txt"):
        shutil.copy(registry.ROOT / guard, root)
    (root / "simulator/memwal_sim").mkdir(parents=True)
    (root / "simulator/memwal_sim/__init__.py").touch()
    (root / "simulator/memwal_sim/profiles.py").write_text("def load(): ...", "utf-8")
    pytest_ini = '[tool.pytest.ini_options]\nmarkers = ["clause(*ids): …", "long: …", "time_limit(seconds): …"]\n'
    (root / "pyproject.toml").write_text(pytest_ini, "utf-8")
    room = root / "conformance" / Path(*passes.__package__.split("."))
    room.mkdir(parents=True)
    for package in (room.parent, room):
        (package / "__init__.py").touch()
    for plugin in (entering, warm):
        shutil.copy(plugin.__file__, room)
    monkeypatch.setattr(watching, "WITHOUT_LONG", limit := ("-m", "not long", "--time-limit=10"))
    monkeypatch.setattr(passes, "WITHOUT_LONG", limit)
    return root


TOY_FILE = "reference/memwal/toy.py"
AWAY, LIMIT, LOOPS = (
    f"reference/tests/{test}"
    for test in (
        "test_a_looking_away.py::test_nothing_that_matters",
        "test_toy.py::test_the_limit_is_within",
        "test_toy.py::test_loops",
    )
)


def test_a_change_is_tried_with_the_tests_that_enter_its_block_and_pass_those_of_narrow_files_first(
    toy_pass: Path,
) -> None:
    recorded = watching.table(toy_pass / "out", 60, toy_pass)
    # What they really take is a matter of the machine.
    table = dataclasses.replace(recorded, seconds=dict.fromkeys(recorded.seconds, 0.5))
    assert {name: set(tests) for name, tests in table.entering.items()} == {
        "memwal.toy:within": {AWAY, LIMIT},
        "memwal.toy:other": {LOOPS},
    }
    assert table.watchers(TOY_FILE, "within", 60) == ([AWAY, LIMIT], True)
    assert table.watchers(TOY_FILE, "other", 60) == ([LOOPS], True)
    assert table.watchers(TOY_FILE, "other: pass", 60) == ([LOOPS], True)
    assert table.watchers(TOY_FILE, "", 60) == ([AWAY, LIMIT, LOOPS], True)
    assert table.watchers(TOY_FILE, "within", table.seconds[AWAY]) == ([AWAY], False)


@pytest.mark.long
def test_only_files_of_tests_that_have_changed_are_recorded_again(toy_pass: Path) -> None:
    records = toy_pass / "out"
    watching.table(records, 60, toy_pass)
    before = {path.name: path.stat().st_mtime_ns for path in records.iterdir()}
    with (toy_pass / "reference/tests/test_toy.py").open("a", encoding="utf-8") as file:
        file.write("\ndef test_more(): pass\n")
    assert "reference/tests/test_toy.py::test_more" in watching.table(records, 60, toy_pass).seconds
    after = {path.name: path.stat().st_mtime_ns for path in records.iterdir()}
    assert len(before) == 2
    assert len(after) == 3
    assert before.items() < after.items()


def test_a_pass_tells_who_is_noticed_by_which_test_and_goes_on_where_it_was(toy_pass: Path) -> None:
    toy, table = chances.chances(TOY_FILE, toy_pass), watching.table(toy_pass / "out", 60, toy_pass)
    seen = {each.diff: each for each in passes.tried(toy, {}, table, minutes=10, root=toy_pass)}
    assert {diff.splitlines()[-1].strip("+ "): (each.verdict, each.test) for diff, each in seen.items()} == {
        "LIMIT = 4": ("killed", LIMIT),
        "return count < LIMIT": ("killed", LIMIT),
        "return count >= 0": ("survived", ""),
        "return count > 1": ("endless", LOOPS),
    }
    state = toy_pass / "out" / "state.json"
    passes.keep(state, list(seen.values()))
    assert passes.kept(state) == {each.digest: each for each in seen.values()}
    none = list(passes.tried(toy, passes.kept(state), table, minutes=0, root=toy_pass))
    assert [each.verdict for each in none] == ["killed", "killed", "endless"]


def test_what_a_function_does_is_tried_in_the_warm_process_and_what_a_module_is_made_of_in_one_of_its_own(
    toy_pass: Path,
) -> None:
    toy, files = chances.chances(TOY_FILE, toy_pass), ["reference/tests/test_toy.py"]
    tried = {each.line: each for each in toy if "> 0" not in each.change.new}
    with trial.copy_of_the_checkout(toy_pass) as copy, trial.warm(copy, files) as trying:
        within = trying(tried[5].change, [LIMIT], 60)
        assert within is not None
        assert (within.verdict, within.test) == ("killed", LIMIT)
        assert within.message.startswith("assert (False")
        other = trying(tried[5].change, [LOOPS], 60)
        assert other is not None
        assert (other.verdict, other.test) == ("survived", "")
        assert trying(tried[5].change, ["reference/tests/test_toy.py::test_gone"], 60) is None
        assert trying(dataclasses.replace(tried[5].change, new="    return (lambda: True)()\n"), [LIMIT], 60) is None
        assert (copy / TOY_FILE).read_text("utf-8") == TOY
    assert tried[1].block == ""


def test_what_a_function_does_when_its_module_is_imported_is_tried_in_a_process_of_its_own(toy_pass: Path) -> None:
    (toy_pass / TOY_FILE).write_text(TOY.replace("LIMIT = 3", "def limit():\n    return 3\n\nLIMIT = limit()"), "utf-8")
    changes = [each for each in chances.chances(TOY_FILE, toy_pass) if each.block == "limit"]
    table = watching.table(toy_pass / "out", 60, toy_pass)
    assert table.entered(TOY_FILE, "limit") == frozenset()
    (seen,) = passes.tried(changes, {}, table, minutes=10, root=toy_pass)
    assert (seen.verdict, seen.test) == ("killed", LIMIT)


@pytest.mark.long
def test_a_test_that_fails_without_a_mutant_notices_nothing(toy_pass: Path) -> None:
    toy, test = chances.chances(TOY_FILE, toy_pass), "reference/tests/test_toy.py::test_never"
    table = watching.TestsByBlock({test: 0.01}, {"memwal.toy:within": frozenset({test})}, {})
    (toy_pass / "reference/tests/test_toy.py").write_text("def test_never(): assert False\n", "utf-8")
    with pytest.raises(InvalidArgument, match=r"test_toy\.py::test_never: fails without a mutant, too: assert False"):
        list(passes.tried(toy, {}, table, minutes=10, root=toy_pass))
    (toy_pass / "reference/tests/test_toy.py").write_text("import nothing\n", "utf-8")
    with pytest.raises(InvalidArgument, match=r"^reference/tests/test_toy\.py: fails without a mutant, too: "):
        list(passes.tried(toy, {}, table, minutes=10, root=toy_pass))


def test_what_cannot_be_recorded_is_refused(toy_pass: Path) -> None:
    for path in (toy_pass / "reference/tests").glob("test_*.py"):
        path.write_text("import nothing\n", "utf-8")
    with pytest.raises(InvalidArgument, match="no test file ended within 60 s"):
        watching.table(toy_pass / "out", 60, toy_pass)


def test_what_a_pass_kept_is_refused_if_it_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("[]", "utf-8")
    with pytest.raises(InvalidArgument, match=r"state\.json: not what a pass of mutants keeps"):
        passes.kept(tmp_path / "state.json")


EXPLANATION = """\
[[survivor]]
file = "reference/memwal/toy.py"
old = "{}"
new = "    return 1 < count"
why = "w"
"""


def test_an_explanation_is_found_by_its_words_and_signs_whatever_the_layout(root: Path) -> None:
    (root / passes.EXPLAINED).write_text(EXPLANATION.format("    return count > 0"), "utf-8")
    toy = root / TOY_FILE
    explained, other = (SourceChange(file=TOY_FILE, old="count > 0", new=new) for new in ("(1 < count)", "1 > count"))
    for layout in ("return count > 0", "return count  >  0  # for counts"):
        toy.write_text(TOY.replace("return count > 0", layout), "utf-8")
        assert passes.explained(root).get(passes.made(explained, root)) == "w"
        assert passes.explained(root).get(passes.made(other, root)) is None


def test_an_explanation_is_refused_once_its_source_has_changed(root: Path) -> None:
    (root / passes.EXPLAINED).write_text(EXPLANATION.format("    return count > 7"), "utf-8")
    with pytest.raises(InvalidArgument, match=r"toy\.py.* has the old text 0 times"):
        passes.explained(root)


def test_every_explained_survivor_is_of_this_source() -> None:
    passes.explained()
