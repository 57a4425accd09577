"""Commands of ``memwal`` for long runs: soak, and capacity.

Exit codes: 0 every oracle held, 1 one was broken (or a run was not repeated), 2 usage.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.errors import InvalidArgument, check_name
from rich.markup import escape
from rich.table import Table

from .. import parallel
from ..parallel import ALONE, HERE, Workers
from .terminal import FOUND, Jobs, Json, On, counting, mistakes_are_usage, print_json, stderr, stdout

if TYPE_CHECKING:
    from ..soak.run import Follow, Result
    from ..soak.settings import SoakSettings


PriceTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="NAME=NUMBER",
        help="write, list, read, delete: per million requests; gb_month: per 10^9 bytes and 30 days. Repeatable.",
    ),
]


def commands(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(soak)
    app.command()(capacity)


def _pairs(texts: list[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidArgument(f"{text!r} must be NAME=VALUE")
        found[name] = value
    return found


def soak(
    preset: Annotated[str, typer.Option(help="smoke (seconds), storm, day (minutes), month.")] = "smoke",
    seed: Annotated[int | None, typer.Option(min=0, help="Equal seeds and settings give equal runs.")] = None,
    revision: Annotated[str | None, typer.Option(help="A, B or R.")] = None,
    days: Annotated[float | None, typer.Option(min=0.001, help="Virtual days. Default: those of the preset.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of docs/soak.md; repeatable."),
    ] = None,
    reading: Annotated[
        list[str] | None, typer.Option(help="One reading, such as claim_barrier=false. Repeatable.")
    ] = None,
    bug: Annotated[
        list[str] | None,
        typer.Option(help="A planted bug; `memwal conformance planted list --kind bug` lists them. Repeatable."),
    ] = None,
    price: PriceTexts = None,
    again: Annotated[
        Path | None, typer.Option(help="Run again what this result or failure file describes, and compare.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for result.json, report.html and failure.json.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs, with this seed and the next ones.")] = 1,
    jobs: Jobs = 1,
    on: On = HERE,
    as_json: Json = False,
) -> None:
    """Run the engine in virtual time, on a store with latency and faults, and check every step with oracles."""
    from ..soak.prices import parse_prices
    from ..soak.run import soak as run_soak
    from ..soak.settings import changed
    from ..soak.settings import preset as named

    with mistakes_are_usage():
        prices = parse_prices(price or [])
        expected = None
        if again is not None:
            settings, expected = _recorded(again)
        else:
            chosen: dict[str, Any] = _pairs(setting)
            given = {"seed": seed, "revision": revision, "readings": reading, "bugs": bug}
            chosen |= {name: value for name, value in given.items() if value is not None}
            if days is not None:
                chosen["duration_ms"] = int(days * 86_400_000)
            settings = changed(named(preset), chosen)
        if expected is not None and seeds > 1:
            raise InvalidArgument("give either --again or --seeds, not both")
        workers = Workers(jobs, on)
        several = [replace(settings, seed=settings.seed + number) for number in range(seeds)]
        work = partial(run_soak, prices=prices)
        if seeds == 1 and workers == ALONE:
            with _followed(settings) as follow:
                results = [run_soak(settings, prices=prices, follow=follow)]
        else:
            with counting("soaking", seeds, quiet=as_json) as done:
                results = []
                for each, result in parallel.each(work, several, workers):
                    results.append(result)
                    done(f"seed {each.seed}")
        results.sort(key=lambda result: result.settings.seed)
        failures = [
            _write(result, out if seeds == 1 or out is None else out / f"seed-{result.settings.seed}")
            for result in results
        ]
    if as_json and seeds > 1:
        print_json([_short(result) for result in results])
    else:
        for result in results:
            _print(result, as_json=as_json)
    for failure in filter(None, failures):
        again_with = f"memwal explore soak --again {shlex.quote(str(failure))}"
        stderr.print(f"run it again with: {again_with}", soft_wrap=True, markup=False)
    digest = results[0].digest
    repeated = expected is None or expected == digest
    if not repeated:
        stderr.print(f"[bold yellow]another run:[/] its digest is {digest}, and {expected} was recorded")
    if any(result.violation is not None for result in results) or not repeated:
        raise typer.Exit(FOUND)


def _recorded(path: Path) -> tuple[SoakSettings, str]:
    from memwal.codec import json_text

    from ..soak.settings import from_dict

    try:
        content = json_text.parse(path.read_text("utf-8"))
        return from_dict(content["settings"]), str(content["digest"])
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"{path.name} is not what `memwal explore soak` writes: {error!r}") from error


@contextmanager
def _followed(settings: SoakSettings) -> Iterator[Follow | None]:
    """A progress bar on the error stream, for people."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    if not stderr.is_terminal:
        yield None
        return
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task("soaking", total=settings.duration_ms, told="")

        def follow(now: Any) -> None:
            told = f"day {now.virtual_ms / 86_400_000:.2f}, {now.puts:,} puts, {now.requests:,} requests"
            bar.update(task, completed=min(now.virtual_ms, now.of_ms), told=told)

        yield follow


