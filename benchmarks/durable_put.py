"""Durable puts on a local directory: the engine, the native writer, and a bare encode-and-create, in one run.

    python benchmarks/durable_put.py [--puts 1000] [--revision R] [--json]

All sides write the same rows into the same file system in rotating turns, so that load meets all of them alike. The
bare side gets the rows with the columns that the revision stores, encodes them as pyarrow does by itself, and creates
a file exclusively; it validates, fences and acknowledges nothing. The side *two steps* does the same with the engine's
own encoding, which is read back, and its own store, where no reader finds half of a file: what the engine takes beyond
it is everything else that a put is. The native writer runs twice, at the same durability:
with a WAL flush interval of 1 ms, and with its default, which makes each put wait for the next tick. MemTables are
bounded alike (100,000 rows) and flushed in the background.
Reported for each side: median and 99th percentile in microseconds, rows per second at the median, and the engine's
median divided by that side's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lance
import memwal
import pyarrow as pa
from memwal.codec import wal
from memwal.codec.wal import WalEntry
from memwal.effects import PutIfAbsent
from memwal.ids import Epoch, Generation
from memwal.revisions import REVISIONS
from memwal.stores.local import LocalStore

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("v", pa.string())])
MEMTABLE_ROWS = 100_000

Put = Callable[[pa.Table], object]
Result = dict[str, float | str]


def stored(table: pa.Table, revision: str) -> pa.Table:
    """``table`` as an entry of ``revision`` holds it."""
    if revision != "R":
        return table
    flag = pa.field("_tombstone", pa.bool_(), nullable=False)
    return table.append_column(flag, pa.repeat(pa.scalar(False), table.num_rows))


def rows(count: int, start: int) -> pa.Table:
    """``count`` rows with fresh ids from ``start`` on."""
    return pa.table([pa.array(range(start, start + count)), pa.array(["x" * 20] * count)], schema=SCHEMA)


@contextmanager
def engine(folder: Path, revision: str) -> Iterator[Put]:
    """The engine's writer."""
    table = memwal.create(folder / "engine", SCHEMA, primary_key=["id"], revision=revision)
    with table.writer(memtable_rows=MEMTABLE_ROWS) as writer:
        yield writer.put


@contextmanager
def native(folder: Path, interval_ms: int | None) -> Iterator[Put]:
    """The native writer, with a WAL flush interval in milliseconds or its default."""
    dataset = lance.write_dataset(SCHEMA.empty_table(), str(folder / f"native-{interval_ms}"), schema=SCHEMA)
    dataset.initialize_mem_wal()
    options = {} if interval_ms is None else {"max_wal_flush_interval_ms": interval_ms}
    shard = str(uuid.uuid4())
    with dataset.mem_wal_writer(shard, durable_write=True, max_memtable_rows=MEMTABLE_ROWS, **options) as writer:
        yield writer.put


@contextmanager
def bare(folder: Path) -> Iterator[Put]:
    """Encode a table with the same metadata and create a file that must not exist."""
    (folder / "bare").mkdir()
    numbers = iter(range(1 << 62))

    def put(table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema.with_metadata({b"writer_epoch": b"1"})) as writer:
            writer.write_table(table)
        name = folder / "bare" / f"{next(numbers):064b}.arrow"
        file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(file, sink.getvalue())
        os.close(file)

    yield put


@contextmanager
def two_steps(folder: Path, revision: str) -> Iterator[Put]:
    """Encode a table and create an object, as the engine does."""
    store, numbers = LocalStore(folder / "steps"), iter(range(1 << 62))

    def put(table: pa.Table) -> None:
        entry = WalEntry(epoch=Epoch(1), generation=Generation(1), rows=table)
        store.perform(PutIfAbsent(f"wal/{next(numbers):064b}.arrow", wal.encode(entry, REVISIONS[revision])))

    yield put


def measure(puts: int, count: int, revision: str) -> list[Result]:
    """One result per side for ``puts`` puts of ``count`` rows; the native default side gets a tenth of them."""
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as open_writers:
        folder = Path(name)
        sides: dict[str, Put] = {
            "engine": open_writers.enter_context(engine(folder, revision)),
            "bare": open_writers.enter_context(bare(folder)),
            "two steps": open_writers.enter_context(two_steps(folder, revision)),
            "native, 1 ms": open_writers.enter_context(native(folder, 1)),
            "native, default": open_writers.enter_context(native(folder, None)),
        }
        for number in range(puts):
            batch = rows(count, number * count)
            entry = stored(batch, revision)
            order = list(sides)
            for side in order[number % len(order) :] + order[: number % len(order)]:
                put = sides[side]
                if side == "native, default" and number % 40 // 4:
                    continue
                given = entry if side in {"bare", "two steps"} else batch
                start = time.perf_counter_ns()
                put(given)
                taken.setdefault(side, []).append((time.perf_counter_ns() - start) / 1000)
    engine_us = statistics.median(taken["engine"])
    return [
        {
            "side": side,
            "rows": count,
            "median_us": statistics.median(us),
            "p99_us": statistics.quantiles(us, n=100)[98],
            "rows_per_s": count / statistics.median(us) * 1e6,
            "engine_to_side": engine_us / statistics.median(us),
        }
        for side, us in taken.items()
    ]


def main() -> None:
    """Measure 1, 100 and 10,000 rows a put and print a line for each side, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--puts", type=int, default=1000, help="puts per size (a fifth of them at 10,000 rows)")
    parser.add_argument("--revision", choices=["A", "B", "R"], default="R")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    results = [
        result
        for count in (1, 100, 10_000)
        for result in measure(chosen.puts if count < 10_000 else max(20, chosen.puts // 5), count, chosen.revision)
    ]
    if chosen.json:
        print(json.dumps(results))
        return
    for r in results:
        speed = f"median {r['median_us']:8.0f} us, p99 {r['p99_us']:8.0f} us, {r['rows_per_s']:12,.0f} rows/s"
        print(f"{r['rows']:>6} rows, {r['side']:<16} {speed}, engine/side {r['engine_to_side']:.3f}")


if __name__ == "__main__":
    main()
