"""Programs in the documents: each is run, killed, and run again in another process, and its rows are judged."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import takewhile
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

MORE = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "README.md"),
    *(path for folder in ("faults", "benchmarks", "reference") for path in sorted((ROOT / folder).glob("*.md"))),
    *sorted((ROOT / "conformance").glob("*/README.md")),
]
"""Pages outside of docs/."""
MADE = "faults/certificates.md"
"""The page that is made with the site (docs/site/hooks.py)."""

FRONT = typer.main.get_command(app)
TYPED = re.compile(r"`(memwal [^`]+)`|^(?:    |\$ )?(?:\.venv/bin/)?(memwal [a-z].*)$", re.M)
"""A command in a sentence, or a line of a block."""
NO_COMMANDS = ("memwal comes with", "memwal failure 1", "memwal is ")
"""How lines begin that are no commands: sentences, and the name of a row in a report."""

PROGRAMS = {
    "first_table.md 1": ("people", {1: "Ada Lovelace", 2: "Grace"}),
    "writer.md 1": ("notes", {1: "Ada Lovelace", 2: "Grace"}),
}
"""Python blocks that are whole programs: the table that they write, and its rows at the end."""
NO_PROGRAMS = {
    "writer.md 2": "a part of a program; test_late_rows.py runs such writers",
    "spark.md 1": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 2": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 3": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 4": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 5": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 6": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 7": "pipeline/tests/test_spark_page.py runs all of this page in one session",
    "spark.md 8": "pipeline/tests/test_spark_page.py runs all of this page in one session",
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


def commands(text: str) -> set[str]:
    """The commands of a page, each on one line, without what the shell takes from it."""
    found = (" ".join(sentence.split()) if sentence else line for sentence, line in TYPED.findall(text))
    lines = {part for line in found for part in re.split(r" +(?=memwal [a-z]+ )", line)}
    return {re.split(r" {2,}", line)[0] for line in lines if not line.startswith(NO_COMMANDS)}


def parsed(command: str) -> None:
    """Parse a command with the program's own parser; raises its usage error."""
    tokens = shlex.shlex(command, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    found, words = FRONT, list(takewhile(lambda word: not set(word) <= set("|&>;"), tokens))[1:]
    context = found.context_class(found, info_name="memwal")
    while hasattr(found, "get_command") and words and not words[0].startswith("-"):
        named = found.get_command(context, words[0])
        inner = named or found.get_command(context, str(found.name))  # `memwal explore SCENARIO`
        assert inner is not None, f"there is no {words[0]}"
        context = inner.context_class(inner, info_name=words[0], parent=context)
        found, words = inner, words[1:] if named else words
    value = ["VALUE"] if words and words[-1] in {"--add", "--record"} else []  # a sentence about the option itself
    found.make_parser(context).parse_args(args=[*words, *value])


def test_each_command_in_the_documents_is_one_that_the_program_takes() -> None:
    refused = []
    for page in [*PAGES, *MORE]:
        for command in commands(page.read_text("utf-8")):
            try:
                parsed(command)
            except Exception as error:  # noqa: BLE001 - Typer's copy of Click is private
                refused.append(f"{page.name}: {command}: {getattr(error, 'message', error)}")
    assert not refused, "\n".join(refused)


def test_the_site_has_every_page_and_every_link_leads_to_a_file() -> None:
    listed = set(re.findall(r"[\w/]+\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))
    assert listed.symmetric_difference(page.relative_to(ROOT).as_posix() for page in [*PAGES, *MORE]) == {MADE}
    links = {
        (page.name, link)
        for page in [*PAGES, *MORE]
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    }
    assert links == set()


def test_blocks_and_paragraphs_in_lists_are_indented_as_the_site_needs() -> None:
    """Python-Markdown, which makes the site, takes four columns; with fewer, a block of code becomes a sentence."""
    shallow = {
        (page.name, text.splitlines()[0])
        for page in [*PAGES, *MORE]
        for text in re.findall(r"^\n {2,3}(?! )(?![-*] )(.+)$", page.read_text("utf-8"), re.M)
    }
    deep = {page.name for page in [*PAGES, *MORE] if re.search(r"^\n {7}\S", page.read_text("utf-8"), re.M)}
    assert (shallow, deep) == (set(), set())


def test_the_documents_type_each_command_with_its_group() -> None:
    known = {name for group in GROUPS for name in FRONT.get_command(None, group).commands} - GROUPS.keys()  # type: ignore[attr-defined]
    assert {"verify", "replay", "clauses", "doctor", "certify"} <= known
    typed = {
        page.name: re.findall(r"(?<![\w./-])memwal ([a-z]+(?:-[a-z]+)*)", page.read_text("utf-8"))
        for page in [*PAGES, *MORE]
    }
    assert {name: flat for name, words in typed.items() if (flat := sorted(known.intersection(words)))} == {}
