"""The validation report on a terminal."""

from __future__ import annotations

from memwal.words import counted
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .oracle import Difference
from .report import JobReport, VerifyResult

CONFLICTS = 3
"""Impossible histories that are told; the page has all."""


def show(report: JobReport, console: Console) -> None:
    """Print a short form: figures, comparisons, faults, verdict; the first differences where there are any."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in _figures(report):
        table.add_row(f"[dim]{name}", value)
    console.print(table)
    for comparison in report.comparisons:
        console.print(f"{_mark(comparison.ok)} {escape(comparison.summary)}", highlight=False)
        for difference in comparison.differences:
            console.print(f"    {escape(line(difference, report.sequence))}", highlight=False)
    for verified in report.verified:
        console.print(f"{_mark(not verified.findings)} {escape(_invariants(verified))}", highlight=False)
        for finding in verified.findings:
            console.print(f"    {escape(finding)}", highlight=False)
    if report.history is not None:
        history = report.history
        text = (
            f"histories of {history.keys} keys: {history.reads:,} reads, {history.overlapping:,} before the last write"
        )
        console.print(f"{_mark(not history.conflicts)} {text}", highlight=False)
        for conflict in history.conflicts[:CONFLICTS]:
            console.print(f"    {escape(conflict)}", highlight=False)
    if report.writer is not None:
        console.print(f"writer: {escape(report.writer.name)} {escape(report.writer.version)}", highlight=False)
        for phase in report.writer.phases:
            told = (
                f"judged, {phase.when}: {counted(len(phase.findings), 'finding')}, {phase.looked_at:,} things looked at"
            )
            console.print(f"{_mark(not phase.findings)} {escape(told)}", highlight=False)
            for said in (*phase.findings, *(f"open in the texts: {choice}" for choice in phase.choices)):
                console.print(f"    {escape(said)}", highlight=False)
    for proof in report.faults:
        console.print(f"{_mark(proof.happened)} {escape(proof.summary)}", highlight=False)
    console.print(f"[bold {'green' if report.verdict == 'ok' else 'red'}]verdict: {escape(report.verdict)}")


def _invariants(verified: VerifyResult) -> str:
    found = f"invariants {verified.when}: {counted(len(verified.findings), 'finding')}"
    return f"{found} in {verified.looked}" if verified.looked else found


def line(difference: Difference, sequence: str) -> str:
    """One difference in one line: kind, key, the columns that differ, and the sequences of its events."""
    key = " ".join(difference.key.values())
    changes = [
        f"{name} {(difference.expected or {}).get(name)} -> {(difference.actual or {}).get(name)}"
        for name in difference.columns
    ]
    events = ", ".join(str(event.get(sequence)) for event in difference.history)
    return (
        f"{difference.kind} {key}" + (f": {'; '.join(changes)}" if changes else "") + f" (events: {events or 'none'})"
    )


def _figures(report: JobReport) -> list[tuple[str, str]]:
    figures = [
        ("rows", f"{counted(report.events, 'event')}, {counted(report.keys, 'key')}, revision {report.revision}")
    ]
    figures.append(("log", escape(report.log)))
    if report.regions:
        merged = sum(region.merged for region in report.regions)
        figures.append(("regions", f"{len(report.regions)}"))
        collected = f", {report.collected:,} collected" if report.collected is not None else ""
        figures.append(("generations", f"{report.generations:,} flushed, {merged:,} merged{collected}"))
    figures += [(name, f"{rate:,.0f} rows/s") for name, rate in report.rates]
    figures.append(("time", f"{report.seconds:,.1f} s"))
    figures.append(("peak memory", f"{report.peak_memory_bytes / 2**30:.2f} GiB"))
    return figures


def _mark(ok: bool) -> str:
    return "[green]ok [/]" if ok else "[red]BAD[/]"
