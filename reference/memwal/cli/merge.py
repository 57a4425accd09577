"""`memwal table merge`: merging flushed generations into the base table, with its progress for a person who waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import memwal
from memwal.cli.options import ManifestStore

if TYPE_CHECKING:
    from rich.progress import TaskID

STAGES = {"keys": "reading keys", "base": "matching rows", "rows": "writing rows"}
"""Stages of one generation's merge, in words."""


class Display:
    """A bar for each stage of each generation, on standard error and only to a person. A context manager.

    Called with every event of the engine; lines for those that are not about progress.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn())
        self._console = console
        self._bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, event: str, fields: dict[str, object]) -> None:
        if event == "merge_progress":
            self._show(str(fields["stage"]), int(str(fields["done"])), int(str(fields["total"])))
        elif self._console.is_terminal:
            words = " ".join(f"{name}={value}" for name, value in fields.items())
            self._console.print(f"[dim]{event} {words}[/dim]")

    def _show(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(STAGES.get(stage, stage))
        self._bars.update(self._tasks[stage], completed=done, total=total)


def register(app: typer.Typer, out: Console, err: Console) -> None:
    """Add the command to ``app``; results go to ``out``, progress to ``err``."""
    from memwal.jobs.defaults import COMMIT_EVERY

    @app.command()
    def merge(
        table: Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL of the table.")],
        region: Annotated[str | None, typer.Option(help="Merge this region only.")] = None,
        replace_rows_of_others: Annotated[
            bool, typer.Option(help="Let a manual region replace rows that another manual region merged.")
        ] = False,
        commit_every: Annotated[
            int, typer.Option(min=1, help="Most regions that share a commit, each with its next generation.")
        ] = COMMIT_EVERY,
        manifest_store: ManifestStore = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        """Merge flushed generations into the base table, in order."""
        with Display(err) as display:
            opened = memwal.open(table, manifest_store=manifest_store, listener=display)
            report = opened.merge(region, commit_every=commit_every, replace_rows_of_others=replace_rows_of_others)
        if as_json:
            merged = [{"region_id": r, "generation": g} for r, g in report.merged]
            out.print_json(
                json.dumps(
                    {"merged": merged, **{name: getattr(report, name) for name in ("rows", "deleted", "commits")}}
                )
            )
            return
        count = len(report.merged)
        done = f"{report.rows} rows upserted, {report.deleted} keys deleted"
        out.print(f"merged {count} generations in {report.commits} commits: {done}")
