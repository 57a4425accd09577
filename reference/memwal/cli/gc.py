"""`memwal table gc`: delete what nothing needs any more, or say what would go and why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import memwal
from memwal.cli import gc_options
from memwal.cli.terminal import AsJson, ManifestStore, Place, entries, grid_of, out, progress
from memwal.jobs.defaults import RETAIN_MANIFESTS

if TYPE_CHECKING:
    from memwal.api import GcReport

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def gc(
        table: Place,
        retain_versions: gc_options.RetainVersions = None,
        retain_age: gc_options.RetainAge = None,
        grace: gc_options.Grace = gc_options.GRACE,
        retain_manifests: gc_options.RetainManifests = RETAIN_MANIFESTS,
        orphan_age: gc_options.OrphanAge = gc_options.ORPHAN_AGE,
        time_travel: gc_options.TimeTravelRule = "progress",
        dry_run: gc_options.DryRun = False,
        sizes: Annotated[
            bool | None, typer.Option("--sizes/--no-sizes", help="Measure what is deleted. Default: only in a dry run.")
        ] = None,
        every: Annotated[
            bool, typer.Option("--all", help="List everything that is kept, not only the numbers.")
        ] = False,
        manifest_store: ManifestStore = None,
        as_json: AsJson = False,
    ) -> None:
        """Delete table versions, generations, WAL entries, left-overs and files that nothing needs any more.

        Exit code 0: done, or shown; 1: the table is damaged or the store failed (run it again); 2: usage.
        """
        kept = gc_options.kept(retain_versions, retain_age, grace, retain_manifests, orphan_age, time_travel)
        report = memwal.open(table, manifest_store=manifest_store, listener=progress).gc(
            **kept,
            dry_run=dry_run,
            sizes=dry_run if sizes is None else sizes,
        )
        if as_json:
            out.print_json(json.dumps(as_found(report)))
        else:
            show(report, out, every=every)

    @app.command("gc-rules")
    def gc_rules(
        as_json: AsJson = False,
    ) -> None:
        """Show the rules of `gc`: each row is a reason to keep something. What no rule keeps is deleted."""
        if as_json:
            out.print_json(json.dumps(_rules()))
            return
        entries(
            (f"{row['kind']} {row['rule']}  {' '.join(row['clauses'])}", f"stays {row['stays']}") for row in _rules()
        )


def as_found(report: GcReport) -> dict[str, object]:
    """The report as JSON has it."""
    return {
        "dry_run": report.dry_run,
        "decisions": [asdict(decision) for decision in report.decisions],
        "totals": [asdict(total) for total in report.totals],
    }


def show(report: GcReport, out: Console, *, every: bool) -> None:
    """Print what went, and why; of what is kept each thing if ``every``, else how many for which reason."""
    verb = "would delete" if report.dry_run else "deleted"

    def line(text: str) -> None:
        out.print(text, soft_wrap=True, highlight=False, markup=False)

    for decision in report.collected:
        line(f"{verb} {decision.kind} {decision.name}: {decision.reason}")
    for decision in report.kept if every else ():
        line(f"kept {decision.kind} {decision.name}: {decision.reason}")
    if not every:
        for (kind, rule), count in Counter((d.kind, d.rule) for d in report.kept).items():
            reasons = list(dict.fromkeys(d.reason for d in report.kept if (d.kind, d.rule) == (kind, rule)))
            others = f"; {len(reasons) - 1} more such reasons" if len(reasons) > 1 else ""
            line(f"kept {count} {kind} [{rule}]: {reasons[0]}{others}")
    grid = grid_of("kind", verb, "bytes", "kept")
    for total in report.totals:
        grid.add_row(total.kind, str(total.collected), _bytes(total.collected_bytes), str(total.kept))
    out.print(grid)
    line(f"{verb} {len(report.collected)} of {len(report.decisions)}")


def _bytes(size: int | None) -> str:
    if size is None:
        return "not measured"
    unit = next(((name, of) for name, of in _UNITS if size >= of), None)
    return f"{size / unit[1]:.1f} {unit[0]}" if unit is not None else str(size)


def _rules() -> list[dict[str, Any]]:
    from memwal.jobs import collector

    return [
        {"kind": table.kind, "rule": rule.name, "stays": rule.stays, "clauses": list(rule.clauses)}
        for table, rule in collector.rules()
    ]
