"""``memwal conformance judge``: the suite's judge on a folder of any other.

Exit codes: 0 nothing is broken, 1 something is, 2 usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from memwal.errors import InvalidArgument
from memwal_sim.cli.terminal import FOUND, Json, mistakes_are_usage, print_json, stdout

if TYPE_CHECKING:
    from ..judge.structure import CheckResult


def commands(app: typer.Typer) -> None:
    """Add ``judge`` to ``app``."""
    app.command()(judge)


def judge(
    table: Annotated[Path, typer.Argument(help="Folder of the table.")],
    key: Annotated[str, typer.Option(help="Columns of the primary key, comma-separated.")],
    revision: Annotated[str, typer.Option(help="Revision that the table is held to: A, B or R.")] = "B",
    acknowledged: Annotated[
        Path | None, typer.Option(help="Folder of streams of rows that writers acknowledged (docs/adapter.md).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the bytes of a table against the clauses, with code that is independent of the engine.

    No other process may change the table meanwhile.
    """
    from memwal.errors import check_name

    from ..judge import acknowledged as told
    from ..judge import store, structure
    from ..judge.wire import DamagedBytes

    with mistakes_are_usage():
        check_name("revision", revision, store.LAYOUTS)
        try:
            found = store.read(table, revision, [name.strip() for name in key.split(",")])
            claims = [] if acknowledged is None else told.load(acknowledged)
        except DamagedBytes as error:
            raise InvalidArgument(f"{table}: {error}") from error
    results = structure.run(found)
    if acknowledged is not None:
        for name, seen in (
            ("acknowledged rows are stored", told.stored(found, claims)),
            ("acknowledged rows stand", told.standing(found, claims)),
        ):
            results.append(structure.result(name, ("WAL-001",), seen))
    broken = [each for each in results if each.faults]
    if as_json:
        print_json({"revision": revision, "clean": not broken, "checks": [_plain(each) for each in results]})
    else:
        for each in results:
            for fault in each.broken:
                _say(f"{', '.join(fault.clauses)}: {each.check}: {fault.what}")
            for choice in each.choices[:1]:
                _say(f"{choice.ambiguity}: {each.check}: {choice.what} ({len(each.choices)} of this kind)")
        looked = sum(each.looked_at for each in results)
        _say(f"{len(broken)} of {len(results)} checks are broken; {looked:,} things were looked at")
    if broken:
        raise typer.Exit(FOUND)


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)


def _plain(result: CheckResult) -> dict[str, Any]:
    return {
        "check": result.check,
        "clauses": list(result.clauses),
        "looked_at": result.looked_at,
        "blamed": list(result.blamed),
        "faults": list(result.faults),
        "choices": [{"what": each.what, "ambiguity": each.ambiguity} for each in result.choices],
    }
