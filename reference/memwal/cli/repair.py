"""`memwal table repair`: what can be repaired without losing anything."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from memwal.cli.terminal import AsJson, ManifestStore, Place, out, progress
from memwal.cli.verify import finding_as_json

if TYPE_CHECKING:
    from memwal.api.verifying import RepairReport

_VERBS = {
    "hint": ("would point the hint", "pointed the hint"),
    "entry": ("would move aside", "moved aside"),
    "left": ("leaves", "left"),
    "unfinished": ("unfinished", "unfinished"),
    "refused": ("refuses", "refused"),
}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def repair(
        table: Place,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, without doing it.")] = False,
        manifest_store: ManifestStore = None,
        as_json: AsJson = False,
    ) -> None:
        """Repair what can be repaired without losing anything. Stop the writers of damaged regions first.

        Exit code 0: no finding is left; 1: findings are left.
        """
        from memwal.api.verifying import repair as run_repair

        report = run_repair(table, dry_run=dry_run, manifest_store=manifest_store, listener=progress)
        if as_json:
            out.print_json(json.dumps(_as_json(report)))
        else:
            _print(report, out)
        if report.left or any(step.kind in ("refused", "unfinished") for step in report.steps):
            raise typer.Exit(1)


def _as_json(report: RepairReport) -> dict[str, object]:
    return {
        "dry_run": report.dry_run,
        "steps": [asdict(step) for step in report.steps],
        "left": [{**finding_as_json(found), "advice": report.advice(found)} for found in report.left],
    }


def _print(report: RepairReport, out: Console) -> None:
    def line(text: str, style: str = "") -> None:
        out.print(text, style=style, soft_wrap=True, highlight=False, markup=False)

    for step in report.steps:
        line(f"{_VERBS[step.kind][not report.dry_run]} {step.path}: {step.reason}")
    for found in report.left:
        line(f"left {found.severity} {found.path}: {found.reason} [{found.oracle}, {found.clause}]", "yellow")
        line(f"    {report.advice(found)}")
    line(report.summary)
