"""`memwal …`: the command line. Commands of other packages join through the entry point group ``memwal.commands``."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from gc import set_threshold
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Annotated, Any

import typer

import memwal
from memwal.cli import (
    catch_up,
    explain,
    gc,
    groups,
    guard,
    inspect,
    look,
    merge,
    migrate,
    repair,
    scan,
    specs,
    verify,
    write,
)
from memwal.cli.terminal import tell

_INTERRUPTED = 128 + signal.SIGINT
"""With which Typer ends a command that was interrupted, without a word."""


app = typer.Typer(
    cls=groups.FrontDoor,
    help="Lance MemWAL: a reference engine, its simulator, recorded faults and conformance suite.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"memwal {memwal.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `memwal` itself, before the name of a command."""


for module in (write, look, scan, merge, catch_up, gc, verify, repair, specs, migrate, inspect, explain):
    module.register(app)


class _NoFrames:
    """Keeps pandas out of the engine's commands: PyArrow loads it with its first array, which takes 0.2 s."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("commands of `memwal table` make no frames", name=name)


class _Lance(ModuleType):
    """Pylance, whose own ``__init__`` runs when one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        whole = PathFinder.find_spec(self.__name__)
        assert whole is not None
        assert whole.loader is not None
        whole.loader.exec_module(self)
        return getattr(self, name)


class _LanceLater(Loader):
    """Lets commands import ``lance.file`` without all of pylance, which takes 0.2 s."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        found = PathFinder.find_spec(name) if name == "lance" else None
        if found is not None:
            found.loader = self
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Lance(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet: see `_Lance`."""


def main() -> None:
    """Run the command line; exit codes are those of `memwal.cli.endings`, and 130 when interrupted."""
    set_threshold(100_000)  # what is imported lives as long as the process: looking for garbage in it takes a tenth
    command = groups.command_of(sys.argv[1:])
    own = command in {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
    sys.meta_path[:0] = [_NoFrames(), _LanceLater()] if own else [_LanceLater()]
    guard.enter(command, tell)
    try:
        app()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            tell("interrupted")
        if own and isinstance(end.code, int):
            _leave(end.code)
        raise


def _leave(code: int) -> None:
    """End the process without taking the interpreter apart, which takes 0.07 s; returns if output cannot be written."""
    atexit._run_exitfuncs()  # as Python does at its end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(code)
