"""Durable put on a local directory, beside a bare encode-and-create of the same bytes, in one run.

    python benchmarks/durable_put.py [--puts 2000] [--json]

Both sides write the same rows into the same file system, interleaved, so that load on the machine meets both. The bare
side encodes a WAL entry as pyarrow does by itself and creates a file exclusively; it validates, fences and acknowledges
nothing. Reported: median and 99th percentile in microseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import memwal
import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(count: int, start: int) -> pa.Table:
    """``count`` rows with fresh ids from ``start`` on."""
    return pa.table([pa.array(range(start, start + count)), pa.array(["x" * 20] * count)], schema=SCHEMA)


def bare(folder: Path, number: int, table: pa.Table) -> None:
    """Encode ``table`` with the same metadata and create a file that must not exist."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({b"writer_epoch": b"1"})) as writer:
        writer.write_table(table)
    file = os.open(folder / f"{number:064b}.arrow", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(file, sink.getvalue())
    os.close(file)


def measure(puts: int, count: int, revision: str) -> dict[str, float]:
    """Latencies in microseconds of ``puts`` puts of ``count`` rows, engine and bare in turn."""
    engine_us, bare_us = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bare").mkdir()
        table = memwal.create(folder / "t", SCHEMA, primary_key=["id"], revision=revision)
        with table.writer(memtable_rows=1 << 62) as writer:
            for number in range(puts):
                batch = rows(count, number * count)
                start = time.perf_counter_ns()
                writer.put(batch)
                middle = time.perf_counter_ns()
                bare(folder / "bare", number, batch)
                end = time.perf_counter_ns()
                engine_us.append((middle - start) / 1000)
                bare_us.append((end - middle) / 1000)
    return {
        "rows": count,
        "engine_median_us": statistics.median(engine_us),
        "engine_p99_us": statistics.quantiles(engine_us, n=100)[98],
        "bare_median_us": statistics.median(bare_us),
        "bare_p99_us": statistics.quantiles(bare_us, n=100)[98],
        "ratio_of_medians": statistics.median(engine_us) / statistics.median(bare_us),
    }


def main() -> None:
    """Measure 1, 100 and 10,000 rows a put and print a line each, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--puts", type=int, default=2000, help="puts per size (a tenth of them at 10,000 rows)")
    parser.add_argument("--revision", choices=["A", "B", "R"], default="B")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    results = [
        measure(chosen.puts if count < 10_000 else max(100, chosen.puts // 10), count, chosen.revision)
        for count in (1, 100, 10_000)
    ]
    if chosen.json:
        print(json.dumps(results))
        return
    for result in results:
        engine = f"engine {result['engine_median_us']:7.0f} us (p99 {result['engine_p99_us']:.0f})"
        alone = f"bare {result['bare_median_us']:7.0f} us (p99 {result['bare_p99_us']:.0f})"
        print(f"{result['rows']:>6} rows: {engine}, {alone}, ratio {result['ratio_of_medians']:.2f}")


if __name__ == "__main__":
    main()
