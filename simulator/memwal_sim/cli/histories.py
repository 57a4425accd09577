"""``memwal explore check-history``: a verdict on a history that any implementation recorded.

Exit codes: 0 the history is possible, 1 it is not, 2 usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from memwal.errors import InvalidArgument
from memwal.words import counted
from rich.markup import escape

from .terminal import Json, mistakes_are_usage, stdout

if TYPE_CHECKING:
    from ..histories.conflict import Contradiction
    from ..histories.operations import Operation

IMPOSSIBLE = 1
STANDARD_INPUT = "-"
ALL_KEYS = ""
"""Key of a conflict of several keys."""


def commands(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command("check-history")(check_history)


def check_history(
    file: Annotated[str, typer.Argument(help="JSON Lines, one operation per line; - for standard input.")],
    batches: Annotated[
        bool, typer.Option("--batches", help="Rows of one batch happen together. Exact, but slower.")
    ] = False,
    initial: Annotated[str | None, typer.Option(help="First value of every register. Default: absent.")] = None,
    conflict: Annotated[Path | None, typer.Option(help="Write the operations in conflict to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Check whether the history in FILE is linearizable, one register per key; if not, show a conflict."""
    from ..histories.operations import dumps

    with mistakes_are_usage():
        operations = _read(file)
        found = _conflicts(operations, initial, batches=batches)
        if conflict is not None:
            conflict.write_text(dumps(op for each in found.values() for op in each.operations), "utf-8")
    keys = {operation.key for operation in operations}
    if as_json:
        shown = [_as_dict(key, each) for key, each in found.items()]
        typer.echo(json.dumps({"operations": len(operations), "keys": len(keys), "conflicts": shown}, indent=2))
    else:
        _print(found, f"{counted(len(operations), 'operation')} on {counted(len(keys), 'key')}")
    if found:
        raise typer.Exit(IMPOSSIBLE)


def _read(file: str) -> tuple[Operation, ...]:
    from ..histories.operations import parse

    data = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    name = "standard input" if file == STANDARD_INPUT else Path(file).name
    try:
        return parse(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name} is not UTF-8 from byte {error.start} on") from None


def _conflicts(operations: Sequence[Operation], initial: str | None, *, batches: bool) -> Mapping[str, Contradiction]:
    from ..histories.verdicts import check_batches, check_registers

    first = dict.fromkeys((operation.key for operation in operations), initial)
    found = check_registers(operations, first)
    if batches and not found:
        together = check_batches(operations, first)
        return {} if together is None else {ALL_KEYS: together}
    return found


def _as_dict(key: str, found: Contradiction) -> dict[str, object]:
    operations = [asdict(operation) for operation in found.operations]
    return {"key": key or None, "kind": found.kind, "reason": found.reason, "operations": operations}


def _print(found: Mapping[str, Contradiction], what: str) -> None:
    from ..histories.operations import dumps

    if not found:
        stdout.print(f"[bold green]possible[/]: {what}", highlight=False)
    for key, each in found.items():
        where = f"key {escape(key)}" if key else "all keys at once"
        stdout.print(f"[bold red]impossible[/]: {where}, {each.kind}", highlight=False)
        stdout.print(each.reason, markup=False, highlight=False, soft_wrap=True)
        stdout.print(dumps(each.operations), end="", markup=False, highlight=False, soft_wrap=True)
