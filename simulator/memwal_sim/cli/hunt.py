"""``memwal explore hunt``: random schedules of a scenario until something is violated.

Exit codes: 0 nothing was found, 1 a violation was, 2 usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.errors import InvalidArgument
from rich.table import Table

from ..parallel import ALONE, HERE, Workers
from .terminal import (
    FOUND,
    Jobs,
    Json,
    On,
    mistakes_are_usage,
    print_json,
    print_steps,
    print_violation,
    reading_of,
    stderr,
    stdout,
)

if TYPE_CHECKING:
    from ..strategies.hunting import Hunt, HuntProgress


def commands(app: typer.Typer) -> None:
    """Add the command of this module to ``app``."""
    app.command()(hunt)


@contextmanager
def _shown(doing: str, *, quiet: bool) -> Iterator[Callable[[HuntProgress], None] | None]:
    """A status line on the error stream that follows a hunt."""
    from rich.status import Status

    if quiet or not stderr.is_terminal:
        yield None
        return
    with Status(doing, console=stderr) as status:

        def update(now: HuntProgress) -> None:
            rate = now.distinct / now.seconds if now.seconds else 0
            status.update(f"{doing}: {now.runs:,} runs, {now.distinct:,} distinct schedules, {rate:,.0f}/s")

        yield update


def hunt(
    scenario: Annotated[str, typer.Argument(help="Name of a scenario; `memwal explore scenarios` lists them.")],
    strategy: Annotated[str, typer.Option(help="uniform, pct, swarm or hypothesis.")] = "uniform",
    runs: Annotated[int, typer.Option(min=1, help="Stop after this number of runs.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; the next runs have the next numbers.")] = 0,
    faults: Annotated[int, typer.Option(min=0, help="Most requests of one run that may fail.")] = 0,
    depth: Annotated[int, typer.Option(min=1, help="Depth of the bugs that pct looks for, as in its paper.")] = 3,
    revision: Annotated[str, typer.Option(help="A, B or R.")] = "B",
    profile: Annotated[str, typer.Option(help="strict, or literal (exactly what the texts say).")] = "strict",
    reading: Annotated[
        list[str] | None,
        typer.Option(help="One reading on top of the profile, such as claim_barrier=false. Repeatable."),
    ] = None,
    bug: Annotated[
        list[str] | None,
        typer.Option(help="A planted bug; `memwal conformance planted list --kind bug` lists them. Repeatable."),
    ] = None,
    oracle: Annotated[str | None, typer.Option(help="Count only violations that this oracle finds.")] = None,
    memory_max: Annotated[int, typer.Option(min=64, help="Stop at this much memory, in MiB.")] = 8192,
    seconds_max: Annotated[float | None, typer.Option(min=0.1, help="Stop after this time.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write the history that was found to this file.")] = None,
    title: Annotated[str, typer.Option(help="Title of the recorded history.")] = "",
    description: Annotated[str, typer.Option(help="What the history shows, in plain words.")] = "",
    jobs: Jobs = 1,
    on: On = HERE,
    as_json: Json = False,
) -> None:
    """Run SCENARIO under random schedules until one violates a guarantee. Finding nothing proves nothing."""
    from .. import bugs as planting
    from ..exploring.exploration import Bounds
    from ..scenarios import scenario as scenarios
    from ..strategies.hunting import hunt as carry_out
    from ..strategies.hunting import hunt_by
    from ..traces.study import Study
    from ..traces.trace import dumps

    with mistakes_are_usage():
        study = Study(
            scenario=scenarios.find(scenario),
            revision=revision,
            profile=profile,
            readings=dict(map(reading_of, reading or ())),
            bugs=planting.choose(bug or ()),
            bounds=Bounds(faults=faults, kinds=scenarios.find(scenario).kinds, memory_mib_max=memory_max),
            only=oracle,
        )
        with _shown(f"hunting in {scenario}", quiet=as_json) as progress:
            told: dict[str, Any] = {"title": title, "description": description, "progress": progress}
            told |= {"seed": seed, "runs_max": runs, "depth": depth}
            workers = Workers(jobs, on)
            if workers == ALONE:
                found = carry_out(study, strategy, seconds_max=seconds_max, **told)
            elif seconds_max is None:
                found = hunt_by(workers, study, strategy, **told)
            else:
                raise InvalidArgument("--seconds-max works in one process only: use --runs with --jobs and --on")
        if record is not None and found.trace is not None:
            record.write_text(dumps(found.trace), "utf-8")
    if as_json:
        print_json(found.certificate())
    else:
        _print_hunt(found)
        if record is not None:
            stdout.print(f"recorded in {record}" if found.trace is not None else "nothing to record")
    if found.violation is not None:
        raise typer.Exit(FOUND)


def _print_hunt(found: Hunt) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = [
        ("runs", f"{found.runs:,} in {found.seconds:.1f} s"),
        ("schedules", f"{found.distinct:,} distinct ({found.rate:,.0f}/s), {found.steps:,} steps in all"),
    ]
    if found.guarantee is not None:
        promised = found.guarantee
        rows.append(
            (
                "promised",
                f"a run finds a bug of depth {promised.depth} with probability {promised.probability:.2g} or more "
                f"(n = {promised.processes}, k = {promised.steps}, {promised.faults} faults)",
            )
        )
    if found.found_by is not None:
        rows.append(("found again by", f"--seed {found.found_by} --runs 1"))
    if found.shrunk is not None:
        rows.append(("made small", f"from {len(found.shrunk.before)} to {len(found.moves)} steps"))
    for row in rows:
        table.add_row(*row)
    stdout.print(table)
    if found.violation is not None and found.trace is not None:
        print_violation(found.violation)
        print_steps(found.trace.steps)
    else:
        stdout.print(f"[bold yellow]stopped[/] at {found.limit}: no violation so far")
