"""What a command or an import loads: a part costs what it needs, and not the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import memwal
import pyarrow as pa
import pytest


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


def test_help_loads_no_engine() -> None:
    assert {"pyarrow", "numpy", "lance", "memwal.api", "memwal_sim.scenarios"} & loaded(command("--help")) == set()


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
