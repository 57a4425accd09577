"""Commands as a person types them."""

from __future__ import annotations

import typer
from memwal_sim.cli import commands
from typer.testing import CliRunner

APP = typer.Typer()
commands(APP)


def call(*words: str, app: typer.Typer = APP, typed: str = "") -> tuple[int, str, str]:
    """Exit code, standard output, and error stream of a command; raises what it lets through."""
    done = CliRunner().invoke(app, list(words), input=typed, env={"COLUMNS": "200", "TERM": "dumb"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr
