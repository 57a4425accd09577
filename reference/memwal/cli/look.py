"""`memwal table info`, `count`, `history`, `watch`, `snapshot`: what a table holds, and what waits in its regions."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

import memwal
from memwal.cli.naming import values_text
from memwal.cli.terminal import AsJson, ManifestStore, Place, Whole, grid_of, out, print_json, progress, say
from memwal.words import counted, moment, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from memwal.index.backlog import RegionBacklog

SHORT = 8
"""Letters of a region's id in tables for people; `--region` takes them too."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (info, count, history, watch, snapshot):
        app.command()(command)


def info(table: Place, manifest_store: ManifestStore = None, as_json: AsJson = False) -> None:
    """Show a table: revision, key, regions, merge progress, and which rows wait in WALs and generations."""
    opened = memwal.open(table, manifest_store=manifest_store)
    regions, waiting = opened.regions(), {each.region_id: each for each in opened.backlog()}
    if as_json:
        print_json(
            {
                "revision": opened.revision.name,
                "version": opened.version,
                "primary_key": opened.primary_key,
                "schema": [{"name": f.name, "type": str(f.type)} for f in opened.schema],
                "regions": [_region(region, waiting.get(region.region_id)) for region in regions],
            }
        )
        return
    say(f"revision {opened.revision.name}, version {opened.version}, key {', '.join(opened.primary_key)}")
    out.print(_grid(regions, waiting))
    say(_summary(list(waiting.values()), table))


def _region(region: memwal.RegionInfo, waiting: RegionBacklog | None) -> dict[str, Any]:
    manifest = region.manifest
    return {
        "region_id": region.region_id,
        "values": region.values,
        "epoch": manifest.epoch if manifest else None,
        "manifest_version": manifest.version if manifest else None,
        "merged": region.merged,
        "generations": [g.generation for g in manifest.flushed] if manifest else [],
        "position_replay_after": manifest.position_replay_after if manifest else None,
        "unmerged_generations": list(waiting.generations) if waiting else [],
        "unmerged_rows": waiting.generation_rows if waiting else 0,
        "wal_rows": waiting.wal_rows if waiting else 0,
        "wal_entries": waiting.wal_entries if waiting else 0,
        "wal_bytes": waiting.wal_bytes if waiting else 0,
        "damaged": waiting.damaged if waiting else 0,
    }


def _grid(regions: Sequence[memwal.RegionInfo], waiting: dict[str, RegionBacklog]) -> Table:
    """A row for each region, within 80 columns."""
    grid = grid_of("region", "values", framed=False)
    for name in ("epoch", "merged", "to merge", "rows", "WAL rows", "WAL bytes"):
        grid.add_column(name, justify="right", no_wrap=True)
    for region in regions:
        found, manifest = waiting.get(region.region_id), region.manifest
        grid.add_row(
            str(region.region_id)[:SHORT],
            escape(values_text(region.values)),
            str(manifest.epoch) if manifest else "-",
            str(region.merged or "-"),
            f"{len(found.generations):,}" if found else "0",
            f"{found.generation_rows:,}" if found else "0",
            f"{found.wal_rows:,}" if found else "0",
            size(found.wal_bytes) if found else "0 B",
            style="red" if found and found.damaged else "",
        )
    return grid


def _summary(waiting: Sequence[RegionBacklog], table: str) -> str:
    """What is not in the base table yet, and the command that brings it there."""
    rows, generations = sum(each.wal_rows for each in waiting), sum(len(each.generations) for each in waiting)
    damaged = sum(each.damaged for each in waiting)
    said = []
    if rows:
        stored = size(sum(each.wal_bytes for each in waiting))
        said.append(f"{counted(rows, 'row is', 'rows are')} only in the WAL ({stored}): `memwal table drain {table}`")
    if generations:
        flushed = counted(sum(each.generation_rows for each in waiting), "row")
        said.append(f"{counted(generations, 'generation')} to merge ({flushed}): `memwal table merge {table}`")
    if damaged:
        said.append(f"{counted(damaged, 'object')} cannot be read: `memwal table verify {table}`")
    return "\n".join(said) or "nothing is waiting: all rows are in the base table"


def count(
    table: Place,
    where: Annotated[str, typer.Option(help="SQL condition, as in a WHERE clause.")] = "",
    eventual: Annotated[
        bool,
        typer.Option("--eventual", help="Read the region snapshot instead of the manifests: faster, but may be older."),
    ] = False,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Count the merged rows, one per key."""
    opened = memwal.open(table, manifest_store=manifest_store, listener=progress)
    parts = opened.batches(list(opened.primary_key), where or None, consistency="eventual" if eventual else "strong")
    rows = sum(part.num_rows for part in parts)
    if as_json:
        print_json({"rows": rows})
    else:
        say(counted(rows, "row"))


def history(
    table: Place,
    limit: Annotated[int, typer.Option(min=1, help="Show this many of the newest versions.")] = 20,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Show the retained versions of the base table: when, by which operation, and how many rows."""
    opened = memwal.open(table, manifest_store=manifest_store)
    found = opened.history(limit)
    if as_json:
        print_json(
            [
                {
                    "version": each.version,
                    "committed": None if each.committed_ms is None else moment(each.committed_ms),
                    "operation": each.operation,
                    "rows": each.rows,
                    "damage": each.damage,
                }
                for each in found
            ]
        )
        return
    grid = grid_of("version", "committed (UTC)", "operation", "rows", framed=False)
    for each in found:
        told = each.damage or each.operation or "not known"
        grid.add_row(str(each.version), moment(each.committed_ms), told, "-" if each.damage else f"{each.rows:,}")
    out.print(grid)


def watch(
    table: Place,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show the state once and exit.")] = False,
    manifest_store: ManifestStore = None,
) -> None:
    """Show what waits in each region, again and again until Ctrl-C: rows in the WAL, generations to merge, epochs."""
    opened = memwal.open(table, manifest_store=manifest_store)
    if once or not out.is_terminal:
        _print_once(opened, table)
        while not once:
            time.sleep(every)
            _print_once(opened, table)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    def seen() -> Group:
        regions, waiting = opened.regions(), {each.region_id: each for each in opened.backlog()}
        head = Text(f"{table}, version {opened.version}, {datetime.now(UTC):%H:%M:%S} UTC; stop with Ctrl-C")
        return Group(head, _grid(regions, waiting), Text(_summary(list(waiting.values()), table)))

    try:
        with Live(seen(), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(seen(), refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _print_once(opened: memwal.Table, table: str) -> None:
    regions, waiting = opened.regions(), {each.region_id: each for each in opened.backlog()}
    say(f"{table}, version {opened.version}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    out.print(_grid(regions, waiting))
    say(_summary(list(waiting.values()), table))


def snapshot(
    table: Place,
    whole: Whole = False,
    manifest_store: ManifestStore = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild the region snapshot that eventual reads use."""
    regions = memwal.open(table, manifest_store=manifest_store, listener=progress).snapshot(whole=whole)
    if as_json:
        print_json({"regions": regions})
    else:
        say(f"snapshot of {counted(regions, 'region')}")
