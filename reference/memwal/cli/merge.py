"""`memwal table merge` and `memwal table drain`: rows of regions into the base table, with progress while they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import memwal
from memwal.cli.naming import region_named
from memwal.cli.terminal import AsJson, ManifestStore, Place, Progress, RegionName, err, print_json, say
from memwal.jobs.defaults import COMMIT_EVERY, COMPACT_OVER
from memwal.words import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from memwal.api import MergeReport

STAGES = {"keys": "reading keys", "base": "matching rows", "rows": "writing rows"}
"""Stages of one generation's merge, in words."""


class Display:
    """A bar for each stage of a merge to a person, lines to a file or a pipe; on standard error. A context manager.

    Called with every event of the engine; lines for those that are not about progress.
    """

    def __init__(self, console: Console = err) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn())
        self._bars = Bars(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._console, self._lines = console, Progress(console)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, event: str, fields: dict[str, object]) -> None:
        if event == "merge_progress":
            self._show(str(fields["stage"]), int(str(fields["done"])), int(str(fields["total"])))
        else:
            self._lines(event, fields)

    def _show(self, stage: str, done: int, total: int) -> None:
        words = STAGES.get(stage, stage)
        if not self._console.is_terminal:
            self._lines.say(f"{words}: {done:,} of {total:,}")
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(words)
        self._bars.update(self._tasks[stage], completed=done, total=total)


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(merge)
    app.command()(drain)


def merge(
    table: Place,
    region: RegionName = None,
    replace_rows_of_others: Annotated[
        bool, typer.Option(help="Let a manual region replace rows that another manual region merged.")
    ] = False,
    commit_every: Annotated[
        int, typer.Option(min=1, help="Merge at most this many regions in one commit, each with its next generation.")
    ] = COMMIT_EVERY,
    compact_over: Annotated[
        int,
        typer.Option(min=0, help="Rewrite small fragments of one size as one if there are more than this; 0: never."),
    ] = COMPACT_OVER,
    defer_index_remap: Annotated[
        bool,
        typer.Option(
            help="Record where rows of small fragments went, do not rewrite indexes. Not with pylance's compaction."
        ),
    ] = False,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Merge flushed generations into the base table, in order."""
    with Display() as display:
        opened = memwal.open(table, manifest_store=manifest_store, listener=display)
        named = region_named(opened, region)
        report = opened.merge(
            named,
            commit_every=commit_every,
            compact_over=compact_over,
            defer_index_remap=defer_index_remap,
            replace_rows_of_others=replace_rows_of_others,
        )
    show(report, as_json=as_json)
    if not as_json:
        _say_what_waits(opened, table, named)


def drain(
    table: Place,
    region: Annotated[
        str | None,
        typer.Argument(
            metavar="[REGION]", help="Its id, the beginning of its id, or its values (bucket=2). Default: all."
        ),
    ] = None,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Flush the WAL of one region or of all, and merge the generations. Fences open writers."""
    with Display() as display:
        opened = memwal.open(table, manifest_store=manifest_store, listener=display)
        report = opened.drain(region_named(opened, region))
    show(report, as_json=as_json)


def show(report: MergeReport, *, as_json: bool) -> None:
    """What was merged, in a sentence or as JSON."""
    if as_json:
        merged = [{"region_id": region, "generation": generation} for region, generation in report.merged]
        print_json(
            {"merged": merged, **{name: getattr(report, name) for name in ("rows", "deleted", "commits", "compacted")}}
        )
    else:
        say(report.summary)


def _say_what_waits(opened: memwal.Table, table: str, region: str | None) -> None:
    """Rows that a merge leaves out, since no writer has flushed them."""
    rows = sum(each.wal_rows for each in opened.backlog() if region in (None, each.region_id))
    if rows:
        only, which = counted(rows, "row is", "rows are"), f" {region}" if region is not None else ""
        them = "it" if rows == 1 else "them"
        say(f"{only} only in the WAL: `memwal table drain {table}{which}` brings {them} into the base")
