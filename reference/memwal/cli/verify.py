"""`memwal table verify`: every invariant over a table, read only."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from memwal.cli.terminal import AsJson, Place, entries, out, progress
from memwal.words import counted

if TYPE_CHECKING:
    from memwal.invariants import Report
    from memwal.violations import Violation

Found = dict[str, Any]
"""A report as JSON: see docs/verify.md."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command()
    def verify(
        table: Place = "",
        revision: Annotated[
            str | None, typer.Option(help="Read the regions as this revision, whatever the table says.")
        ] = None,
        fast: Annotated[bool, typer.Option("--fast", help="Do not check rows and older history.")] = False,
        listed: Annotated[bool, typer.Option("--list", help="List the invariants without checking a table.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """Check a table against every invariant. Reads only. Exit code 0: clean; 1: findings; 2: no such table."""
        from memwal.api.verifying import verify as run_verify

        if listed:
            _print_list(out, as_json=as_json)
            return
        if not table:
            raise typer.BadParameter("name a table, or use --list", param_hint="TABLE")
        found = as_found(table, run_verify(table, revision=revision, fast=fast, listener=progress))
        if as_json:
            out.print_json(json.dumps(found))
        else:
            show(found, out)
        if found["findings"]:
            raise typer.Exit(1)


def as_found(table: str, report: Report) -> Found:
    """The report with the stable field names of docs/verify.md."""
    return {
        "table": table,
        "clean": report.clean,
        "revision": report.revision,
        "version": report.version,
        "mem_wal": report.mem_wal,
        "fast": report.fast,
        "moved": report.moved,
        "findings": [finding_as_json(one) for one in report.findings],
        "suppressed": dict(report.suppressed),
        "looked_at": dict(report.looked_at),
        "notes": list(report.notes),
        "unlooked": [{"what": what, "error": error} for what, error in report.unlooked],
    }


def finding_as_json(found: Violation) -> Found:
    """One finding, as docs/verify.md says."""
    return {
        "invariant": found.oracle,
        "clause": found.clause,
        "path": found.path,
        "reason": found.reason,
        "severity": found.severity,
        "offset": found.offset,
    }


def show(found: Found, out: Console) -> None:
    """The report for people."""
    from memwal.invariants.report import looked

    def line(text: str, style: str = "") -> None:
        out.print(text, style=style, soft_wrap=True, highlight=False, markup=False)

    for one in found["findings"]:
        at = "" if one["offset"] is None else f" at byte {one['offset']}"
        colour = "red" if one["severity"] == "error" else "yellow"
        line(f"{one['severity']} {one['path']}{at}: {one['reason']} [{one['invariant']}, {one['clause']}]", colour)
    for name, more in found["suppressed"].items():
        line(f"… and {more} more of {name}")
    for note in found["notes"]:
        line(f"not checked: {note}", "dim")
    if not found["mem_wal"]:
        line("MemWAL is not enabled on this table, or its index cannot be read: only the table itself was checked")
    if found["moved"]:
        line("the table kept changing while it was looked at: findings may come from two moments", "yellow")
    looked_at = looked(found["looked_at"].items())
    version = f"version {found['version']}, " if found["version"] is not None else ""
    line(f"{version}revision {found['revision'] or 'unknown'}: looked at {looked_at or 'nothing'}")
    for one in found["unlooked"]:
        line(f"not looked at: {one['what']}: {one['error']}", "red")
    line("clean" if found["clean"] else counted(len(found["findings"]), "finding"))


def _print_list(out: Console, *, as_json: bool) -> None:
    from memwal.invariants import ABOUT, INVARIANTS

    every = sorted(INVARIANTS.values(), key=lambda one: ABOUT.index(one.about))
    if as_json:
        out.print_json(json.dumps([asdict(one) for one in every]))
        return
    entries(
        (
            f"{one.name}  {one.severity} about the {one.about}, {', '.join(one.clauses)}",
            one.says + (" (reads rows)" if one.rows else ""),
        )
        for one in every
    )
