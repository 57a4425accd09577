"""What the commands of the simulator print with: two consoles, progress, violations, steps, and errors of usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from memwal.cli import endings
from memwal.cli.terminal import tell
from memwal.errors import MemwalError
from memwal.words import reason
from rich.console import Console

if TYPE_CHECKING:
    from memwal.violations import Violation

    from ..exploring.exploration import ExplorationProgress
    from ..traces.trace import Step

FOUND, USAGE = endings.NOT_WELL, endings.USAGE

stdout = Console(emoji=False)
stderr = Console(stderr=True, emoji=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes to use.")]
On = Annotated[
    str,
    typer.Option(
        help="here, or spark: the session that there is, that spark-submit or SPARK_REMOTE name, or all cores of this "
        "machine; --jobs is for here."
    ),
]


@contextmanager
def mistakes_are_usage() -> Iterator[None]:
    """Errors of what the user named end the command with `USAGE` and the sentence of `memwal.cli.endings`."""
    try:
        yield
    except (MemwalError, OSError) as error:
        # A file that was named and is no whole trace is a mistake of the call, as an unknown name.
        _, sentence = endings.ending(error) or (USAGE, f"error: {reason(error)}")
        tell(sentence)
        raise typer.Exit(USAGE) from error


@contextmanager
def exploring_shown(doing: str, *, quiet: bool) -> Iterator[Callable[[ExplorationProgress], None] | None]:
    """A status line on the error stream that follows an exploration."""
    from rich.status import Status

    if quiet or not stderr.is_terminal:
        yield None
        return
    with Status(doing, console=stderr) as status:

        def update(now: ExplorationProgress) -> None:
            status.update(
                f"{doing}: depth {now.depth}, {now.states:,} states, {now.rate:,.0f}/s, "
                f"{now.frontier:,} waiting, {now.stores:,} stores"
                + "".join(f", {count:,} {fault}" for fault, count in sorted(now.met.items()))
            )

        yield update


@contextmanager
def counting(doing: str, total: int, *, quiet: bool) -> Iterator[Callable[[object], None]]:
    """A status line on the error stream that counts what is done."""
    from rich.status import Status

    count = 0
    status = None if quiet or not stderr.is_terminal else Status(doing, console=stderr)

    def done(thing: object) -> None:
        nonlocal count
        count += 1
        if status is not None:
            status.update(f"{doing}: {count} of {total}, last {thing}")

    if status is None:
        yield done
        return
    with status:
        yield done


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def reading_of(text: str) -> tuple[str, bool | int | str]:
    name, equals, value = text.partition("=")
    known = {"true": True, "false": False}
    if not equals or value not in known:
        raise typer.BadParameter(f"{text!r} must be NAME=true or NAME=false")
    return name, known[value]


def print_violation(violation: Violation) -> None:
    stdout.print(f"[bold red]violation[/] of {violation.clause} ({violation.oracle}):", soft_wrap=True)
    stdout.print(violation.reason, markup=False, soft_wrap=True)
    for name, value in violation.shown:
        stdout.print(f"  {name}: {value}", markup=False, soft_wrap=True)


def print_steps(steps: Sequence[Step]) -> None:
    """One line per step, and what the process reported below it.

    Where a step does not fit into the terminal's width, the place in the code has a line of its own.
    """
    rows = [(str(s.index), s.actor, s.operation, s.path, s.outcome, s.answer, s.site) for s in steps]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for step, row in zip(steps, rows, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        fits = sum(widths) + 2 * (len(widths) - 1) <= stdout.width or not stdout.is_terminal
        line = "  ".join(cells if fits else cells[:-1]).rstrip()
        stdout.print(line, style="red" if step.outcome != "normal" else None, markup=False, soft_wrap=True)
        for note in (*([] if fits else [step.site]), *step.notes):
            stdout.print(f"{'':{widths[0]}}    {note}", style="dim", markup=False, soft_wrap=True)
