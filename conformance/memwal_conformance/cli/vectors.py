"""The commands `memwal conformance vectors …`: artifact vectors without pytest, and between implementations."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..adapters.harness import Harness
    from ..vectors.golden import Said

app = typer.Typer(help="Check the artifact vectors, test an adapter with them, and exchange golden files.")

Adapter = Annotated[str, typer.Option(help="Command of the adapter; `reference` or `native` for those shipped here.")]
FAILED = 1
USAGE = 2


@contextlib.contextmanager
def running(adapter: str, timeout_s: float = 60.0) -> Iterator[Harness]:
    """A harness for an adapter; ends the command with one line if the adapter is broken."""
    from ..adapters.harness import Harness, command_of
    from ..adapters.process import BROKEN

    harness = Harness(command=command_of(adapter), limit_s=timeout_s, settings={})
    try:
        yield harness
    except BROKEN as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE) from error
    finally:
        harness.close()


def _revisions(harness: Harness, wanted: str | None) -> list[str]:
    hello = harness.hello()
    has = [*(["0"] if hello.answers("eval.legacy") else []), *hello.revisions]
    if wanted is None:
        return has
    asked = [letter.strip() for letter in wanted.split(",")]
    if strange := [letter for letter in asked if letter not in has]:
        declared = ", ".join(has) or "none"
        typer.echo(f"error: the adapter does not declare revision {strange[0]}; it declares {declared}", err=True)
        raise typer.Exit(USAGE)
    return asked


@app.command()
def check(
    against: Annotated[Path | None, typer.Option(help="Folder of vectors. Default: those of the suite.")] = None,
    adapter: Annotated[str | None, typer.Option(help="Check this adapter: a command, `reference` or `native`.")] = None,
    revision: Annotated[
        str | None, typer.Option(help="Only these revisions, such as B or 0,A. Default: all that the adapter declares.")
    ] = None,
) -> None:
    """Compute all vectors again and compare; with --adapter, ask the adapter instead. Exit code 1: they differ."""
    from ..places import SUITE

    root = SUITE / "vectors" if against is None else against
    if not root.is_dir():
        typer.echo(f"error: there is no folder {root}", err=True)
        raise typer.Exit(USAGE)
    if adapter is None:
        script = [sys.executable, str(SUITE / "vectors" / "bless.py"), "--check", "--root", str(root)]
        raise typer.Exit(subprocess.run(script, check=False).returncode)
    with running(adapter) as harness:
        failed = _ask_all(root, harness, _revisions(harness, revision))
    raise typer.Exit(FAILED if failed else 0)


def _ask_all(root: Path, harness: Harness, revisions: Iterable[str]) -> bool:
    from .. import vectors
    from ..adapters.process import BROKEN, verdict_of
    from ..registry.levels import levels_of
    from ..reporting.report import lacking
    from ..verdicts import FAILING, Verdict, level_of

    hello, counts, unclaimed = harness.hello(), dict.fromkeys(Verdict, 0), list[list[str]]()
    levels = {revision: levels_of(revision) for revision in revisions}
    for file in sorted(root.glob("*/*/*/case.json")):
        vector = vectors.load(file)
        if vector.revision not in levels:
            continue
        for direction in vector.directions:
            name = f"{vector.revision}/{vector.area}/{vector.name} {direction}"
            if missing := vectors.missing(vector, direction, hello):
                counts[Verdict.UNSUPPORTED] += 1
                unclaimed.append(missing)
                continue
            try:
                finding = vectors.run(vector, direction, harness.shared(vectors.configured(vector, hello)).call)
                verdict, why = level_of(finding, levels[vector.revision]), finding.broken or finding.chosen
            except BROKEN as error:
                verdict, why = verdict_of(error), str(error)
            counts[verdict] += 1
            if verdict is not Verdict.PASS:
                typer.echo(f"{verdict} {name} [{', '.join(vector.clauses)}]: {why}")
    for title, names in (("not claimed", lacking(unclaimed)), ("unknown in hello", ", ".join(hello.unknown))):
        if names:
            typer.echo(f"{title}: {names}")
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing was asked")
    return any(counts[verdict] for verdict in FAILING)


def _told(said: Iterable[Said]) -> tuple[int, int, int]:
    """Print what is wrong; gives the numbers of what is right, wrong, and not answered."""
    right = wrong = unanswered = 0
    for one in said:
        if not one.asked:
            unanswered += 1
        elif one.wrong is None:
            right += 1
        else:
            wrong += 1
            typer.echo(f"FAIL {one.name}: {one.wrong}")
    return right, wrong, unanswered


@app.command("fill")
def fill_command(
    folder: Annotated[Path, typer.Argument(help="New or empty folder for what the implementation writes.")],
    adapter: Adapter = "reference",
    revision: Annotated[str | None, typer.Option(help="Only these revisions.")] = None,
) -> None:
    """Let an implementation write golden objects and tables, and judge each. Exit code 1: the judge found a fault."""
    from ..reporting.report import lacking
    from ..vectors.golden import fill

    _empty(folder)
    with running(adapter) as harness:
        said = list(fill(folder, harness, _revisions(harness, revision)))
    right, wrong, unanswered = _told(said)
    if unanswered:
        typer.echo(f"not claimed: {lacking([one.wrong] for one in said if not one.asked and one.wrong)}")
    typer.echo(f"{right} correct, {wrong} wrong, {unanswered} not claimed")
    raise typer.Exit(FAILED if wrong else 0)


def _empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        typer.echo(f"error: {folder} is not empty: choose another folder", err=True)
        raise typer.Exit(USAGE)
    folder.mkdir(parents=True, exist_ok=True)


@app.command()
def matrix(
    implementation: Annotated[
        list[str] | None, typer.Argument(help="NAME=COMMAND, `reference` or `native`. Default: these two.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep what each implementation wrote, in this new folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the grid as JSON.")] = False,
) -> None:
    """Let every implementation read what each one writes. Exit code 1: a fault was found."""
    named = [one.partition("=") for one in implementation or ("reference", "native")]
    commands = {name: rest or name for name, _, rest in named}
    with tempfile.TemporaryDirectory(prefix="memwal-golden-") as scratch:
        root = Path(scratch) if keep is None else keep
        if keep is not None:
            _empty(keep)
        grid = crossed(root, commands)
    if as_json:
        typer.echo(json.dumps(grid, indent=1))
    else:
        _show(grid)
    raise typer.Exit(FAILED if any(cell["wrong"] for row in grid.values() for cell in row.values()) else 0)


Grid = dict[str, dict[str, dict[str, int]]]


def crossed(root: Path, commands: dict[str, str]) -> Grid:
    """Producer -> consumer (``written`` for the judge of what was written) -> numbers right, wrong, unanswered."""
    from ..vectors.golden import consume, fill

    grid: Grid = {}
    for producer, adapter in commands.items():
        with running(adapter) as harness:
            numbers = _told(fill(root / producer, harness, _revisions(harness, None)))
        grid[producer] = {"written": _cell(numbers)}
    for consumer, adapter in commands.items():
        with running(adapter) as harness:
            for producer in commands:
                grid[producer][consumer] = _cell(_told(consume(root / producer, harness)))
    return grid


def _cell(numbers: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("right", "wrong", "unanswered"), numbers, strict=True))


def _show(grid: Grid) -> None:
    columns = list(next(iter(grid.values())))
    width = max(len(name) for name in (*grid, *columns, "12 of 345")) + 2
    typer.echo("written by".ljust(width) + "".join(f"{name}".ljust(width) for name in ("judge", *columns[1:])))
    for producer, row in grid.items():
        shown = [f"{row[name]['right']} of {row[name]['right'] + row[name]['wrong']}" for name in columns]
        typer.echo(producer.ljust(width) + "".join(text.ljust(width) for text in shown))


@app.command()
def copy(folder: Annotated[Path, typer.Argument(help="New or empty folder.")]) -> None:
    """Copy all vectors, scenarios and schemas to a folder, for the test suite of another project."""
    from ..places import SUITE, scenario_files, vector_files

    _empty(folder)
    for file in vector_files():
        shutil.copytree(file.parent, folder / "vectors" / file.parent.relative_to(SUITE / "vectors"))
    for file in scenario_files():
        target = folder / "scenarios" / file.relative_to(SUITE / "scenarios")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    shutil.copytree(Path(__file__).parents[1] / "schema", folder / "schema")
    shutil.copyfile(SUITE / "vectors" / "README.md", folder / "README.md")
    typer.echo(f"{len(vector_files())} vectors and {len(scenario_files())} scenarios in {folder}")


def commands(parent: typer.Typer) -> None:
    """Add `vectors` to ``parent``."""
    parent.add_typer(app, name="vectors")


if __name__ == "__main__":
    app()
