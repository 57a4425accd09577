"""Programs in the documents: each is run, killed, and run again in another process, and its rows are judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import memwal
import pytest
import typer
from memwal.cli.groups import GROUPS
from memwal.cli.main import app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "docs/first_table.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

PROGRAMS = {
    "first_table.md 1": ("people", {1: "Ada Lovelace", 2: "Grace"}),
    "writer.md 1": ("notes", {1: "Ada Lovelace", 2: "Grace"}),
}
"""Python blocks that are whole programs: the table that they write, and its rows at the end."""
NO_PROGRAMS = {
    "writer.md 2": "a part of a program; test_late_rows.py runs such writers",
    "spark.md 1": "needs a Spark session; pipeline/tests run such writes",
    "spark.md 2": "needs a Spark session; pipeline/tests run such writes",
    "spark.md 3": "needs a Spark session; pipeline/tests run such reads",
    "spark.md 4": "needs a Spark session; pipeline/tests/test_tables.py runs such reads",
    "spark.md 5": "needs a Spark session; pipeline/tests/test_streams.py runs it",
    "spark.md 6": "needs a Spark session; pipeline/tests/test_streams.py runs it",
    "spark.md 7": "needs a Spark session; pipeline/tests/test_jobs.py runs such merges",
    "spark.md 8": "needs a Spark session; pipeline/tests/test_spark_errors.py reads under it",
    "machines.md 1": "a state machine of the simulator, which touches no table; it runs for a minute",
    "reading.md 1": "what `explain` prints",
    "reading.md 2": "what `explain` prints",
    "reading.md 3": "what `explain` prints",
    "reading.md 4": "what `explain` prints",
    "reading.md 5": "what `explain` prints",
}
COMMANDS = (
    *("info", "scan", "explain", "merge", "gc", "catch-up", "specs", "verify", "repair", "inspect", "migrate"),
    *("snapshot", "drain", "count", "history", "watch"),
)
"""Commands of first_table.md, which work on the table of its program."""
REFUSED = {"migrate": "there is nothing to migrate"}
"""Those that have nothing to do on this table, and say so."""

CRASH = """
import os, memwal
from memwal.api.table import Table
from memwal.api.writer import Writer
left = [{calls}]
def dying(method):
    def call(*arguments, **options):
        result = method(*arguments, **options)
        left[0] -= 1
        if not left[0]:
            os._exit(9)
        return result
    return call
Writer.put, Writer.flush, Table.merge = dying(Writer.put), dying(Writer.flush), dying(Table.merge)
"""


def blocks() -> dict[str, str]:
    """Python blocks of the documents, by page and number."""
    found = {}
    for page in PAGES:
        for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S), 1):
            found[f"{page.name} {number}"] = text
    return found


def ran(program: str, folder: Path) -> int:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 9), done.stderr
    return done.returncode


def test_each_python_block_is_a_program_that_is_run_or_says_why_not() -> None:
    assert sorted(blocks()) == sorted([*PROGRAMS, *NO_PROGRAMS])


@pytest.mark.clause("REGION-003", "READ-001")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_killed_anywhere_and_run_again_has_the_rows_of_one_run(name: str, tmp_path: Path) -> None:
    program = blocks()[name]
    table, expected = PROGRAMS[name]
    for calls in (1, 3):
        folder = tmp_path / str(calls)
        folder.mkdir()
        assert ran(CRASH.format(calls=calls) + program, folder) == 9
        assert ran(program, folder) == 0
        rows = memwal.open(folder / table).scan().to_pylist()
        assert sorted((row["id"], row["name"]) for row in rows) == sorted(expected.items())
        report = memwal.verify(folder / table)
        assert report.clean, report.findings


def test_the_commands_of_the_first_table_work_on_it_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (listed,) = re.findall(r"^```\n(memwal table info people.*?)^```", FIRST.read_text(), re.M | re.S)
    commands = [part for part in re.split(r"\n| {2,}", listed) if part.startswith("memwal ") and " people" in part]
    assert sorted(command.split()[2] for command in commands) == sorted(COMMANDS)
    assert ran(blocks()["first_table.md 1"], tmp_path) == 0
    monkeypatch.chdir(tmp_path)
    for command in commands * 2:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)[1:]]
        shown = CliRunner().invoke(app, words)
        if words[1] in REFUSED:
            assert REFUSED[words[1]] in shown.output
        else:
            assert shown.exit_code == 0, f"{command}: {shown.output}"
    rows = memwal.open("people").scan().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "Ada Lovelace"), (2, "Grace")]


def test_the_documents_type_each_command_with_its_group() -> None:
    front = typer.main.get_command(app)
    known = {name for group in GROUPS for name in front.get_command(None, group).commands} - GROUPS.keys()  # type: ignore[attr-defined]
    assert {"verify", "replay", "clauses", "doctor", "certify"} <= known
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SPEC_NOTES.md", *(ROOT / "faults").glob("*.md")]
    typed = {
        page.name: re.findall(r"(?<![\w./-])memwal ([a-z]+(?:-[a-z]+)*)", page.read_text("utf-8")) for page in pages
    }
    assert {name: flat for name, words in typed.items() if (flat := sorted(known.intersection(words)))} == {}
