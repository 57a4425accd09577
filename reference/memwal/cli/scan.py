"""`memwal table scan`: the merged rows, as a table for people or in a format for programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import memwal
from memwal.cli import files
from memwal.cli.terminal import AsJson, ManifestStore, Place, grid_of, out, print_json, say
from memwal.errors import InvalidArgument, check_name
from memwal.words import counted

SHOWN = 20
"""Rows that a table for people has."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(scan)


def scan(
    table: Place,
    columns: Annotated[str, typer.Option(help="Columns to read, separated by commas. Default: all.")] = "",
    where: Annotated[str, typer.Option(help="SQL condition, as in a WHERE clause.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=0, help="Read at most this many rows. Default: 20 for --format table, else all.")
    ] = None,
    eventual: Annotated[
        bool,
        typer.Option("--eventual", help="Read the region snapshot instead of the manifests: faster, but may be older."),
    ] = False,
    version: Annotated[int | None, typer.Option(help="Read this older table version.")] = None,
    format_: Annotated[
        str, typer.Option("--format", help="table, json (one object a line), csv, parquet or arrow (a stream).")
    ] = "table",
    target: Annotated[str, typer.Option("--out", metavar="FILE", help="File to write; - is standard output.")] = "-",
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Read the merged rows: base table, generations and WAL, newest row per key."""
    check_name("format", format_, ("table", *files.FORMATS))
    opened = memwal.open(table, version=version, manifest_store=manifest_store)
    named = [name.strip() for name in columns.split(",")] if columns else None
    for name in named or ():
        check_name("column", name, opened.schema.names)
    consistency = "eventual" if eventual or version is not None else "strong"
    if format_ != "table":
        _write(opened, named, where, limit, consistency, format_, target)
        return
    found = opened.scan(named, where or None, consistency=consistency)
    shown = found.slice(0, SHOWN if limit is None else limit)
    if as_json:
        print_json({"rows": found.num_rows, "shown": shown.to_pylist()})
        return
    grid = grid_of(*map(escape, found.schema.names))
    for row in shown.to_pylist():
        grid.add_row(*(escape(str(value)) for value in row.values()))
    out.print(grid)
    say(f"{counted(found.num_rows, 'row')}, {shown.num_rows} shown")


def _write(
    table: memwal.Table,
    columns: list[str] | None,
    where: str,
    limit: int | None,
    consistency: str,
    format_: str,
    target: str,
) -> None:
    """All rows to a file or a pipe, in parts, unless some are asked for."""
    schema = table.scan(columns, limit=0, consistency=consistency).schema
    if limit is not None:
        parts = iter([table.scan(columns, where or None, limit=limit, consistency=consistency)])
    else:
        parts = table.batches(columns, where or None, consistency=consistency)
    if target == files.PIPE:
        if format_ in ("parquet", "arrow") and sys.stdout.isatty():
            raise InvalidArgument(
                f"{format_} is binary and cannot go to a terminal: name a file with --out, or pipe it"
            )
        files.written(parts, schema, format_, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with Path(target).open("wb") as file:
        rows = files.written(parts, schema, format_, file)
    say(f"{counted(rows, 'row')} written to {target}")
