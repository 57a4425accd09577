"""Requests to the store that each operation costs, counted: the golden numbers of docs/requests.md.

    python benchmarks/requests.py [--write] [--json]

Counted on a fresh table with one region and three rows a write, in memory; nothing is timed, so that every run gives
the same numbers. `--write` renews the table in docs/requests.md, which the tests compare with what they count.
"""

from __future__ import annotations

import argparse
import json
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
from memwal.effects import StoreRequest
from memwal.stores import open_store
from memwal.stores.base import Store

DOCUMENT = Path(__file__).parent.parent / "docs" / "requests.md"
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
KINDS = ("Get", "Head", "List", "ListFolders", "PutIfAbsent", "Put", "Delete")

Counts = dict[str, Counter[str]]
"""Requests by kind, per operation."""


class Counting:
    """A store that counts the requests that it passes on."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.seen: Counter[str] = Counter()

    def perform(self, request: StoreRequest[Any]) -> Any:
        self.seen[type(request).__name__] += 1
        return self.inner.perform(request)

    def describe(self) -> str:
        return f"counted {self.inner.describe()}"

    def close(self) -> None:
        self.inner.close()


def rows(start: int) -> pa.Table:
    """Three rows with ids from ``start`` on."""
    return pa.table([pa.array(range(start, start + 3)), pa.array(["x"] * 3)], schema=SCHEMA)


def count(revision: str) -> Counts:
    """What every operation of a table's life costs under ``revision``."""
    inner, _ = open_store(f"memory://requests-{revision}-{uuid.uuid4()}")
    store = Counting(inner)
    found: Counts = {}

    def counted(operation: str, action: Callable[[], Any]) -> Any:
        store.seen.clear()
        result = action()
        found[operation] = Counter(store.seen)
        return result

    def lives(root: str, suffix: str, options: dict[str, Any]) -> None:
        table = counted(
            f"create a table{suffix}",
            lambda: memwal.create(root, SCHEMA, primary_key=["id"], revision=revision, store=store, **options),
        )
        region = counted(f"register a region{suffix}", table.register_region)
        writer = counted(f"claim a new region{suffix}", lambda: table.writer(region, background=False))
        counted(f"durable put{suffix}", lambda: writer.put(rows(0)))
        writer.put(rows(3), durable=False)
        counted(f"WAL flush{suffix}", writer.flush_wal)
        counted(f"MemTable flush of 2 entries{suffix}", writer.flush)
        writer.put(rows(6))
        writer = counted(
            f"claim a region with 1 unflushed entry{suffix}", lambda: table.writer(region, background=False)
        )
        counted(f"strong scan: base, 1 generation, WAL tail{suffix}", table.scan)
        counted(f"strong scan with the writer's memory{suffix}", lambda: table.scan(writers=[writer]))
        counted(f"point lookup{suffix}", lambda: table.get(pa.table({"id": pa.array([1], pa.int64())})))
        absent = pa.table({"id": pa.array([1_000], pa.int64())})
        counted(f"point lookup that a generation's filter denies{suffix}", lambda: table.get(absent))
        counted(f"merge of 1 generation{suffix}", table.merge)
        counted(f"merge with nothing to do{suffix}", table.merge)
        counted(f"snapshot of 1 region{suffix}", table.snapshot)
        counted(f"eventual scan{suffix}", lambda: table.scan(consistency="eventual"))
        counted(f"collection of 1 generation{suffix}", lambda: table.gc(retain_versions=1))
        counted(f"collection with nothing to do{suffix}", lambda: table.gc(retain_versions=1))
        writer.close()

    lives("plain", "", {})
    lives("collected", ", collection on", {"wal_collection": True, "manifest_collection": True})
    return found


def markdown() -> str:
    """The counted tables, one per revision."""
    parts = []
    for revision in ("A", "B", "R"):
        parts += [f"### Revision {revision}", "", f"| operation | all | {' | '.join(KINDS)} |"]
        parts.append(f"| --- | {' | '.join(['---'] * (len(KINDS) + 1))} |")
        for operation, seen in count(revision).items():
            cells = " | ".join(str(seen[kind] or "") for kind in KINDS)
            parts.append(f"| {operation} | {seen.total()} | {cells} |")
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew docs/requests.md")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.json:
        print(json.dumps({revision: count(revision) for revision in ("A", "B", "R")}))
    elif chosen.write:
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n\n{markdown()}\n{END}{rest.partition(END)[2]}")
    else:
        print(markdown())


if __name__ == "__main__":
    main()
