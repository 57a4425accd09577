"""The front door: five groups of commands, each of which is known by its name alone, too."""

from __future__ import annotations

import re
from pathlib import Path

import memwal
import pytest
import typer
from memwal.cli.groups import command_of
from memwal.cli.main import app
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[3]
DOOR = typer.main.get_command(app)


def test_five_groups_are_shown_and_no_command_beside_them() -> None:
    assert DOOR.list_commands(typer.Context(DOOR)) == ["table", "explore", "conformance", "spark", "docs"]


@pytest.mark.parametrize("group", ["table", "explore", "conformance", "spark", "docs"])
def test_each_command_of_a_group_is_known_by_its_name_alone_unless_tables_have_one_of_that_name(group: str) -> None:
    context = typer.Context(DOOR)
    own = {} if group == "table" else DOOR.get_command(context, "table").commands
    members = {name: each for name, each in DOOR.get_command(context, group).commands.items() if name not in own}
    alone = {name: DOOR.get_command(context, name) for name in members if name not in DOOR.list_commands(context)}
    assert members
    assert {name: type(each) for name, each in alone.items()} == {name: type(members[name]) for name in alone}
    assert {name: each.help for name, each in alone.items()} == {name: members[name].help for name in alone}


def test_whoever_is_told_of_a_command_is_told_its_group() -> None:
    context = typer.Context(DOOR)
    groups = {name: DOOR.get_command(context, name).commands for name in DOOR.list_commands(context)}
    alone = {name for members in groups.values() for name in members} - set(groups)
    flat = re.compile(rf"(?<![\w/.-])memwal ({'|'.join(sorted(alone, key=len, reverse=True))})(?![\w-])")
    found = [
        f"{file.relative_to(ROOT)}: {told[0]}"
        for folder in ("reference/memwal", "simulator/memwal_sim", "conformance/memwal_conformance", "pipeline", "docs")
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in (".py", ".md", ".toml", ".html")
        for told in flat.finditer(file.read_text("utf-8"))
    ]
    assert found == []


def test_the_version_is_told_and_h_is_help_everywhere() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"memwal {memwal.__version__}\n"
    for words in ([], ["table"], ["explore"], ["info"], ["table", "merge"], ["explore", "replay"], ["spark"]):
        short, long = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))
        assert (short.exit_code, short.output) == (0, long.output)
        assert ("COMMAND [ARGS]" in short.output) == (words in ([], ["table"], ["explore"], ["spark"]))


@pytest.mark.parametrize("words", [["explore", "one_writer"], ["explore", "explore", "one_writer"]])
def test_a_scenario_is_explored_with_the_command_in_front_of_it_or_without(words: list[str]) -> None:
    found = CliRunner().invoke(app, [*words, "--faults", "0"])
    assert found.exit_code == 0, found.output
    assert "complete: no violation within the bounds" in found.output


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["table", "info", "t"], "info"),
        (["info", "t"], "info"),
        (["explore", "x"], ""),
        (["spark", "merge", "t"], ""),
        (["table"], ""),
        ([], ""),
    ],
)
def test_a_command_of_tables_is_named_behind_their_group_or_alone(words: list[str], command: str) -> None:
    assert command_of(words) == command
