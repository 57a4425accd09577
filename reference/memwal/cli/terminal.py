"""What commands print with, and the arguments and options that they share."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from memwal.cli.endings import TABLE

if TYPE_CHECKING:
    from rich.table import Table

out, err = Console(emoji=False), Console(stderr=True, emoji=False)


def _named(context: typer.Context, value: str) -> str:
    context.meta[TABLE] = value  # so that an error can name the table
    return value


Place = Annotated[
    str, typer.Argument(metavar="TABLE", help="Folder or URL (s3://, gs://, az://) of the table.", callback=_named)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ManifestStore = Annotated[
    str | None,
    typer.Option("--manifest-store", metavar="STORE", help="External manifest store of the table: sqlite:PATH."),
]
"""Where the versions of a table are created that has an external manifest store; as for `memwal.open`."""
Whole = Annotated[
    bool, typer.Option("--whole", help="Read every manifest, even those that have not changed since the last snapshot.")
]
"""Of the commands that build a region snapshot."""
RegionName = Annotated[
    str | None,
    typer.Option("--region", help="One region: its id, the beginning of its id, or its values, as in bucket=2."),
]

QUIET_S = 10.0
"""Where standard error is no terminal, a line about progress comes that often at most."""


class Progress:
    """Says on standard error what long work is doing: each step to a person, a line now and then to a file or pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told_s: float | None = None

    def begin(self) -> None:
        """A command begins: what is soon done needs no line."""
        self._told_s = None

    def __call__(self, event: str, fields: dict[str, object]) -> None:
        self.say(f"{event} {' '.join(f'{name}={value}' for name, value in fields.items())}")

    def say(self, text: str) -> None:
        """Print ``text``, unless another line was printed a moment ago and no terminal shows it."""
        now_s = time.monotonic()
        if not self._console.is_terminal and (self._told_s is None or now_s - self._told_s < QUIET_S):
            self._told_s = now_s if self._told_s is None else self._told_s
            return
        self._told_s = now_s
        self._console.print(text, style="dim", soft_wrap=True, highlight=False, markup=False)


progress = Progress(err)


def tell(line: str) -> None:
    """A line about what went wrong, on standard error."""
    err.print(line, style="red", soft_wrap=True, highlight=False, markup=False)


def say(text: str, style: str = "") -> None:
    """A line of the answer, as it is."""
    out.print(text, style=style, soft_wrap=True, highlight=False, markup=False)


def grid_of(*heads: str, framed: bool = True) -> Table:
    """An empty table with these heads; without a frame its columns begin at the line's edge."""
    from rich.table import Table  # takes 10 ms, and few commands print a table

    return Table(*heads) if framed else Table(*heads, box=None, pad_edge=False)


def entries(told: Iterable[tuple[str, str]]) -> None:
    """A list of names, each with what is said of it in whole words below: fits a terminal of any width."""
    for head, text in told:
        name, _, rest = head.partition(" ")
        fits = len(head) <= out.width
        below = (text,) if fits else (rest.strip(), text)
        lines = [line for each in below for line in wrap(each, out.width - 4, break_on_hyphens=False)]
        told_of_it = f" {rest.rstrip()}" if fits and rest.strip() else ""
        whole = Text.assemble((name, "bold"), told_of_it, *(f"\n    {line}" for line in lines))
        out.print(whole, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """The answer as JSON."""
    out.print_json(json.dumps(value, default=str))