def _write(result: Result, out: Path | None) -> Path | None:
    """Write what is asked for; the file of the failure, which is always written if there is one."""
    content = result.as_dict()
    if out is not None:
        from ..soak.page import render

        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(_json(content), "utf-8")
        (out / "report.html").write_text(render(content), "utf-8")
    if result.violation is None:
        return None
    kept = {name: value for name, value in content.items() if name not in ("series", "speed")}
    path = Path(f"soak-failure-{result.digest[:12]}.json") if out is None else out / "failure.json"
    path.write_text(_json(kept), "utf-8")
    return path


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _short(result: Result) -> dict[str, Any]:
    return {name: value for name, value in result.as_dict().items() if name not in ("series", "last_requests")}


def _print(result: Result, *, as_json: bool) -> None:
    from ..soak.page import figures_of, verdict_of

    content = result.as_dict()
    if as_json:
        print_json(_short(result))
        return
    grid = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    grid.add_row("virtual time", f"{result.virtual_ms / 86_400_000:.2f} days in {result.wall_s:.1f} s")
    grid.add_row("speed", f"{result.events_per_s:,.0f} events/s, {result.days_per_minute:.2f} virtual days a minute")
    for name, text in figures_of(content).items():
        grid.add_row(name, escape(text))
    grid.add_row("run", f"seed {result.settings.seed}, digest {result.digest}")
    stdout.print(grid)
    if result.violation is None:
        stdout.print(f"[bold green]{verdict_of(content)}[/]")
        return
    violation = result.violation
    stdout.print(f"[bold red]violation[/] of {violation.clause} ({violation.oracle}):", soft_wrap=True)
    stdout.print(str(violation), markup=False, soft_wrap=True)
    for row in result.last_requests[-10:]:
        stdout.print("  ".join(map(str, row)), markup=False, soft_wrap=True, style="dim")


def capacity(
    load: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=NUMBER", help="Any field of the load, see docs/soak.md; repeatable."),
    ] = None,
    regions: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of regions; repeatable. Default: 10, 1,000 and 100,000.")
    ] = None,
    price: PriceTexts = None,
    out: Annotated[Path | None, typer.Option(help="Folder for capacity.json.")] = None,
    as_json: Json = False,
) -> None:
    """Estimate what a table under a steady load costs on an object store: requests, bytes, money."""
    from ..soak.capacity import SCALES, predict
    from ..soak.loads import Load
    from ..soak.prices import parse_prices

    with mistakes_are_usage():
        prices = parse_prices(price or [])
        base = _numbers(Load, _pairs(load))
        scales = tuple(regions or ((base["regions"],) if "regions" in base else SCALES))
        loads = [Load(**{**base, "regions": count}) for count in scales]
        with stderr.status("counting requests of the engine") if stderr.is_terminal else _nothing():
            found = [predict(one, prices).as_dict() for one in loads]
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "capacity.json").write_text(_json(found), "utf-8")
    if as_json:
        print_json(found)
    else:
        stdout.print(_capacity_table(found))
        stdout.print(_operations_table(found))


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _numbers(kind: type[Any], texts: dict[str, str]) -> dict[str, Any]:
    types = {one.name: str(one.type) for one in fields(kind)}
    for name in texts:
        check_name("field", name, sorted(types))
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if types[name] == "bool":
            if text not in ("true", "false"):
                raise InvalidArgument(f"{name} must be true or false, not {text!r}")
            values[name] = text == "true"
            continue
        try:
            values[name] = {"int": int, "float": float}.get(types[name], str)(text)
        except ValueError:
            raise InvalidArgument(f"{name} must be a number, not {text!r}") from None
    return values


def _quantity(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _capacity_table(found: list[dict[str, Any]]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0))
    grid.add_column("of one table")
    for one in found:
        grid.add_column(f"{one['load']['regions']:,} regions", justify="right")

    def row(name: str, values: list[str]) -> None:
        grid.add_row(name, *values)

    for name in sorted({name for one in found for name in one["requests_per_s_by_class"]}):
        row(f"{name} requests/s", [_quantity(one["requests_per_s_by_class"].get(name, 0.0)) for one in found])
    for name, key in (
        ("requests/s", "requests_per_s"),
        ("… to the table's prefix", "requests_per_s_table_prefix"),
        ("… to each region's prefix", "requests_per_s_each_region_prefix"),
        ("bytes/s up", "bytes_up_per_s"),
        ("bytes/s down", "bytes_down_per_s"),
        ("GB stored", "stored_gb"),
        ("table versions/s", "commits_per_s"),
        ("bytes of index in each version", "index_details_bytes"),
        ("bytes of the snapshot's file", "snapshot_file_bytes"),
    ):
        row(name, [_quantity(one[key]) for one in found])
    row("region snapshot", [one["snapshot"] for one in found])
    for name in found[0]["busy"]:
        row(f"{name}: share of one process's time", [f"{one['busy'][name]:.1%}" for one in found])
    for name in found[0]["cost_per_day"]:
        row(
            "cost/day" if name == "all" else f"cost/day: {name}", [f"{one['cost_per_day'][name]:,.2f}" for one in found]
        )
    return grid


def _operations_table(found: list[dict[str, Any]]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0))
    grid.add_column("requests of one")
    for one in found:
        grid.add_column(f"{one['load']['regions']:,} regions", justify="right")
    for at, first in enumerate(found[0]["operations"]):
        grid.add_row(first["operation"], *(_quantity(one["operations"][at]["requests_each"]) for one in found))
    return grid
