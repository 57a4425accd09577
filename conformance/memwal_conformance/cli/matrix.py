"""``memwal conformance matrix``: several conformance runs side by side.

Exit codes: 0 written, 2 usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from memwal_sim.cli.terminal import mistakes_are_usage


def commands(app: typer.Typer) -> None:
    """Add ``matrix`` to ``app``."""
    app.command()(matrix)


def matrix(
    summaries: Annotated[list[Path], typer.Argument(metavar="SUMMARY…", help="summary.json of each run.")],
    format_: Annotated[str, typer.Option("--format", help="md, html or json.")] = "md",
    every: Annotated[bool, typer.Option("--all", help="With md: also show cases in which all runs pass.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: standard output.")] = None,
) -> None:
    """Show several conformance runs side by side, with the verdict of each implementation in each case."""
    from ..reporting import side_by_side

    with mistakes_are_usage():
        columns = side_by_side.load_all(summaries)
        if every and format_ == "md":
            text = side_by_side.markdown(columns, every=True)
        else:
            text = side_by_side.written(columns, format_)
        if out is not None:
            out.write_text(text, "utf-8")
    if out is None:
        typer.echo(text, nl=False)
