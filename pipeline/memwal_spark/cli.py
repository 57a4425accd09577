"""The commands under `memwal spark`; the main program loads them by entry point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from memwal.errors import InvalidArgument
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .jobs import commands as jobs

OUT = Path("out") / "validate"


def commands(app: typer.Typer) -> None:
    """Add this package's commands to ``app``."""
    app.command("validate")(validate)
    app.command("doctor")(doctor)
    jobs.commands(app)


def validate(
    revision: Annotated[str, typer.Option(help="Revision of the table: A, B or R.")] = "B",
    regions: Annotated[int, typer.Option(min=1, help="Number of regions, and of Spark tasks that write.")] = 8,
    out: Annotated[Path, typer.Option(help="Folder for the table, the readings and the report.")] = OUT,
    flights: Annotated[int | None, typer.Option(min=1, help="Take that many flights only, drawn by --seed.")] = None,
    seed: Annotated[int, typer.Option(help="Chooses the flights of --flights and the tasks that fail.")] = 0,
    fault: Annotated[bool, typer.Option(help="Let tasks fail on purpose and be retried.")] = True,
    again: Annotated[bool, typer.Option("--again", help="Only compare the table of an earlier run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write a million real upserts through Spark, and compare every way of reading them with Spark's own answer.

    Exits with 1 if a row differs, or if a planned fault did not happen.
    """
    from . import validate as job
    from .progress import PhaseProgress
    from .report import to_json
    from .terminal import show

    progress = PhaseProgress(Console(stderr=True))
    try:
        wanted = job.Job(out=out, revision=revision, regions=regions, flights=flights, fault=fault, seed=seed)
        found = job.compare_again(wanted, progress) if again else job.validate(wanted, progress)
    except InvalidArgument as mistake:
        typer.echo(str(mistake), err=True)
        raise typer.Exit(2) from mistake
    if as_json:
        typer.echo(json.dumps(to_json(found), indent=2))
    else:
        console = Console()
        show(found, console)
        console.print(f"report: {escape(str(out / 'report.html'))}", highlight=False)
    if found.verdict != "ok":
        raise typer.Exit(1)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Say whether Spark can start here, and what to do if not. Exits with 1 if it cannot."""
    from dataclasses import asdict

    from .runtime import doctor as look

    report = look()
    if as_json:
        typer.echo(json.dumps({"ok": report.ok, "checks": [asdict(check) for check in report.checks]}, indent=2))
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for check in report.checks:
            mark = "[green]ok[/]" if check.ok else "[red]no[/]"
            mend = f"\n[yellow]mend: {escape(check.mend)}[/]" if check.mend else ""
            table.add_row(mark, check.name, escape(check.found) + mend)
        Console().print(table)
    if not report.ok:
        raise typer.Exit(1)
