"""`memwal …`: the command line. Commands of other packages join through the entry point group ``memwal.commands``."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from gc import set_threshold
from typing import Annotated

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
    plain,
    repair,
    scan,
    specs,
    verify,
    write,
)
from memwal.cli.terminal import tell
from memwal.lazy import light

_INTERRUPTED = 128 + signal.SIGINT
"""With which Typer ends a command that was interrupted, without a word."""


plain.spare_pydantic()
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
    module.register(groups.engine)


def main() -> None:
    """Run the command line; exit codes are those of `memwal.cli.endings`, and 130 when interrupted."""
    set_threshold(100_000)  # what is imported lives as long as the process: looking for garbage in it takes a tenth
    command = groups.command_of(sys.argv[1:])
    own = command in groups.members(groups.TABLE)
    light(frames=not own)
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
