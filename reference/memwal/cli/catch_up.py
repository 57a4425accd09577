"""`memwal table catch-up`: bring indexes of the base table up to what was merged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import memwal
from memwal.cli.terminal import AsJson, ManifestStore, Place, out, progress
from memwal.words import counted

if TYPE_CHECKING:
    from memwal.jobs.index_builder import CaughtUp


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("catch-up")
    def catch_up(
        table: Place,
        index: Annotated[
            str | None, typer.Option(help="Catch up this index only. Default: all indexes over columns.")
        ] = None,
        manifest_store: ManifestStore = None,
        as_json: AsJson = False,
    ) -> None:
        """Extend base table indexes over merged rows, and record how far they have caught up."""
        report = memwal.open(table, manifest_store=manifest_store, listener=progress).catch_up(index)
        if as_json:
            out.print_json(json.dumps({"indexes": [_as_json(done) for done in report.indexes]}))
            return
        for done in report.indexes:
            out.print(_line(done), soft_wrap=True, highlight=False, markup=False)
        out.print(report.summary)


def _line(done: CaughtUp) -> str:
    if not done.committed:
        return f"{done.index_name}: up to date at version {done.version_indexed}"
    credit = ", ".join(f"{region} to generation {generation}" for region, generation in done.credited)
    added = f"{counted(len(done.fragments), 'fragment')} added" if done.fragments else "credited only"
    return f"{done.index_name}: {added} at version {done.version_indexed}; caught up: {credit or 'nothing is merged'}"


def _as_json(done: CaughtUp) -> dict[str, object]:
    return {
        "index": done.index_name,
        "version_indexed": done.version_indexed,
        "fragments": list(done.fragments),
        "caught_up": [{"region_id": region, "generation": generation} for region, generation in done.credited],
        "committed": done.committed,
    }
