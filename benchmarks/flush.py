"""MemTable flush on a local directory: the engine and the native writer, in one run.

    python benchmarks/flush.py [--rows 100000] [--rounds 5] [--random] [--json]

Both write MemTables of the same rows in turn, durably and in ten puts, and flush each into a generation with its bloom
filter and key index. The engine's time is that of `Writer.flush`; the native one is what its own statistics add up as
`memtable_flush_time_ms`, whole milliseconds. Reported: medians, rows per second, and the engine's median divided by the
native one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import lance
import memwal
import numpy as np
import pyarrow as pa

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("v", pa.string())])
PUTS = 10


def parts(count: int, start: int, *, random: bool = False) -> list[pa.Table]:
    """``count`` rows from the id ``start`` on, ascending or in random order, cut into `PUTS` tables."""
    ids = np.arange(start, start + count)
    if random:
        np.random.default_rng(start).shuffle(ids)
    rows = pa.table([pa.array(ids), pa.array(["x" * 20] * count)], schema=SCHEMA)
    size = -(-count // PUTS)
    return [rows.slice(at, size) for at in range(0, count, size)]


def engine(folder: Path, count: int, start: int, *, random: bool) -> float:
    """Milliseconds of one flush of a MemTable that no put has filled."""
    table = memwal.create(folder / f"engine-{start}", SCHEMA, primary_key=["id"], revision="R")
    with table.writer(background=False, memtable_rows=count + 1) as writer:
        for part in parts(count, start, random=random):
            writer.put(part)
        begin = time.perf_counter()
        writer.flush()
        return (time.perf_counter() - begin) * 1000


def native(folder: Path, count: int, start: int, *, random: bool) -> float:
    """Milliseconds of one flush, as the native writer counts them."""
    dataset = lance.write_dataset(SCHEMA.empty_table(), str(folder / f"native-{start}"), schema=SCHEMA)
    dataset.initialize_mem_wal()
    writer = dataset.mem_wal_writer(
        str(uuid.uuid4()), durable_write=True, max_wal_flush_interval_ms=1, max_memtable_rows=count
    )
    for part in parts(count, start, random=random):
        writer.put(part)
    writer.put(parts(PUTS, start + count)[0])
    while not writer.stats()["memtable_flush_count"]:
        time.sleep(0.01)
    taken = float(writer.stats()["memtable_flush_time_ms"])
    writer.close()
    return taken


def main() -> None:
    """Flush in turn and print a line for each side, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a MemTable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--random", action="store_true", help="keys in random order, and not ascending")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    taken: dict[str, list[float]] = {"engine": [], "native": []}
    with tempfile.TemporaryDirectory() as name:
        for number in range(chosen.rounds):
            start = number * chosen.rows * 2
            taken["engine"].append(engine(Path(name), chosen.rows, start, random=chosen.random))
            taken["native"].append(native(Path(name), chosen.rows, start, random=chosen.random))
    medians = {side: statistics.median(ms) for side, ms in taken.items()}
    result = {
        "rows": chosen.rows,
        "median_ms": medians,
        "rows_per_s": {side: chosen.rows / ms * 1000 for side, ms in medians.items() if ms},
        "engine_to_native": medians["engine"] / medians["native"] if medians["native"] else None,
    }
    if chosen.json:
        print(json.dumps(result))
        return
    for side, ms in medians.items():
        print(f"{side}: {ms:8.1f} ms for {chosen.rows:,} rows")
    print(f"engine/native {result['engine_to_native']:.2f}" if medians["native"] else "native: below a millisecond")


if __name__ == "__main__":
    main()
