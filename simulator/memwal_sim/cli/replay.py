"""``memwal explore replay``: a recorded history once more.

Exit codes: 0 it ends as recorded, 1 a divergence, 2 usage. With ``--against``: 0 nothing is broken, 1 something is,
2 usage, 3 the file says nothing about this implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from .terminal import FOUND, Json, mistakes_are_usage, print_json, print_steps, print_violation, stderr, stdout

if TYPE_CHECKING:
    from ..traces import replay as replaying
    from ..viewer.film import Film

REPLAYERS = "memwal.replayers"
"""Entry points that take ``(file, adapter, *, revision, as_json)`` and return the exit code of ``--against``."""


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(replay)


def replay(
    file: Annotated[Path, typer.Argument(help="A trace, as `memwal explore --record` writes it.")],
    until: Annotated[int | None, typer.Option(min=0, help="Stop after this step.")] = None,
    dump: Annotated[Path | None, typer.Option(help="Write the store at that step to this new folder.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to step through the history to this file.")] = None,
    mermaid: Annotated[Path | None, typer.Option(help="Write a Mermaid sequence diagram to this file.")] = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="Print a column for each process.")] = False,
    profile: Annotated[
        str | None, typer.Option(help="Replay the same steps under this profile: strict or literal.")
    ] = None,
    without_bugs: Annotated[
        bool, typer.Option("--without-bugs", help="Replay the same steps without the planted bugs.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Replay it once. Default: replay it twice, and compare.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(metavar="ADAPTER", help="Replay it against reference, native, or the adapter of this command."),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="With --against: the revision to run under.")] = None,
    as_json: Json = False,
) -> None:
    """Replay a recorded history against the engine as it is now.

    Under another --profile, or --without-bugs, the history takes another course; the question is then whether anything
    breaks.
    """
    from ..traces import replay as replaying
    from ..viewer import viewing
    from ..viewer.film import Camera

    if against is not None:
        raise typer.Exit(_replayer()(file, against, revision=revision, as_json=as_json))
    if lanes and as_json:
        raise typer.BadParameter("give either --lanes or --json, not both")
    with mistakes_are_usage():
        camera = Camera() if html is not None or mermaid is not None or lanes else None
        replayed = replaying.replay(
            file, until, dump, camera, twice=not once, profile=profile, without_bugs=without_bugs
        )
        film = None if camera is None else camera.film(file.name, replayed)
        if film is not None:
            viewing.write(film, html=html, mermaid=mermaid)
    if as_json:
        print_json(
            {
                "file": file.name,
                "steps": len(replayed.steps),
                "stopped_early": replayed.stopped_early,
                "engine_changed": replayed.engine_changed,
                "divergence": None if replayed.divergence is None else asdict(replayed.divergence),
                "violation": None if replayed.violation is None else replayed.violation.as_json(),
                "violation_at": replayed.violation_at,
                "expected": len(replayed.header.expected),
                "unexpected": None if replayed.unexpected is None else str(replayed.unexpected),
                "reproduced": replayed.reproduced,
                "profile": profile or replayed.header.profile,
                "without_bugs": without_bugs,
                "unstable_at": replayed.unstable_at,
            }
        )
    else:
        _print_replayed(replayed, film if lanes else None, profile)
        for written in filter(None, (html, mermaid)):
            stdout.print(f"written: {written}", markup=False, highlight=False, soft_wrap=True)
    if replayed.unstable_at is not None:
        stderr.print(f"[bold red]not deterministic:[/] a second replay differs at step {replayed.unstable_at}")
        raise typer.Exit(FOUND)
    lost = not replayed.reproduced and not replayed.stopped_early
    other = not replayed.elsewhere and (lost or replayed.divergence is not None)
    if other or replayed.violation is not None:
        raise typer.Exit(FOUND)


def _replayer() -> Callable[..., int]:
    """What runs files against adapters: the conformance suite, which this package does not know."""
    found = sorted(entry_points(group=REPLAYERS), key=lambda entry: entry.name)
    if not found:
        raise typer.BadParameter("--against needs the conformance suite: pip install 'memwal[suite]'")
    replayer: Callable[..., int] = found[0].load()
    return replayer


def _print_replayed(replayed: replaying.Replayed, film: Film | None, profile: str | None) -> None:
    """``film``: to print in lanes; ``profile``: the one that was asked for."""
    from ..viewer import viewing

    stdout.print(f"[bold]{escape(replayed.header.title)}[/]")
    if replayed.header.description:
        stdout.print(escape(replayed.header.description))
    if film is None:
        print_steps(replayed.steps)
    else:
        viewing.print_lanes(film, stdout)
    if replayed.elsewhere:
        _print_elsewhere(replayed, profile)
        return
    if replayed.divergence is not None:
        found = replayed.divergence
        stdout.print(f"[bold yellow]diverged[/] at step {found.index}: {found.what} was {escape(found.recorded)}")
        stdout.print(f"  and is {escape(found.found)}")
        if replayed.engine_changed:
            stdout.print("  (the engine is not the one under which this was recorded)")
    if film is None:
        _print_expected(replayed)
    if replayed.unexpected is not None:
        stdout.print(f"[bold red]not as the trace says:[/] {escape(str(replayed.unexpected))}", soft_wrap=True)
    if replayed.violation is not None:
        print_violation(replayed.violation)
    if replayed.stopped_early:
        stdout.print("stopped before the end")
    elif replayed.reproduced:
        good = replayed.violation is None
        stdout.print("[bold green]reproduced[/]: everything is as it must be" if good else "[bold]reproduced[/]")
    else:
        why = "the engine no longer does this" if replayed.unexpected is None else "the engine does something else"
        stdout.print(f"[bold yellow]not reproduced[/]: {why}")


def _print_expected(replayed: replaying.Replayed) -> None:
    """What has to be so after the steps that were replayed, up to the first thing that is not."""
    for expected in replayed.header.expected:
        if expected.after > len(replayed.steps) or (replayed.unexpected and expected == replayed.unexpected.expected):
            return
        stdout.print(f"[green]✓[/] after step {expected.after}: {escape(expected.says)}", soft_wrap=True)


def _print_elsewhere(replayed: replaying.Replayed, profile: str | None) -> None:
    """Where the same steps went another way, and whether anything is broken there."""
    where = "without the planted bugs" if profile is None else f"under profile {profile}"
    found, recorded = replayed.divergence, replayed.header.violation
    if found is None:
        stdout.print(f"{where}, every step is as recorded")
    else:
        text = f"{where}, step {found.index} goes another way: {found.what} was {found.recorded}, and is {found.found}"
        stdout.print(text, markup=False, soft_wrap=True)
    if replayed.violation is not None:
        print_violation(replayed.violation)
    elif replayed.stopped_early:
        stdout.print("stopped before the end; nothing is broken so far")
    else:
        stdout.print(f"[bold green]nothing is broken[/] after any of {len(replayed.steps)} steps", end="")
        stdout.print(
            "" if recorded is None else f"; as recorded, {recorded.clause} is ({recorded.oracle})", markup=False
        )
