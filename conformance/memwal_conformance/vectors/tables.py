"""Vectors that are whole tables: what an implementation recovers from the folder, and which rows it finds in it.

The implementation is given a copy, which it may change.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from memwal_conformance.protocol import AdapterError, Json

from .case import BadCase, Vector
from .comparing import difference, not_refused, refusal, refused_as, rows_by_name, rows_differ

Call = Callable[[str, Json], Json]
Served = Callable[[Path], AbstractContextManager[str]]
"""Gives a copy of a table, and where it is, for as long as the context is open."""
TABLE = "table"


@contextlib.contextmanager
def copied(source: Path) -> Iterator[str]:
    """A copy of a table, for as long as the context is open. Raises `BadCase`."""
    if not source.is_dir():
        raise BadCase(f"{source} is not a table")
    # A writer of the native package that is closed may still write its hint: then the folder cannot be removed at once.
    with tempfile.TemporaryDirectory(prefix="memwal-vector-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / TABLE
        shutil.copytree(source, place)
        yield str(place)


def ask(vector: Vector, direction: str, call: Call, served: Served = copied) -> str | None:
    """Ask one direction; gives what is wrong, or None. Raises `AdapterError` for a refusal that nothing expects."""
    return ask_about(vector.folder / "input" / TABLE, direction, vector.expected[direction], call, served)


def ask_about(table: Path, direction: str, expected: Json, call: Call, served: Served = copied) -> str | None:
    """Ask one direction about a copy of ``table``; see `ask`."""
    kinds = refusal(expected)
    if "writer.open" in MESSAGES[direction] and "region_id" not in expected:
        expected = {**expected, "region_id": _only_region(table)}
    with served(table) as place:
        try:
            wrong, answer = DIRECTIONS[direction](place, expected, call)
        except AdapterError as error:
            if not kinds:
                raise
            return refused_as(error, kinds)
    return not_refused(answer, kinds) if kinds else wrong


def _inspect(place: str, expected: Json, call: Call) -> tuple[str | None, Any]:
    answer = call("inspect", {"table": place})
    return difference(expected, answer), answer


def _recover(place: str, expected: Json, call: Call) -> tuple[str | None, Any]:
    opened = _open(place, expected, call)
    reader = call("reader.open", {"table": place, "consistency": "strong"})
    rows = call("reader.scan", {"reader": reader["reader"], "writers": [opened["writer"]]})["rows"]
    call("writer.close", {"writer": opened["writer"]})
    if refusal(expected):
        return None, {"rows": rows}
    if "epoch" in expected and opened.get("epoch", expected["epoch"]) != expected["epoch"]:
        return f"epoch is {opened['epoch']}, expected {expected['epoch']}", rows
    return _wrong_rows([expected["rows"]], rows), rows


def _status(place: str, expected: Json, call: Call) -> tuple[str | None, Any]:
    opened = _open(place, expected, call)
    status = call("writer.status", {"writer": opened["writer"]})
    call("writer.close", {"writer": opened["writer"]})
    if refusal(expected):
        return None, status
    least = expected["position_at_least"]
    if int(status["next_position"]) < int(least):
        return f"the next position is {status['next_position']}, expected {least} or more", status
    if status["generation"] != expected["generation"]:
        return f"generation is {status['generation']}, expected {expected['generation']}", status
    return None, status


def _open(place: str, expected: Json, call: Call) -> Json:
    return call("writer.open", {"table": place, "region_id": expected["region_id"]})


def _only_region(table: Path) -> str:
    (region,) = (folder.name for folder in (table / "_mem_wal").iterdir())
    return region


def _read(place: str, expected: Json, call: Call) -> tuple[str | None, Any]:
    if refusal(expected):
        reader = call("reader.open", {"table": place, "consistency": "strong"})
        return None, call("reader.scan", {"reader": reader["reader"]})["rows"]
    for consistency, accepted in expected.items():
        reader = call("reader.open", {"table": place, "consistency": consistency})
        rows = call("reader.scan", {"reader": reader["reader"]})["rows"]
        wrong = _wrong_rows(accepted, rows)
        if wrong is not None:
            return f"{consistency}: {wrong}", rows
    return None, None


def _wrong_rows(accepted: list[Json], rows: Json) -> str | None:
    """What is wrong with ``rows``, told of those of ``accepted`` that they come closest to."""
    told = [rows_differ(rows_by_name(rows), rows_by_name(one)) for one in accepted]
    if None in told:
        return None
    plain = [rows_differ(rows_by_name(rows, typed=False), rows_by_name(one, typed=False)) for one in accepted]
    return min((short or long or "" for short, long in zip(plain, told, strict=True)), key=len)


DIRECTIONS: dict[str, Callable[[str, Json, Call], tuple[str | None, Any]]] = {
    "inspect": _inspect,
    "recover": _recover,
    "status": _status,
    "read": _read,
}
"""Direction -> how it is asked; gives what is wrong, and the answer."""

MESSAGES = {
    "inspect": ("inspect",),
    "recover": ("writer.open", "writer.close", "reader.open", "reader.scan"),
    "status": ("writer.open", "writer.close", "writer.status"),
    "read": ("reader.open", "reader.scan"),
}
"""Direction -> messages that it needs."""
