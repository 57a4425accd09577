"""The front door: ``memwal --help`` shows five groups of commands; a command is known by its name alone, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

TABLE = "table"
"""The group of the engine's own commands."""
GROUPS: Mapping[str, str] = {
    TABLE: "Tables: show, read, merge, collect, check and repair one.",
    "explore": "The simulator: `memwal explore SCENARIO`, and what finds, replays and shrinks histories.",
    "conformance": "Other implementations and the clauses: what is tested, vectors, the gate, runs side by side.",
    "spark": "The Spark pipeline: run it on real data, and say whether Spark can start here.",
    "docs": "What explorations write for readers: certificates, coverage, the gallery of faults.",
}
"""Group -> what its commands are for. Other packages' commands are in the group that their entry point is named after,
or in the one that they name as ``rich_help_panel``."""


class Group(TyperGroup):
    """One group. If a command has its name, that one is meant where the first word is no command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front of its arguments if it is left out."""
        if self.name in self.commands and args and args[0] not in (*self.commands, "--help", "-h"):
            args = [str(self.name), *args]
        return super().parse_args(ctx, args)


class FrontDoor(TyperGroup):
    """The groups. The engine's commands are its own; those of other packages are loaded when one is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """The groups only."""
        return list(GROUPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A group, or a command by its name alone."""
        if cmd_name in GROUPS:
            members = self.commands if cmd_name == TABLE else _joined()[cmd_name]
            return Group(name=cmd_name, commands=dict(members), help=GROUPS[cmd_name], no_args_is_help=True)
        found = super().get_command(ctx, cmd_name)
        others = (members[cmd_name] for members in _joined().values() if cmd_name in members) if found is None else ()
        return next(iter(others), found)


@cache
def _joined() -> dict[str, dict[str, Any]]:
    """Group -> the commands of other packages, by name."""
    found: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
    for entry in entry_points(group="memwal.commands"):
        joined = typer.Typer()
        entry.load()(joined)
        for name, command in typer.main.get_group(joined).commands.items():
            panel = str(getattr(command, "rich_help_panel", ""))
            found.setdefault(panel if panel in GROUPS else entry.name, {})[name] = command
    return found


def command_of(words: list[str]) -> str:
    """The engine's command that the first ``words`` name, without its group; empty if they name none of its own."""
    first, second = (*words, "", "")[:2]
    return second if first == TABLE else "" if first in GROUPS else first
