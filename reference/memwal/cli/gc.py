"""`memwal table gc`: delete what nothing needs any more, or say what would go and why."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.table import Table as Grid

import memwal
from memwal.api import GcReport
from memwal.cli.options import ManifestStore
from memwal.drive import Listener
from memwal.jobs import collector
from memwal.jobs.collector import TimeTravel

GRACE_MS = 600_000
"""Grace time where the caller says nothing: longer than a commit of a large merge should take."""
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def duration_ms(text: str) -> int:
    """A duration such as ``90s``, ``10m``, ``12h`` or ``7d`` in milliseconds; raises `typer.BadParameter`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None and text.strip() != "0":
        raise typer.BadParameter(f"{text!r} is no duration: a whole number with ms, s, m, h or d, such as 10m or 7d")
    return int(found[1]) * _UNITS_MS[found[2]] if found is not None else 0


def register(app: typer.Typer, out: Console, progress: Listener) -> None:
    """Add the command to ``app``; results go to ``out``, what it is doing to ``progress``."""

    @app.command()
    def gc(
        table: Annotated[
            str, typer.Argument(metavar="TABLE", help="Folder or URL (s3://, gs://, az://) of the table.")
        ],
        retain_versions: Annotated[
            int | None, typer.Option(min=1, help="Keep this many newest table versions; all if absent.")
        ] = None,
        retain_age: Annotated[
            str | None, typer.Option(metavar="DURATION", help="Keep younger table versions too, such as 7d.")
        ] = None,
        grace: Annotated[
            str, typer.Option(metavar="DURATION", help="How long a read, merge or commit may be under way.")
        ] = "10m",
        retain_manifests: Annotated[
            int, typer.Option(min=2, help="Keep this many newest manifest versions of each region.")
        ] = collector.RETAIN_MANIFESTS,
        orphan_age: Annotated[
            str, typer.Option(metavar="DURATION", help="Keep left-over generations that are younger.")
        ] = "0",
        time_travel: Annotated[
            str,
            typer.Option(
                help="Of retained versions, keep what a Restore of them needs (progress), or only what their own "
                "snapshot lists (snapshot): then they cannot be restored any more."
            ),
        ] = "progress",
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Say what would be deleted, and why; change nothing.")
        ] = False,
        sizes: Annotated[
            bool | None, typer.Option("--sizes/--no-sizes", help="Measure what goes; in a dry run unless refused.")
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="Show each thing that is kept, not only how many.")] = False,
        manifest_store: ManifestStore = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        """Delete table versions, generations, WAL entries, left-overs and files that nothing needs any more.

        Exit code 0: done, or said; 1: the table is damaged or the store failed, and another run carries on; 2: usage.
        """
        if time_travel not in get_args(TimeTravel):
            raise typer.BadParameter(f"{time_travel!r}: choose progress or snapshot", param_hint="--time-travel")
        report = memwal.open(table, manifest_store=manifest_store, listener=progress).gc(
            retain_versions=retain_versions,
            retain_age_ms=duration_ms(retain_age) if retain_age is not None else None,
            grace_ms=duration_ms(grace),
            retain_manifests=retain_manifests,
            orphan_age_ms=duration_ms(orphan_age),
            time_travel="snapshot" if time_travel == "snapshot" else "progress",
            dry_run=dry_run,
            sizes=dry_run if sizes is None else sizes,
        )
        if as_json:
            out.print_json(json.dumps(_as_json(report)))
        else:
            _print(report, out, every=every)

    @app.command("gc-rules")
    def gc_rules(
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        """Show the tables by which `gc` decides: a row per reason to keep a thing; what no row keeps goes."""
        if as_json:
            out.print_json(json.dumps(_rules()))
            return
        grid = Grid("kind", "rule", "stays", "clauses", show_lines=True)
        for row in _rules():
            grid.add_row(*(", ".join(value) if isinstance(value, list) else str(value) for value in row.values()))
        out.print(grid)


def _as_json(report: GcReport) -> dict[str, object]:
    return {
        "dry_run": report.dry_run,
        "decisions": [asdict(decision) for decision in report.decisions],
        "totals": [asdict(total) for total in report.totals],
    }


def _print(report: GcReport, out: Console, *, every: bool) -> None:
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
    grid = Grid("kind", verb, "bytes", "kept")
    for total in report.totals:
        grid.add_row(total.kind, str(total.collected), _bytes(total.collected_bytes), str(total.kept))
    out.print(grid)
    line(f"{verb} {len(report.collected)} of {len(report.decisions)}")


def _bytes(size: int | None) -> str:
    if size is None:
        return "not measured"
    unit = next(((name, of) for name, of in _UNITS if size >= of), None)
    return f"{size / unit[1]:.1f} {unit[0]}" if unit is not None else str(size)


def _rules() -> list[dict[str, object]]:
    return [
        {"kind": table.kind, "rule": rule.name, "stays": rule.stays, "clauses": list(rule.clauses)}
        for table, rule in collector.rules()
    ]
