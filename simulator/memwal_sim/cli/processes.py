"""The command of ``memwal`` that lets real processes work on a real folder, and kills them.

Exit codes: 0 every promise held, 1 one was broken, 2 usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from .terminal import FOUND, Json, mistakes_are_usage, print_json, stderr, stdout

if TYPE_CHECKING:
    from ..soak.processes.run import Follow, RunResult


def commands(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(soak_processes)


def soak_processes(
    seconds: Annotated[float, typer.Option(min=1, help="How long to run, in real time.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Seed for which process is disturbed when.")] = 1,
    revision: Annotated[str, typer.Option(help="A, B or R.")] = "B",
    regions: Annotated[int, typer.Option(min=1, max=8, help="Manual regions, each with its own keys and writer.")] = 2,
    disk_mib: Annotated[
        int, typer.Option(min=0, help="Size of the table's own file system, which is filled up; 0: do not mount one.")
    ] = 96,
    as_json: Json = False,
) -> None:
    """Run writers, a merger, a collector and a reader as processes, and kill and stop them, and fill their disk."""
    from memwal.api.place import named_revision

    from ..soak.processes.run import RunSettings, run

    with mistakes_are_usage():
        named_revision(revision)
        settings = RunSettings(seconds=seconds, seed=seed, revision=revision, regions=regions, disk_mib=disk_mib)
        with _followed(seconds) as follow:
            outcome = run(settings, follow)
    if as_json:
        print_json(outcome.as_json())
    else:
        _print(outcome)
    if outcome.broken:
        raise typer.Exit(FOUND)


@contextmanager
def _followed(seconds: float) -> Iterator[Follow | None]:
    """A status line on the error stream, for people."""
    from rich.status import Status

    if not stderr.is_terminal:
        yield None
        return
    with Status("soaking", console=stderr) as status:

        def follow(passed_s: float, now: RunResult) -> None:
            counts = now.counts
            status.update(
                f"{passed_s:.0f} of {seconds:.0f} s: {counts['kills']} kills, {counts['stops']} stops, "
                f"{counts['full disks']} full disks, {counts['puts']:,} puts, {counts['scans']:,} scans"
            )

        yield follow


def _print(outcome: RunResult) -> None:
    for name, count in sorted(outcome.counts.items()):
        stdout.print(f"{count:>8,}  {name}", markup=False)
    for name, count in sorted(outcome.failures.items()):
        stdout.print(f"{count:>8,}  failed as permitted: {name}", markup=False)
    stdout.print(f"          the disk was {outcome.disk}", markup=False)
    for words in outcome.broken:
        stdout.print(words, style="bold red", markup=False, soft_wrap=True)
    stdout.print("a promise was broken" if outcome.broken else "every promise held")
