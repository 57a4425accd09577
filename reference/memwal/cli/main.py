"""`memwal …`: the command line. Commands of other packages join through the entry point group ``memwal.commands``."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table as Grid

import memwal
from memwal.cli import catch_up, explain, gc, groups, guard, inspect, merge, migrate, repair, specs, verify
from memwal.cli.options import ManifestStore
from memwal.errors import ArtifactError, MemwalError

_INTERRUPTED = 128 + signal.SIGINT
"""With which Typer ends a command that was interrupted, without a word."""


app = typer.Typer(
    cls=groups.FrontDoor,
    help="Lance MemWAL: a reference engine, its simulator, recorded faults and conformance suite.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

out, err = Console(), Console(stderr=True)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"memwal {memwal.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `memwal` itself, before the name of a command."""


Place = Annotated[str, typer.Argument(metavar="TABLE", help="Folder or URL (s3://, gs://, az://) of the table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _progress(event: str, fields: dict[str, object]) -> None:
    """Show what long work is doing, on standard error and only to a person."""
    if err.is_terminal:
        err.print(f"[dim]{event} {' '.join(f'{k}={v}' for k, v in fields.items())}[/dim]")


def _tell(line: str) -> None:
    err.print(line, style="red", soft_wrap=True, highlight=False, markup=False)


def _print_json(value: Any) -> None:
    out.print_json(json.dumps(value, default=str))


@app.command()
def info(table: Place, manifest_store: ManifestStore = None, as_json: AsJson = False) -> None:
    """Show a table: revision, key, specs, regions with their epochs, generations and merge progress."""
    opened = memwal.open(table, manifest_store=manifest_store)
    regions = opened.regions()
    if as_json:
        _print_json(
            {
                "revision": opened.revision.name,
                "version": opened.version,
                "primary_key": opened.primary_key,
                "schema": [{"name": f.name, "type": str(f.type)} for f in opened.schema],
                "regions": [_region(region) for region in regions],
            }
        )
        return
    out.print(f"revision {opened.revision.name}, version {opened.version}, key {', '.join(opened.primary_key)}")
    grid = Grid("region", "values", "epoch", "manifest", "merged", "generations", "replay after")
    for region in regions:
        row = _region(region)
        grid.add_row(*(str(row[k]) for k in row))
    out.print(grid)


def _region(region: memwal.RegionInfo) -> dict[str, Any]:
    manifest = region.manifest
    return {
        "region_id": region.region_id,
        "values": region.values,
        "epoch": manifest.epoch if manifest else None,
        "manifest_version": manifest.version if manifest else None,
        "merged": region.merged,
        "generations": [g.generation for g in manifest.flushed] if manifest else [],
        "position_replay_after": manifest.position_replay_after if manifest else None,
    }


@app.command()
def scan(
    table: Place,
    columns: Annotated[str, typer.Option(help="Columns, comma-separated; all if absent.")] = "",
    where: Annotated[str, typer.Option(help="SQL condition, as in a WHERE clause.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Rows to print.")] = 20,
    eventual: Annotated[bool, typer.Option("--eventual", help="Read the region snapshot, not the manifests.")] = False,
    version: Annotated[int | None, typer.Option(help="Read an older table version, with its own snapshot.")] = None,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Read the merged rows: base table, generations and WAL, newest row per key."""
    found = memwal.open(table, version=version, manifest_store=manifest_store).scan(
        columns.split(",") if columns else None, where or None, consistency="eventual" if eventual else "strong"
    )
    shown = found.slice(0, limit)
    if as_json:
        _print_json({"rows": found.num_rows, "shown": shown.to_pylist()})
        return
    grid = Grid(*found.schema.names)
    for row in shown.to_pylist():
        grid.add_row(*(str(value) for value in row.values()))
    out.print(grid)
    out.print(f"{found.num_rows} rows, {shown.num_rows} shown")


@app.command()
def snapshot(table: Place, manifest_store: ManifestStore = None, as_json: AsJson = False) -> None:
    """Rebuild the region snapshot that eventual reads use."""
    regions = memwal.open(table, manifest_store=manifest_store, listener=_progress).snapshot()
    if as_json:
        _print_json({"regions": regions})
        return
    out.print(f"snapshot of {regions} regions")


merge.register(app, out, err)
catch_up.register(app, out, _progress)
gc.register(app, out, _progress)
verify.register(app, out, _progress)
repair.register(app, out, _progress)
specs.register(app, out, _progress)
migrate.register(app, out, _progress)
inspect.register(app, out, _progress)
explain.register(app, out)


def main() -> None:
    """Run the command line; exit 1 with one line for an expected failure, 2 for a usage error, 130 when interrupted."""
    guard.enter(groups.command_of(sys.argv[1:]), _tell)
    try:
        app()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _tell("interrupted")
        raise
    except (MemwalError, pa.ArrowException) as error:
        _tell(f"{'damaged' if isinstance(error, ArtifactError) else 'error'}: {error}")
        for note in getattr(error, "__notes__", ()):
            _tell(note)
        sys.exit(1)
