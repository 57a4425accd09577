"""The front door: ``memwal --help`` shows five groups of commands; a command is known by its name alone, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import typer
from typer.core import TyperGroup

from memwal.cli.endings import TABLE as NAMED
from memwal.cli.endings import ending
from memwal.cli.terminal import progress, tell

TABLE = "table"
"""The group of the engine's own commands."""
GROUPS: Mapping[str, str] = {
    TABLE: "Create, write, read, watch, merge, collect, check and repair tables.",
    "explore": "Explore scenarios in the simulator, and find, replay and shrink histories.",
    "conformance": "Test other implementations, and show clauses, notes, vectors and what is planted.",
    "spark": "Write, merge and check tables with Spark, and validate the engine on real data.",
    "docs": "Write the pages that explorations make: certificates, coverage, the gallery of faults.",
}
"""Group -> what its commands are for. Other packages' commands are in the group that their entry point is named after,
or in the one that they name as ``rich_help_panel``."""


engine = typer.Typer()
"""The engine's own commands; `memwal.cli.main` registers them."""


class Commands(Mapping[str, Any]):
    """The commands of a group by name. What they are is looked up when one is asked for, and then that one is built.

    Building the parsers of all takes half a second. No package is loaded but the one that the group belongs to, where
    there is one.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._built: dict[str, Any] = {}

    @cached_property
    def _infos(self) -> dict[str, Any]:
        """As Typer keeps a command, or a group of them, that is registered."""
        if self._group == TABLE:
            return _registered(engine)
        from importlib.metadata import entry_points  # the engine's own commands do without it

        joined = entry_points(group="memwal.commands")
        found = {}
        for entry in [each for each in joined if each.name == self._group] or joined:
            app = typer.Typer()
            entry.load()(app)
            for name, info in _registered(app).items():
                panel = str(getattr(info, "rich_help_panel", ""))
                if self._group == (panel if panel in GROUPS else entry.name):
                    found[name] = info
        return found

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            alone, info = typer.Typer(), self._infos[name]
            (alone.registered_groups if hasattr(info, "typer_instance") else alone.registered_commands).append(info)
            self._built |= typer.main.get_group(alone).commands
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


class Group(TyperGroup):
    """One group. If a command has its name, that one is meant where the first word is no command."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """All names."""
        return list(self.commands)

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
                ctx.fail(f"{word!r} has a NUL character, which names and values cannot contain.")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """The groups only."""
        return list(GROUPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as Typer calls it
        """A group, or a command by its name alone: the engine's, or the first that another package has."""
        if cmd_name in GROUPS:
            return Group(name=cmd_name, commands=members(cmd_name), help=GROUPS[cmd_name], no_args_is_help=True)  # type: ignore[arg-type]
        return next((members(group)[cmd_name] for group in GROUPS if cmd_name in members(group)), None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` begin with; for a slip, the nearest name with its group."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches

            known: dict[str, str] = {}
            for group in reversed(list(GROUPS)):  # the engine's own names come last, and stand
                known |= {name: f"{group} {name}" for name, each in members(group).items() if not each.hidden}
            known |= {name: name for name in GROUPS}
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


members = cache(Commands)
"""Group -> its commands, made once."""


def _registered(app: typer.Typer) -> dict[str, Any]:
    """What is registered, by name, commands before groups, as Typer lists them."""
    named = typer.main.get_command_name
    commands = {each.name or named(getattr(each.callback, "__name__", "")): each for each in app.registered_commands}
    return commands | {str(each.name): each for each in app.registered_groups}


def command_of(words: list[str]) -> str:
    """The engine's command that the first ``words`` name, without its group; empty if they name none of its own."""
    first, second = (*words, "", "")[:2]
    return second if first == TABLE else "" if first in GROUPS else first
