"""The commands under `memwal spark`; the main program loads them by entry point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal.errors import InvalidArgument, check_name
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .jobs import commands as jobs

if TYPE_CHECKING:
    from .logs import AnyLog

OUT = Path("out") / "validate"


def commands(app: typer.Typer) -> None:
    """Add this package's commands to ``app``."""
    app.command("validate")(validate)
    app.command("doctor")(doctor)
    jobs.commands(app)


QUICK = 5_000
"""Flights of ``--quick``."""


def validate(
    context: typer.Context,
    log: Annotated[
        str | None, typer.Option(help="Your own change log: a file or folder of Parquet, JSON lines or CSV.")
    ] = None,
    key: Annotated[str, typer.Option(help="With --log: columns of the primary key, separated by commas.")] = "",
    sequence: Annotated[str, typer.Option(help="With --log: column by which the last row of a key wins.")] = "",
    delete: Annotated[
        str | None, typer.Option(help="With --log: column of booleans; true deletes the key (revision R).")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(help="With --log: column whose values are written by one job after another.")
    ] = None,
    region_by: Annotated[
        str, typer.Option(help="With --log: key columns whose hash chooses the region. Default: the whole key.")
    ] = "",
    format: Annotated[  # noqa: A002 - as `memwal spark write` calls it
        str | None, typer.Option(help="With --log: parquet, json or csv, if the file's ending does not say it.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A made-up change log: ycsb-a, ycsb-b, ycsb-f, late or skewed.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="With --preset: number of its events. Default: 1,000,000.")
    ] = None,
    revision: Annotated[str, typer.Option(help="Revision of the table: A, B or R.")] = "B",
    regions: Annotated[int, typer.Option(min=1, help="Number of regions, and of Spark tasks that write.")] = 8,
    out: Annotated[Path, typer.Option(help="Folder for the table, the readings and the report.")] = OUT,
    flights: Annotated[int | None, typer.Option(min=1, help="Take only this many flights, drawn by --seed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Take only 5,000 flights: a first look in a minute.")] = False,
    seed: Annotated[
        int, typer.Option(help="Seed for the log of --preset, for --flights, and for what faults strike.")
    ] = 0,
    writer: Annotated[
        str | None,
        typer.Option(help="Another implementation writes: native, reference, or the command of an adapter."),
    ] = None,
    faults: Annotated[
        str,
        typer.Option(help="Faults to plan: none, light, all, or kinds separated by commas (docs/validate.md)."),
    ] = "light",
    fault_seed: Annotated[
        int | None, typer.Option(help="Seed for what the faults strike. Default: that of --seed.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Run an earlier run again, from its report.json: same log, seeds and faults."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Only compare the table of an earlier run, without writing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Write a change log through Spark, and compare every way of reading the table with Spark's own answer.

    The log is a million events of real flights, or yours (--log), or a made-up one (--preset). Exits with 1 if a row
    differs, and with 4 if all is right and something that was planned, such as a fault, did not happen.
    """
    from pyspark.errors import AnalysisException, PySparkException

    from . import faults as kinds
    from . import replaying
    from . import validate as running
    from .errors import plain_errors
    from .job import Job
    from .progress import PhaseProgress
    from .report import to_json
    from .terminal import show

    progress = PhaseProgress(Console(stderr=True))
    try:
        own = {"key": key, "sequence": sequence, "delete": delete, "batch": batch, "region_by": region_by}
        replayed = None
        if replay is not None:
            _alone(context, "replay", "out", "as_json")
            wanted, replayed = replaying.load(replay, out)
        else:
            wanted = Job(
                out=out,
                revision=revision,
                regions=regions,
                log=_log(log, {**own, "format": format}, preset, rows, flights, quick=quick),
                seed=seed,
                faults=kinds.chosen(faults),
                fault_seed=seed if fault_seed is None else fault_seed,
                writer=writer,
            )
        with plain_errors():
            found = running.compare_again(wanted, progress) if again else running.validate(wanted, progress, replayed)
    except (InvalidArgument, AnalysisException) as mistake:
        typer.echo(str(mistake), err=True)
        raise typer.Exit(2) from mistake
    except PySparkException as failed:
        typer.echo(f"the job failed: {failed}", err=True)
        raise typer.Exit(1) from failed
    if as_json:
        typer.echo(json.dumps(to_json(found), indent=2))
    else:
        console = Console()
        show(found, console)
        console.print(f"report: {escape(str(out / 'report.html'))}", highlight=False)
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def _alone(context: typer.Context, option: str, *beside: str) -> None:
    """Raises InvalidArgument if options are given that ``option`` does not go together with."""
    given = [name for name in context.params if _is_given(context, name) and name not in (option, *beside)]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InvalidArgument(f"[MEMWAL_OPTION] {names}: leave out, because the report of --{option} has these values")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _log(
    path: str | None,
    own: Mapping[str, str | None],
    preset: str | None,
    rows: int | None,
    flights: int | None,
    *,
    quick: bool,
) -> AnyLog:
    """The log that the options name; raises InvalidArgument for options that do not go together."""
    from .logs import Flights, Made, OwnLog
    from .presets import PRESETS, ROWS

    if preset is not None:
        check_name("preset", preset, PRESETS)
    given = {"--log": path, "--preset": preset, "--flights": flights, "--quick": quick or None}
    if len([value for value in given.values() if value is not None]) > 1:
        raise InvalidArgument(f"[MEMWAL_OPTION] a run has one change log: choose one of {', '.join(given)}")
    beside = [f"--{name.replace('_', '-')}" for name, value in own.items() if value]
    if path is None and beside:
        raise InvalidArgument(f"[MEMWAL_OPTION] {', '.join(beside)}: give these only with --log")
    if preset is None and rows is not None:
        raise InvalidArgument("[MEMWAL_OPTION] --rows: give it only with --preset")
    if path is not None:
        if not own["key"] or not own["sequence"]:
            raise InvalidArgument(
                "[MEMWAL_OPTION] --log needs --key and --sequence: name the columns of the key, "
                "and the column that orders the rows of a key"
            )
        return OwnLog(
            path=path,
            key=_names(own["key"]),
            sequence=own["sequence"],
            format=own["format"],
            delete=own["delete"],
            batch=own["batch"],
            region_by=_names(own["region_by"]),
        )
    return (
        Made(preset=preset, rows=ROWS if rows is None else rows)
        if preset is not None
        else Flights(count=QUICK if quick else flights)
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Check whether Spark can start here, and say what to do if not. Exit code 1: it cannot."""
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
