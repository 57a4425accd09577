"""``memwal explore shrink`` and ``memwal explore promote``: histories made small, and stored as recorded faults.

Exit codes: 0 done, 2 usage, a trace that is not reproduced among it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from .terminal import Json, mistakes_are_usage, print_json, print_steps, stderr, stdout

if TYPE_CHECKING:
    from ..exploring.exploration import Bounds, ExplorationProgress
    from ..traces import shrinking
    from ..traces.minimising import Minimised

Exhaustive = Annotated[
    bool,
    typer.Option("--exhaustive", help="Also explore, with as few faults as possible, for the shortest history."),
]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Stop each exploration after this time.")]
Memory = Annotated[int, typer.Option(min=64, help="Stop exploring at this much memory, in MiB.")]


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(shrink)
    app.command()(promote)


@contextmanager
def _shown(
    file: Path, *, quiet: bool
) -> Iterator[Callable[[shrinking.ShrinkProgress | ExplorationProgress], None] | None]:
    """A status line on the error stream that follows shrinking and exploring."""
    from rich.status import Status

    if quiet or not stderr.is_terminal:
        yield None
        return
    with Status(f"shrinking {file.name}", console=stderr) as status:

        def update(now: shrinking.ShrinkProgress | ExplorationProgress) -> None:
            if isinstance(now, ExplorationProgress):
                status.update(f"exploring for {file.name}: depth {now.depth}, {now.states:,} states")
            else:
                status.update(f"shrinking {file.name}: {now.tries:,} histories, {now.steps} steps")

        yield update


def _bounds(seconds_max: float | None, memory_max: int, *, exhaustive: bool) -> Bounds | None:
    from ..exploring.exploration import Bounds

    return Bounds(seconds_max=seconds_max, memory_mib_max=memory_max) if exhaustive else None


def shrink(
    file: Annotated[Path, typer.Argument(help="A trace that ends in a violation.")],
    out: Annotated[Path | None, typer.Option(help="Write the small trace to this file; it may be FILE itself.")] = None,
    exhaustive: Exhaustive = False,
    seconds_max: Seconds = None,
    memory_max: Memory = 8192,
    tries_max: Annotated[int, typer.Option(min=1, help="Most histories to try.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Make the history in FILE small: fewer steps, fewer faults, fewer switches, the same oracle and clause."""
    from ..traces.minimising import minimise
    from ..traces.references import recorded
    from ..traces.trace import dumps

    with mistakes_are_usage():
        found = recorded(file)
        bounds = _bounds(seconds_max, memory_max, exhaustive=exhaustive)
        with _shown(file, quiet=as_json) as follow:
            small = minimise(found, tries_max=tries_max, progress=follow, exhaustive=bounds, exploring=follow)
        if out is not None:
            out.write_text(dumps(small.trace), "utf-8")
    if as_json:
        print_json({"file": file.name, **_figures(small)})
        return
    print_steps(small.trace.steps)
    _print_figures(small)
    if out is not None:
        stdout.print(f"recorded in {out}", soft_wrap=True, markup=False)


def _figures(small: Minimised) -> dict[str, Any]:
    return {
        "before": asdict(small.before),
        "shrunk": asdict(small.shrunk),
        "after": asdict(small.after),
        "tries": small.tries,
        "shortest": small.shortest,
        "limits": list(small.limits),
        "seconds": round(small.seconds, 3),
    }


def _print_figures(small: Minimised) -> None:
    table = Table("", "steps", "faults", "late", "switches", box=None, padding=(0, 2, 0, 0))
    for name, size in (("before", small.before), ("shrunk", small.shrunk), ("after", small.after)):
        if name != "after" or size != small.shrunk:
            table.add_row(name, *(str(value) for value in asdict(size).values()))
    stdout.print(table)
    proved = ", and no history is shorter" if small.shortest else ""
    stdout.print(f"{small.tries:,} histories in {small.seconds:.1f} s{proved}", highlight=False)
    for limit in small.limits:
        stdout.print(f"[bold yellow]stopped[/] at {limit}: there may be smaller ones")


def promote(
    file: Annotated[Path, typer.Argument(help="A trace that ends in a violation.")],
    area: Annotated[str, typer.Option(help="Where it belongs: a folder of faults/recorded, such as fencing.")],
    name: Annotated[str, typer.Option(help="Name of the file, without an ending.")],
    title: Annotated[str, typer.Option(help="One line for the gallery.")],
    description: Annotated[str, typer.Option(help="Which process does what, and why it is wrong, in plain words.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the recorded fault of that name and area.")] = False,
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive/--no-exhaustive", help="Explore for the shortest history, which shows the fault best."
        ),
    ] = True,
    seconds_max: Seconds = None,
    memory_max: Memory = 8192,
    into: Annotated[Path | None, typer.Option(help="Folder of faults; default: the project's.")] = None,
    as_json: Json = False,
) -> None:
    """Store the history in FILE, reproduced and made small, as a recorded fault, and renew the gallery."""
    from .. import places
    from ..traces.promoting import promote as carry_out

    with mistakes_are_usage(), _shown(file, quiet=as_json) as follow:
        folder = into or places.faults()
        done = carry_out(
            file,
            area=area,
            name=name,
            title=title,
            description=description,
            folder=folder,
            force=force,
            progress=follow,
            exhaustive=_bounds(seconds_max, memory_max, exhaustive=exhaustive),
            exploring=follow,
        )
    where = done.path.relative_to(folder).as_posix()
    if as_json:
        print_json({"path": where, **_figures(done.minimised)})
        return
    _print_figures(done.minimised)
    stdout.print(f"recorded as {where}; the gallery is renewed", soft_wrap=True, markup=False)
