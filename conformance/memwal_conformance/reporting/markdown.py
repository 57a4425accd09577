"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """``text`` as the content of a Markdown table cell; what is in backticks stays code, all else is shown as it is."""
    parts = text.split("`")
    prose = [re.sub(r"([*<\\]|(?<![A-Za-z0-9])_)", r"\\\1", part) for part in parts[::2]]
    parts[::2] = prose
    return "`".join(parts).replace("|", "\\|")


def row(values: Iterable[object]) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(value) for value in values) + " |"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    return [row(head), row("---" for _ in head), *map(row, rows)]


def code(names: Iterable[str], separator: str = "<br>") -> str:
    """Names, each as code."""
    return separator.join(f"`{name}`" for name in names)
