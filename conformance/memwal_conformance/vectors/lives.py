"""Lives of a table: messages by which an implementation writes a golden table, and the rows that are in it then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memwal_conformance import cells
from memwal_conformance.protocol import Json

Call = Callable[[str, Json], Json]
Row = tuple[int, str | None]

COLUMNS: list[Json] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "v", "type": "utf8", "nullable": True},
]


def rows(plain: Sequence[Row]) -> Json:
    """Rows of the protocol."""
    return {"columns": COLUMNS, "rows": [[cells.cell("int64", key), cells.cell("utf8", v)] for key, v in plain]}


def keys(plain: Sequence[int]) -> Json:
    """Keys of the protocol."""
    return {"columns": COLUMNS[:1], "rows": [[cells.cell("int64", key)] for key in plain]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A table that one writer fills."""

    title: str
    steps: tuple[tuple[str, Any], ...]
    """``put``: rows, ``delete``: keys, ``flush``: nothing, ``merge``: nothing."""
    rows: tuple[Row, ...]
    """Rows at the end, with those of the WAL."""
    flushed: bool
    """Whether a reader alone must find them all: nothing is in the WAL only."""
    revisions: tuple[str, ...] = ("A", "B", "R")

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages that the producer needs."""
        needed = {
            "put": "writer.put",
            "delete": "writer.delete",
            "flush": "writer.flush_memtable",
            "merge": "merge.run",
        }
        return ("table.create", "writer.open", *dict.fromkeys(needed[step] for step, _ in self.steps))


BASE: tuple[Row, ...] = ((1, "base"), (2, "base"), (9, None))

LIVES: Mapping[str, Life] = {
    "wal_only": Life(
        title="Two durable writes that are in the WAL only.",
        steps=(("put", [(1, "a"), (3, "a")]), ("put", [(3, "b")])),
        rows=((1, "a"), (2, "base"), (3, "b"), (9, None)),
        flushed=False,
    ),
    "one_generation": Life(
        title="One flushed generation over the base table.",
        steps=(("put", [(1, "a"), (3, "a")]), ("put", [(3, "b")]), ("flush", None)),
        rows=((1, "a"), (2, "base"), (3, "b"), (9, None)),
        flushed=True,
    ),
    "two_generations_and_wal": Life(
        title="Two generations and a WAL behind them.",
        steps=(
            ("put", [(1, "a")]),
            ("flush", None),
            ("put", [(1, "b"), (4, "b")]),
            ("flush", None),
            ("put", [(4, "c")]),
        ),
        rows=((1, "b"), (2, "base"), (4, "c"), (9, None)),
        flushed=False,
    ),
    "merged_and_more": Life(
        title="A generation that is merged and one that is not.",
        steps=(("put", [(1, "a")]), ("flush", None), ("merge", None), ("put", [(2, "b")]), ("flush", None)),
        rows=((1, "a"), (2, "b"), (9, None)),
        flushed=True,
    ),
    "deleted": Life(
        title="Deletes in a generation and in the base table.",
        steps=(("put", [(1, "a"), (3, "a")]), ("delete", [1, 2]), ("flush", None)),
        rows=((3, "a"), (9, None)),
        flushed=True,
        revisions=("R",),
    ),
}


def live(life: Life, table: str, call: Call) -> str:
    """Write the table; gives the region id. The writer is left open: the caller kills the process (`LIVES` ends so)."""
    call("table.create", {"table": table, "rows": rows(BASE), "primary_key": ["id"]})
    opened = call("writer.open", {"table": table})
    writer = opened["writer"]
    for step, given in life.steps:
        if step == "put":
            call("writer.put", {"writer": writer, "rows": rows(given), "durable": True})
        elif step == "delete":
            call("writer.delete", {"writer": writer, "keys": keys(given), "durable": True})
        elif step == "flush":
            call("writer.flush_memtable", {"writer": writer})
        else:
            call("merge.run", {"table": table})
    return str(opened["region_id"])
