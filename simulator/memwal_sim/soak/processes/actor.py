"""One process of the run: opens the table and does what it is told, a line of JSON for each order and each reply.

A writer claims its region first. Replies are ``{"done": ...}`` or ``{"failed": class of the error, "why": its text,
"outcome": whether it is an `Outcome`}``; a writer that has failed ends, since memory is rebuilt by opening the region
again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TextIO

import memwal
import pyarrow as pa
from memwal.errors import MemwalError, Outcome

Order = dict[str, Any]
Perform = Callable[[Order], object]

GRACE_MS = 30_000
"""Longer than any other process than a writer is stopped, and than anything takes: what the operator promises."""


def serve(pipe: Connection, errors: str, location: str, role: str, region: str | None) -> None:
    """Do the orders that come through ``pipe`` until it is closed; exits with 1 after a failure that ends the process.

    ``errors``: file that takes the place of standard error.
    """
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    with os.fdopen(os.dup(pipe.fileno()), "r") as orders, os.fdopen(os.dup(pipe.fileno()), "w") as replies:
        try:
            table = memwal.open(location)
            writer = table.writer(region, memtable_rows=60) if role == "writer" else None
        except MemwalError as failure:
            _reply(replies, _failure(failure))
            sys.exit(1)
        _reply(replies, {"done": writer.epoch if writer is not None else 0})
        perform = _performer(location, table, writer)
        for line in orders:
            try:
                _reply(replies, {"done": perform(json.loads(line))})
            except MemwalError as failure:
                _reply(replies, _failure(failure))
                if writer is not None:
                    sys.exit(1)


def _performer(location: str, table: memwal.Table, writer: memwal.Writer | None) -> Perform:
    def put(order: Order) -> object:
        assert writer is not None
        columns = {"key": order["keys"], "value": [order["value"]] * len(order["keys"])}
        writer.put(pa.table(columns, schema=table.schema))
        return None

    def flush(_: Order) -> object:
        assert writer is not None
        return writer.flush()

    known: dict[str, Perform] = {
        "put": put,
        "flush": flush,
        "merge": lambda _: len(table.merge().merged),
        "collect": lambda _: sum(d.collected for d in table.gc(retain_versions=2, grace_ms=GRACE_MS).decisions),
        "compact": lambda _: memwal.base_table(location).compact().version,
        "scan": lambda _: table.scan().to_pydict(),
    }
    return lambda order: known[order["do"]](order)


def _failure(failure: MemwalError) -> dict[str, object]:
    return {"failed": type(failure).__name__, "why": str(failure)[:500], "outcome": isinstance(failure, Outcome)}


def _reply(replies: TextIO, reply: dict[str, object]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
