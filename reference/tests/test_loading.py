"""What a command or an import loads: a part costs what it needs, and not the whole."""

from __future__ import annotations

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

PACKAGES = ("memwal_sim", "memwal_conformance", "memwal_spark")


def loaded(program: str) -> set[str]:
    """Modules that ``program`` has loaded at its end."""
    last = "import sys; print('\\n'.join(sys.modules), file=sys.stderr)"
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
    unwanted = {
        "lance.dataset",
        "pandas",
        "memwal.inspection",
        "memwal.invariants",
        "memwal.jobs.repair",
        "memwal.revision_0",
    }
    assert modules & unwanted == set()


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


def test_all_names_of_the_interface_are_there() -> None:
    import memwal.api

    assert {name for name in memwal.api.__all__ if getattr(memwal.api, name) is not getattr(memwal, name)} == set()
    assert set(dir(memwal.api)) <= set(dir(memwal))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        memwal.api.nothing  # noqa: B018
