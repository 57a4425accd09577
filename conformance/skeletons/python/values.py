"""Names of numbered objects, and region values under a region spec."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

from hashing import Cell, hash_of, hash_of_all

SUFFIX = {"A": "lance", "B": "arrow", "R": "arrow"}
LARGEST = (1 << 64) - 1


def digits(number: int) -> str:
    """64 binary digits, least significant first."""
    return f"{number:064b}"[::-1]


def number_of(name: str, suffix: str) -> int | None:
    """The number in a name of `digits`; None for any other name."""
    stem, _, found = name.partition(".")
    return int(stem[::-1], 2) if found == suffix and re.fullmatch("[01]{64}", stem) else None


def table_manifest(version: int) -> str:
    """Name of a table manifest in the V2 scheme."""
    return f"{LARGEST - version:020d}.manifest"


def table_version(name: str) -> int | None:
    """Inverse of `table_manifest`; None for any other name."""
    return LARGEST - int(name[:20]) if re.fullmatch(r"[0-9]{20}\.manifest", name) else None


def name_of(kind: str, number: int, revision: str) -> str:
    """File name of a numbered object."""
    if kind == "table_manifest":
        return table_manifest(number)
    return f"{digits(number)}.{'binpb' if kind == 'manifest' else SUFFIX[revision]}"


class NoTransform(Exception):
    """A transform that is not known."""


def _bucket(found: int | None, buckets: int, revision: str) -> int | None:
    if revision == "R":
        return 0 if found is None else (found & 0x7FFFFFFF) % buckets
    return None if found is None else abs(found) % buckets


def _moment(cell: Cell) -> datetime.datetime:
    unit = "days" if cell["t"] == "date32" else "microseconds"
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(**{unit: int(cell["v"])})


def _truncated(cell: Cell, width: int) -> Any:
    if cell["t"] == "utf8":
        return cell["v"][:width]
    number = int(cell["v"])
    cut = abs(number) - abs(number) % width  # the remainder has the sign of the number, as in SQL
    return cut if number >= 0 else -cut


PARTS: dict[str, Callable[[datetime.datetime], int]] = {
    "year": lambda at: at.year,
    "month": lambda at: at.month,
    "day": lambda at: at.day,
    "hour": lambda at: at.hour,
}


def _value(field: dict[str, Any], cells: list[Cell], revision: str) -> Any:
    transform, parameters = field.get("transform"), field["parameters"]
    if transform == "bucket":
        return _bucket(hash_of(cells[0], revision), int(parameters["num_buckets"]), revision)
    if transform == "multi_bucket":
        return _bucket(hash_of_all(cells, revision), int(parameters["num_buckets"]), revision)
    if transform not in ("identity", "truncate", *PARTS):
        raise NoTransform(f"there is no transform {transform}")
    if cells[0]["v"] is None or transform == "identity":
        return cells[0]["v"]
    return (
        _truncated(cells[0], int(parameters["width"]))
        if transform == "truncate"
        else PARTS[transform](_moment(cells[0]))
    )


def region_values(spec: dict[str, Any], field_ids: list[str], rows: dict[str, Any], revision: str) -> list[list[Cell]]:
    """The region values of each row. A source field that no column has counts as NULL."""
    made = []
    for row in rows["rows"]:
        by_id = dict(zip(field_ids, row, strict=True))
        values = []
        for field in spec["fields"]:
            kind = field["result_type"]
            cells = [by_id.get(source, {"t": kind, "v": None}) for source in field["source_ids"]]
            value = _value(field, cells, revision)
            values.append({"t": kind, "v": str(value) if type(value) is int else value})
        made.append(values)
    return made
