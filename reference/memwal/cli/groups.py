"""The front door: ``memwal --help`` shows five groups of commands; a command is known by its name alone, too."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from memwal.cli.endings import TABLE as NAMED
from memwal.cli.endings import ending
from memwal.cli.terminal import progress, tell

TABLE = "table"
"""The group of the engine's own commands."""
GROUPS: Mapping[str, str] = {
    TABLE: "Tables: create, write, read, watch, merge, collect, check and repair one.",
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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse what no system call takes, before a command meets it in a name of a file."""
        for word in args:
            if "\0" in word:
                ctx.fail(f"{word!r} has a NUL character, which no name and no value can have.")
        return super().parse_args(ctx, args)

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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` begin with; for a slip, the nearest name with its group."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = {name: name for name in GROUPS}
            for group, members in (*_joined().items(), (TABLE, self.commands)):
                known |= {name: f"{group} {name}" for name, each in members.items() if not each.hidden}
            near = get_close_matches(args[0].lower(), known, 1)
            meant = f" Did you mean `memwal {known[near[0]]}`?" if near else " `memwal --help` lists the groups."
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is expected to fail ends it with one exit code and one sentence for each kind."""
        progress.begin()
        try:
            return super().invoke(ctx)
        except Exception as error:
            ended = ending(error, ctx.meta.get(NAMED, ""))
            if ended is None:
                raise
            code, sentence = ended
            for line in (sentence, *getattr(error, "__notes__", ())):
                tell(line)
            raise typer.Exit(code) from error


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
