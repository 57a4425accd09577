"""What a run remembers of the messages that write, for the oracle: which rows, by which writer, with what outcome."""

from __future__ import annotations

from memwal_sim.following import RowsTold, RowTold
from memwal_sim.histories.history import Outcome

from ..judge import content
from ..protocol import Json
from . import oracle
from .checks import CheckContext
from .claims import Claims
from .scenarios import plain_rows

WRITES = ("writer.put", "writer.delete")
SYNCS = ("writer.flush_wal", "writer.flush_memtable", "writer.close")
"""Messages whose success makes durable what the writer had buffered."""
ROUNDED = ("float32", "float64", "timestamp_us")
"""Types whose values have several words."""
BASE_WRITES = ("append", "update", "delete")
"""Changes of ``base.write`` that change rows."""


def remember(context: CheckContext, actor: str, message: str, params: Json, error: str | None, claims: Claims) -> None:
    """Put a message behind the history of ``context``, and what it has made durable under a claim into ``written``.

    ``error``: its kind; an invalid argument means that nothing was written.
    """
    key, writer = context.key, f"{actor} {params.get('writer', '')}"
    if message == "table.create" and error is None:
        context.history = oracle.written(context.history, key, "", plain_rows(params["rows"]), "ok")
    elif message == "base.write" and error is None:
        for what in (name for name in BASE_WRITES if name in params):
            rows, deletes = plain_rows(params[what]), what == "delete"
            context.history = oracle.written(context.history, key, "", rows, "ok", deletes=deletes)
    elif message in SYNCS and error is None:
        context.history = context.history.synced(writer)
    elif message in WRITES and error != "invalid_argument":
        _, plain = _given(context, message, params)
        outcome: Outcome = "unknown" if error is not None else "ok" if params["durable"] else "buffered"
        before = context.history.synced(writer) if outcome == "ok" else context.history
        deletes, claim = message == "writer.delete", claims.of(writer)
        if outcome == "ok" and not deletes and claim is not None:
            context.written |= {(*claim, content.shown(row)) for row in plain}
        context.history = oracle.written(before, key, writer, plain, outcome, deletes=deletes)


def told_stored(context: CheckContext, actor: str, message: str, params: Json, order: int) -> RowsTold | None:
    """What a message that succeeded told its caller to be stored; None where it told nothing of that kind.

    ``order``: of the last request that the gate had carried out by then.
    """
    if message not in WRITES or not params["durable"]:
        return None
    columns, plain = _given(context, message, params)
    worded = [column["name"] for column in columns if column["type"] not in ROUNDED]
    if not set(context.key) <= set(worded):
        return None
    rows = (RowTold.of((row[name] for name in context.key), (row[name] for name in worded)) for row in plain)
    return RowsTold(actor, tuple(rows), order)


def _given(context: CheckContext, message: str, params: Json) -> tuple[list[Json], list[Json]]:
    """Columns of a put or a delete, and its rows."""
    given = params["rows" if message == "writer.put" else "keys"]
    columns = _named(given["columns"], context.names.scenario.schema)
    return columns, plain_rows({**given, "columns": columns})


def _named(columns: list[Json], known: list[Json]) -> list[Json]:
    """Columns of a write that was accepted: if they have the table's types, they count by place, not by name."""
    same = [column["type"] for column in columns] == [column["type"] for column in known]
    return known if same else columns
