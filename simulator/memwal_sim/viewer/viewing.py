"""Where the three forms of a film go: to files, and to a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from . import lanes, page
from . import mermaid as sequence
from .film import Film


def write(film: Film, *, html: Path | None = None, mermaid: Path | None = None) -> None:
    """Write the page and the Mermaid diagram to files, as far as they are named."""
    if html is not None:
        html.write_text(page.render(film), "utf-8")
    if mermaid is not None:
        mermaid.write_text(sequence.render(film, page.addresses(film)), "utf-8")


def print_lanes(film: Film, console: Console) -> None:
    """Print the lane view, in ASCII where the terminal has nothing else; lines are cut at no width."""
    whole = console.encoding.lower().startswith("utf")
    for line in lanes.lines(film, page.addresses(film)):
        text = line.text if whole else lanes.plain(line.text)
        console.print(text, style=line.style or None, markup=False, highlight=False, soft_wrap=True)
