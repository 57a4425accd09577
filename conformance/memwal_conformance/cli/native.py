"""``memwal conformance native watch``: native releases against their records.

Exit codes: 0 nothing changed, 1 something did, 2 usage.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from memwal.errors import InvalidArgument
from memwal.words import counted
from memwal_sim import parallel
from memwal_sim.cli.terminal import Jobs, On, mistakes_are_usage
from memwal_sim.parallel import HERE, Workers

app = typer.Typer(no_args_is_help=True, help="Compare releases of the native package with what is recorded of them.")


def commands(above: typer.Typer) -> None:
    """Add ``native`` to an app."""
    above.add_typer(app, name="native")


@app.callback()
def group() -> None:
    """Compare releases of the native package with what is recorded of them."""


@app.command()
def watch(
    version: Annotated[
        list[str] | None, typer.Option(help="A version instead of the newest release; repeatable.")
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="How often to run the suite; cases on which the runs disagree are left out.")
    ] = 2,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Setting of the adapter; repeatable. Default: those of the record."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the reports. Default: a temporary one.")] = None,
    jobs: Jobs = 1,
    on: On = HERE,
) -> None:
    """Install native releases, run the whole suite against each, and print what changed since the record."""
    from ..adapters.versions import NotInstalled
    from ..native import watch as watching

    with mistakes_are_usage():
        versions = list(dict.fromkeys(version or [watching.newest()]))
        was = {each: watching.recorded(each) for each in versions}
        folder = report or Path(tempfile.mkdtemp(prefix="memwal-watch-"))
        chosen = {each: tuple(setting or watching.settings(before)) for each, (before, _) in was.items()}
        wanted = [
            (each, folder / each / f"run-{number + 1}", chosen[each]) for each in versions for number in range(runs)
        ]
        try:
            for _ in parallel.each(watching.run, wanted, Workers(jobs, on)):
                pass  # the reports are in their folders
        except NotInstalled as error:
            raise InvalidArgument(str(error)) from error
        changed = 0
        for each, (before, cases) in was.items():
            now = watching.of_runs([file for name, file, _ in wanted if name == each])
            told = list(watching.changes(cases, now["cases"]))
            typer.echo("\n".join([*now["says"], *told]))
            line = f"{watching.PACKAGE} {each} in {counted(runs, 'run')}, against the record of {before}"
            typer.echo(f"{line}: {counted(len(told), 'case')} changed")
            changed += len(told)
    typer.echo(f"reports: {folder}")
    raise typer.Exit(1 if changed else 0)
