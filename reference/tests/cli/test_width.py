"""Tables fit a terminal of 80 columns: each command that prints one is run on a terminal so wide."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from memwal.cli.main import app
from typer.core import TyperGroup
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
WIDTH = 80
TERMINAL = {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm"}
HISTORY = ROOT / "faults/recorded/fencing/pending_writes_of_a_fenced_writer.jsonl"
TABLES = (
    "table info people",
    "table history people",
    "table watch people --once",
    "table scan people",
    "table specs people",
    "table gc people --dry-run",
    "table gc-rules",
    "table verify people",
    "table verify --list",
    "table repair people --dry-run",
    "table inspect people",
    "table catch-up people",
    "table merge people",
    "table drain people",
    "table snapshot people",
    "explore scenarios",
    "explore explore one_writer --seconds-max 5",
    "explore replay HISTORY",
    "explore model",
    "explore prove --step claim",
    "explore capacity --regions 2",
    "conformance readings",
    "conformance notes list",
    "conformance notes list --by-section",
    "conformance notes show AMB-24",
    "conformance clauses list --group FENCE",
    "conformance clauses show FENCE-005",
    "conformance planted list",
    "conformance planted show plain_wal_put",
    "conformance explore --list --against reference",
    "spark doctor",
)
"""Commands whose answers have columns, on the table ``people`` or on what the packages hold."""
NO_TABLE = {
    "table create": "a sentence",
    "table upsert": "a sentence",
    "table count": "a sentence",
    "table migrate": "sentences",
    "table explain": "a plan has a line for each node, as in the specification",
    "explore check-history": "operations as JSON",
    "explore soak": "minutes",
    "explore soak-processes": "minutes",
    "explore hunt": "minutes; prints steps as replay does",
    "explore shrink": "minutes; prints steps as replay does",
    "explore promote": "writes into the checkout",
    "conformance judge": "sentences",
    "conformance findings reproduce": "installs a package",
    "conformance matrix": "a page of Markdown",
    "conformance gate": "serves",
    "conformance findings list": "needs an exploration's folder",
    "conformance findings show": "needs an exploration's folder",
    "conformance clauses matrix": "a page of Markdown",
    "conformance clauses check": "sentences",
    "conformance clauses break": "minutes; a line for each attempt",
    "conformance clauses prove": "minutes; a line for each attempt",
    "conformance clauses mutate": "minutes",
    "conformance planted kill": "minutes; a line for each attempt",
    "conformance planted draw": "minutes",
    "conformance planted check": "sentences",
    "conformance vectors check": "sentences",
    "conformance vectors fill": "sentences",
    "conformance vectors matrix": "a page of Markdown",
    "conformance vectors copy": "sentences",
    "conformance native watch": "minutes",
    "spark validate": "minutes",
    "spark write": "needs Spark",
    "spark merge": "needs Spark",
    "spark catch-up": "needs Spark",
    "spark snapshot": "needs Spark",
    "spark gc": "needs Spark",
    "spark verify": "needs Spark",
    "spark why": "needs Spark",
    "docs certify": "minutes",
    "docs coverage": "minutes",
    "docs gallery": "writes into the checkout",
}
"""All other commands, and why they are not looked at."""


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def has_columns(line: str) -> bool:
    """Whether ``line`` is of a table: what a terminal breaks is hard to read there, and is no harm in a sentence."""
    return bool(re.search(r"\S {2,}\S|[│┃┏┓└┘├─━]", line))


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env=TERMINAL)
    assert done.exit_code in (0, 1), done.output
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


@cache
def commands() -> dict[str, typer.core.TyperCommand]:
    """Words of each command and group -> the command."""
    found: dict[str, typer.core.TyperCommand] = {}

    def walk(group: TyperGroup, before: tuple[str, ...]) -> None:
        context = typer.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, TyperGroup):
                walk(command, (*before, name))
            else:
                found[" ".join((*before, name))] = command

    walk(typer.main.get_command(app), ())  # type: ignore[arg-type]
    return found


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of two regions with rows in the base, in a generation and in the WAL."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(
        pa.table({"id": range(40), "name": [f"a person with a long name {n}" for n in range(40)]}), "p.parquet"
    )
    made = ("create people p.parquet --key id --buckets 2", "upsert people p.parquet", "drain people")
    for words in (*made, "upsert people p.parquet"):
        shown(*words.split())


@pytest.mark.parametrize("words", TABLES)
def test_no_line_of_a_table_is_wider_than_the_terminal(people: None, words: str) -> None:
    lines = shown(*words.replace("HISTORY", str(HISTORY)).split()).splitlines()
    assert lines != []
    assert [line for line in lines if width(line) > WIDTH and has_columns(line)] == []


def test_no_help_is_wider_than_the_terminal() -> None:
    for words in (*commands(), "", *{each.rpartition(" ")[0] for each in commands()}):
        assert [line for line in shown(*words.split(), "--help").splitlines() if width(line) > WIDTH] == [], words


def test_each_command_is_looked_at_or_says_why_not() -> None:
    looked_at = {name for name in commands() if any(f"{words} ".startswith(f"{name} ") for words in TABLES)}
    assert (looked_at & {*NO_TABLE}, looked_at | {*NO_TABLE}) == (set(), {*commands()})
    assert set(map(bool, NO_TABLE.values())) == {True}


def test_a_wide_table_is_told_from_a_long_sentence() -> None:
    assert has_columns("region    values")
    assert has_columns("│ region │")
    assert not has_columns("  a sentence with an indent")
    assert width("日本") == 4
