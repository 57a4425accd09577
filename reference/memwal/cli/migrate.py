"""`memwal table migrate`: from a MemWAL index of revision 0 to one of A, B or R."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from memwal.cli.terminal import AsJson, ManifestStore, Place, grid_of, out, progress
from memwal.jobs.defaults import ENTRY_NAMES

if TYPE_CHECKING:
    from memwal.api.migrating import MigrationReport


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def migrate(
        table: Place,
        revision: Annotated[str, typer.Option(help="The revision to migrate to: A, B or R.")] = "B",
        entry_names: Annotated[
            str, typer.Option(help="File name of a WAL entry, with {id} for its number ({id:020d}: 20 digits).")
        ] = ENTRY_NAMES,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Read everything that would be merged, without changing anything.")
        ] = False,
        manifest_store: ManifestStore = None,
        as_json: AsJson = False,
    ) -> None:
        """Merge all that a MemWAL index of revision 0 lists, and replace it by one of another revision.

        Stop the writers of the table first. If a run is interrupted, run it again. Exit code 0: done,
        or said; 1: refused, and standard error says why; 2: usage.
        """
        from memwal.api.migrating import migrate as run_migrate

        report = run_migrate(
            table,
            revision=revision,
            entry_names=entry_names,
            dry_run=dry_run,
            manifest_store=manifest_store,
            listener=progress,
        )
        if as_json:
            out.print_json(json.dumps(_as_json(report)))
        else:
            _print(report, out)


def _as_json(report: MigrationReport) -> dict[str, object]:
    """Numbers of 64 bits are text: many readers of JSON would round them."""
    return {
        "dry_run": report.dry_run,
        "revision": report.revision,
        "version_before": str(report.version_before),
        "version": str(report.version),
        "moved": [
            {
                "region": one.region,
                "generation": str(one.generation),
                "state": one.state.name,
                "entries": one.entries,
                "rows": one.rows,
            }
            for one in report.moved
        ],
        "rewritten": report.rewritten,
        "left": list(report.left),
    }


def _print(report: MigrationReport, out: Console) -> None:
    def line(text: str) -> None:
        out.print(text, soft_wrap=True, highlight=False, markup=False)

    if report.moved:
        grid = grid_of("region", "generation", "state before", "entries", "rows")
        for one in report.moved:
            grid.add_row(one.region, str(one.generation), one.state.name, str(one.entries), str(one.rows))
        out.print(grid)
    line(report.summary)
    if report.rewritten:
        does = "would write" if report.dry_run else "wrote"
        line(f"{does} all rows anew, in data files of version 2.1; indexes over columns have to be made again")
    line(report.outcome)
    for folder in report.left:
        line(f"left: {folder}, which only older table versions name")
