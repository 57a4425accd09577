"""``memwal conformance native watch``: the newest native release against its record.

Exit codes: 0 nothing changed, 1 something did, 2 usage.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from memwal.errors import InvalidArgument
from memwal_sim.cli.terminal import mistakes_are_usage

app = typer.Typer(no_args_is_help=True, help="Releases of the native package against what is recorded of them.")


def commands(above: typer.Typer) -> None:
    """Add ``native`` to an app."""
    above.add_typer(app, name="native")


@app.callback()
def group() -> None:
    """Releases of the native package against what is recorded of them."""


@app.command()
def watch(
    version: Annotated[str | None, typer.Option(help="A version in place of the newest release.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="How often the suite runs; runs that disagree settle nothing.")] = 2,
    setting: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the adapter; may be repeated.")] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the reports; default is a temporary one.")] = None,
) -> None:
    """Install the newest native release, run the whole suite against it, and print what changed since the record."""
    from ..adapters.versions import NotInstalled
    from ..native import watch as watching

    with mistakes_are_usage():
        found = version or watching.newest()
        before, was = watching.recorded(found)
        folder = report or Path(tempfile.mkdtemp(prefix="memwal-watch-"))
        reports = [folder / f"run-{number + 1}" for number in range(runs)]
        try:
            for each in reports:
                watching.run(found, each, tuple(setting or ()))
        except NotInstalled as error:
            raise InvalidArgument(str(error)) from error
        now = watching.of_runs(reports)
        told = list(watching.changes(was, now["cases"]))
    typer.echo("\n".join([*now["says"], *told]))
    typer.echo(f"{watching.PACKAGE} {found} in {runs} runs, against the record of {before}: {len(told)} cases changed")
    typer.echo(f"reports: {folder}")
    raise typer.Exit(1 if told else 0)
