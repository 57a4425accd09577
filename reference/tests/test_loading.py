"""What a command or an import loads: a part costs what it needs, and not the whole."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pytest
import typer
from memwal.cli import groups
from memwal.cli.main import app
from typer.testing import CliRunner

HEAVY = {"lance.dataset", "pandas", "pydantic", "pyarrow.compute", "pyarrow.dataset", "urllib.request"}
"""What takes long to load, and a look at a table does without."""
PACKAGES = ("memwal_sim", "memwal_conformance", "memwal_spark")


def loaded(program: str) -> set[str]:
    """Modules whose code ``program`` has run at its end."""
    run = "[name for name, module in sys.modules.items() if type(module).__name__ != '_LazyModule']"
    last = f"import sys; print('\\n'.join({run}), file=sys.stderr)"
    code = f"import atexit\natexit.register(lambda: exec({last!r}))\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stderr.split())


def command(*words: str) -> str:
    return f"import sys\nsys.argv = {['memwal', *words]!r}\nfrom memwal.cli.main import main\nmain()"


@pytest.mark.parametrize("words", ["info", "count", "history"])
def test_looking_at_a_table_loads_no_pylance_no_frames_and_nothing_that_checks_or_migrates(
    tmp_path: Path, words: str
) -> None:
    place = str(tmp_path / "t")
    memwal.create(place, pa.table({"id": [1]}), primary_key="id")
    modules = loaded(command(words, place))
    assert "memwal.api.table" in modules
    assert (
        modules & {*HEAVY, "importlib.metadata", "memwal.inspection", "memwal.invariants", "memwal.revision_0"} == set()
    )
    rooms = {name for name in modules if name.startswith(("memwal.jobs.", "memwal.maintained.", "memwal.read."))}
    assert (words == "count") == ("memwal.read.scan" in rooms)
    assert rooms <= {"memwal.jobs.defaults", "memwal.maintained.scalar", "memwal.read.defaults"} or words == "count"


@pytest.mark.parametrize("words", [("upsert",), ("scan",), ("explain",), ("merge",), ("drain",), ("gc", "--dry-run")])
def test_no_command_of_a_table_loads_what_checks_values_and_what_makes_frames(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    place, rows = str(tmp_path / "t"), tmp_path / "rows.csv"
    memwal.create(place, pa.table({"id": [1]}), primary_key="id")
    rows.write_text("id\n2\n")
    modules = loaded(command(words[0], place, *words[1:], *([str(rows)] if words == ("upsert",) else [])))
    assert "memwal.api.table" in modules
    assert modules & (HEAVY - {"pyarrow.compute"}) == set()


@pytest.mark.parametrize("words", ["count", "scan", "merge"])
def test_reading_rows_loads_no_masked_arrays_no_text_search_and_nothing_that_writes_generations(
    tmp_path: Path, words: str
) -> None:
    """Of a table whose rows are in its base, in a generation and in the WAL."""
    place = str(tmp_path / "t")
    with memwal.create(place, pa.table({"id": [1]}), primary_key="id") as table:
        writer = table.writer()
        writer.put(pa.table({"id": [2]}))
        writer.flush()
        writer.put(pa.table({"id": [3]}))
    modules = loaded(command(words, place))
    assert modules & {"numpy.ma", "memwal.maintained.bm25", "memwal.region.flush"} == set()
    assert ("memwal.read.scan" in modules) == (words != "merge")
    assert ("rich.table" in modules) == (words != "count")  # merge shows its progress


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_and_version_load_no_engine_and_no_other_package(words: str) -> None:
    modules = loaded(command(words))
    assert "memwal.cli.main" in modules
    assert {"pyarrow", "numpy", "lance", "memwal.api", *PACKAGES} & modules == set()


@pytest.mark.parametrize(
    ("words", "its_own"),
    [
        (("table", "info", "nowhere"), None),
        (("info", "nowhere"), None),
        (("conformance", "clauses", "--help"), "memwal_conformance"),
        (("explore", "replay", "--help"), "memwal_sim"),
        (("spark", "doctor", "--help"), "memwal_spark"),
    ],
)
def test_a_command_loads_the_commands_of_no_group_but_its_own(words: tuple[str, ...], its_own: str | None) -> None:
    modules = loaded(f"{command(*words).replace('main()', 'try:')}\n    main()\nexcept SystemExit: pass")
    others = {f"{each}.cli" for each in PACKAGES} - {f"{its_own}.cli"}
    assert its_own is None or f"{its_own}.cli" in modules
    # the suite's and Spark's commands print with the simulator's tools
    assert {name for name in modules if name in others} - ({"memwal_sim.cli"} if its_own else set()) == set()


@pytest.mark.parametrize("words", [("table", "info"), ("info",), ("explore", "replay"), ("conformance", "matrix")])
def test_a_command_is_built_alone(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    built, build = [], typer.main.get_command_from_info

    def counted(command_info: typer.models.CommandInfo, **options: Any) -> Any:
        built.append(build(command_info, **options))
        return built[-1]

    monkeypatch.setattr(typer.main, "get_command_from_info", counted)
    groups.members.cache_clear()
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0, done.output
    assert [each.name for each in built] == [words[-1]]


def test_what_planted_bugs_say_is_read_without_their_code_and_the_engine() -> None:
    modules = loaded("from memwal_sim import bugs\nassert len(bugs.load()) > 100")
    assert "memwal_sim.bugs" in modules
    assert {name for name in modules if name.startswith(("memwal.region.", "memwal.table.", "memwal.jobs."))} == set()


def test_one_clause_loads_the_code_that_carries_it_and_not_the_whole_engine() -> None:
    modules = loaded(command("conformance", "clauses", "show", "FENCE-001"))
    assert "memwal.region.claim" in modules
    assert {"memwal.read.text", "memwal.revision_0", "memwal.api.table"} & modules == set()


def test_a_list_of_notes_loads_no_simulator() -> None:
    modules = loaded(command("conformance", "notes", "list"))
    assert "memwal_conformance.registry.clauses" in modules
    assert modules & {"lance.dataset", "memwal_sim.scenarios", "memwal_sim.traces", "memwal.api.table"} == set()


@pytest.mark.parametrize("words", [("clauses", "list"), ("clauses", "show", "WAL-001"), ("notes", "show", "AMB-24")])
def test_looking_at_clauses_and_notes_loads_nothing_that_explores_or_runs_a_suite(words: tuple[str, ...]) -> None:
    modules = loaded(command("conformance", *words))
    assert "memwal_conformance.registry.clauses" in modules
    rooms = {".".join(name.split(".")[:2]) for name in modules}
    assert rooms & {"memwal_sim.exploring", "memwal_sim.workloads", "lance.dataset"} == set()
    assert "memwal_conformance.running.runner" not in modules


@pytest.mark.parametrize("words", [("list",), ("show", "oldest_generation_wins")])
def test_looking_at_what_is_planted_does_not_load_the_engine_that_it_is_planted_in(words: tuple[str, ...]) -> None:
    modules = loaded(command("conformance", "planted", *words))
    assert "memwal_conformance.proving.planted" in modules
    assert modules & {"memwal_conformance.proving.defects", "memwal.read.collection", "memwal.region.claim"} == set()


def test_each_module_that_waits_can_be_the_first_one_that_is_used() -> None:
    """What runs first decides the order of imports; a process of its own for each, a copy of one that has used none."""
    done = subprocess.run([sys.executable, "-c", _EACH_FIRST], capture_output=True, text=True, check=False, timeout=250)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 70


_EACH_FIRST = """
import os, pkgutil, sys
from importlib import import_module
from memwal import lazy
lazy.light(frames=False)
import memwal.api.table, memwal.jobs, memwal.maintained, memwal.read
names = [
    found.name
    for room in (memwal.jobs, memwal.maintained, memwal.read)
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
]
failed = []
for name in names:
    child = os.fork()
    if child == 0:
        module = import_module(name)
        assert type(module).__name__ == "_LazyModule" or name.endswith((".defaults", ".scalar")), name
        try:
            module.no_such_name
        except AttributeError as error:
            os._exit("yet" in str(error))
    failed += [name] if os.waitpid(child, 0)[1] else []
assert not failed, failed
print(len(names))
"""


def test_a_module_that_waits_runs_once_for_many_threads_and_again_after_a_failure(tmp_path: Path) -> None:
    (tmp_path / "slow_one.py").write_text(
        "import time\ntime.sleep(0.2)\nruns = len(open('runs', 'a').write('x') * 'x')\n"
    )
    (tmp_path / "breaks.py").write_text("import pathlib\nvalue = 1 if pathlib.Path('runs').exists() else 1 / 0\n")
    program = """
import sys
from concurrent.futures import ThreadPoolExecutor
from memwal import lazy
lazy.LATER = ("slow_one", "breaks")
lazy.light(frames=True)
sys.path.insert(0, "")
import breaks, slow_one
try:
    breaks.value
except ZeroDivisionError:
    print("failed")
with ThreadPoolExecutor(8) as pool:
    print(set(pool.map(lambda _: slow_one.runs, range(8))), len(open("runs").read()), breaks.value)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("failed\n{1} 1 1\n", "")


@pytest.mark.skipif(not hasattr(dataclasses, "_create_fn"), reason="this Python makes all methods of a class at once")
@pytest.mark.parametrize("frames", [False, True])
def test_methods_of_dataclasses_are_compiled_when_they_are_called_and_do_what_they_did(frames: bool) -> None:
    program = """
import dataclasses, sys
from memwal import lazy
compiled, make = [], dataclasses._create_fn
lazy._compiled = lambda name, *source, **names: compiled.append(name) or make(name, *source, **names)
lazy.light(frames=sys.argv[1] == "True")

@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    "A point."
    x: int
    y: int = 2

@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    "A point with a name."
    name: str

print(compiled)
points = [Named(x=1, name="a"), Named(x=1, name="a"), Named(x=2, name="a"), Point(x=1)]
print(points[0], [each == points[0] for each in points], len(set(points)), compiled)
for wrong in (lambda: Point(1), lambda: Point(), lambda: setattr(points[0], "x", 3), lambda: delattr(points[3], "x")):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__, error)
print(Point.__init__.__qualname__, Point.__eq__ is not Named.__eq__, dataclasses.replace(points[3], y=5))
print(len(compiled))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(frames)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines() == [
        "[]",
        "Named(x=1, y=2, name='a') [True, True, False, False] 3"
        " ['__init__', '__init__', '__eq__', '__eq__', '__hash__', '__hash__', '__repr__']",
        "TypeError Point.__init__() takes 1 positional argument but 2 were given",
        "TypeError Point.__init__() missing 1 required keyword-only argument: 'x'",
        "FrozenInstanceError cannot assign to field 'x'",
        "FrozenInstanceError cannot delete field 'x'",
        "Point.__init__ True Point(x=1, y=5)",
        "10",
    ], done.stderr


def test_all_names_of_the_interface_are_there() -> None:
    import memwal.api

    assert {name for name in memwal.api.__all__ if getattr(memwal.api, name) is not getattr(memwal, name)} == set()
    assert set(dir(memwal.api)) <= set(dir(memwal))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        memwal.api.nothing  # noqa: B018
