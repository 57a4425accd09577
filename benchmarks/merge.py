"""Merging a flushed generation: `Table.merge` of the engine beside pylance's `merge_insert`, in one run.

    python benchmarks/merge.py [--base-rows 10000000] [--rows 1000000] [--rounds 5] [--key int|text] [--json]

Both sides merge the same generation, read from the same files, into equal copies of the same base table on a local
directory. Half of the rows update, half insert, in random order. Each merge runs in a process of its own, the two sides
in turn and in alternating order, so that load on the machine meets both. Reported: seconds of the merge alone (imports
and the copy before it are not counted), rows merged per second, the median over the rounds of the ratio of each round,
and the peak resident memory of each process. That both results are equal is checked in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance.file
import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIDES = ("engine", "native")
BATCH_ROWS = 1 << 20
KEY = {"lance-schema:unenforced-primary-key": "true"}


def schema(kind: str) -> pa.Schema:
    """A key and three columns: an integer, a float and a text."""
    key = pa.field("id", pa.int64() if kind == "int" else pa.string(), nullable=False, metadata=KEY)
    return pa.schema(
        [key, pa.field("count", pa.int64()), pa.field("value", pa.float64()), pa.field("name", pa.string())]
    )


def rows(numbers: np.ndarray, kind: str, seed: int) -> pa.Table:
    """One row for each number, which is its key; the other columns are random."""
    random = np.random.default_rng(seed)
    ids = pa.array(numbers)
    key = ids if kind == "int" else pc.binary_join_element_wise("customer", ids.cast(pa.string()), "-")
    names = pa.array([f"name-{n}" for n in range(1000)]).take(pa.array(random.integers(0, 1000, len(numbers))))
    counts, values = random.integers(0, 1 << 40, len(numbers)), random.random(len(numbers))
    return pa.table([key, counts, values, names], schema=schema(kind))


def prepare(folder: Path, base_rows: int, count: int, kind: str) -> None:
    """A base table of ``base_rows`` rows, with one flushed generation of ``count`` rows that is not merged."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, base_rows, BATCH_ROWS):
            numbers = np.arange(start, min(base_rows, start + BATCH_ROWS))
            yield from rows(numbers, kind, start).to_batches()

    reader = pa.RecordBatchReader.from_batches(schema(kind), batches())
    lance.write_dataset(reader, str(folder), max_rows_per_file=BATCH_ROWS)
    random = np.random.default_rng(1)
    updates = random.choice(base_rows, min(base_rows, count // 2), replace=False)
    numbers = np.concatenate([updates, np.arange(base_rows, base_rows + count - len(updates))])
    random.shuffle(numbers)
    table = memwal.enable(folder, revision="R")
    with table.writer(memtable_rows=1 << 62) as writer:
        writer.put(rows(numbers, kind, 2))
        writer.flush()


def copied(source: Path, target: Path) -> None:
    """A copy whose files are links: files of a table are never changed, only added and removed."""
    shutil.copytree(source, target, copy_function=os.link)


def merge(side: str, folder: Path) -> dict[str, Any]:
    """Merge in this process; what it took, and the sums by which results are compared."""
    open_table = memwal.open  # imports the engine
    start = time.perf_counter()
    if side == "engine":
        open_table(folder).merge()
    else:
        (generation,) = folder.glob("_mem_wal/*/*_gen_1")
        base = lance.dataset(str(folder))
        names = [field.name for field in base.schema]
        source = lance.dataset(str(generation)).scanner(columns=names).to_reader()
        upsert = base.merge_insert(names[0]).when_matched_update_all().when_not_matched_insert_all()
        upsert.execute(source)
    seconds = time.perf_counter() - start
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = lance.dataset(str(folder)).to_table(columns=["count", "value"])
    sums = [result.num_rows, pc.sum(result["count"]).as_py(), round(pc.sum(result["value"]).as_py(), 3)]
    return {"seconds": seconds, "peak_mib": peak_kib / 1024, "sums": sums}


def measure(base_rows: int, count: int, rounds: int, kind: str) -> dict[str, Any]:
    """All rounds; raises RuntimeError if the two sides ever differ."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    peaks: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="memwal-merge-") as name:
        prepare(Path(name, "base"), base_rows, count, kind)
        for number in range(rounds):
            sums = {}
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                folder = Path(name, side)
                copied(Path(name, "base"), folder)
                command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
                done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
                shutil.rmtree(folder)
                seconds[side].append(done["seconds"])
                peaks[side].append(done["peak_mib"])
                sums[side] = done["sums"]
            if sums["engine"] != sums["native"]:
                raise RuntimeError(f"the results differ: {sums}")
    ratios = [ours / theirs for ours, theirs in zip(seconds["engine"], seconds["native"], strict=True)]
    sides = {
        side: {
            "seconds": [round(value, 3) for value in seconds[side]],
            "rows_per_second": round(count / statistics.median(seconds[side])),
            "peak_mib": round(statistics.median(peaks[side])),
        }
        for side in SIDES
    }
    return {
        "base_rows": base_rows,
        "rows": count,
        "key": kind,
        **sides,
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio_median": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Measure and print a line per side, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-rows", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the generation, half of them updates")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--key", choices=["int", "text"], default="int")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.side:
        print(json.dumps(merge(chosen.side, chosen.folder)))
        return
    found = measure(chosen.base_rows, chosen.rows, chosen.rounds, chosen.key)
    if chosen.json:
        print(json.dumps(found))
        return
    print(f"{found['rows']:,} rows into {found['base_rows']:,}, {found['key']} key, {chosen.rounds} rounds")
    for side in SIDES:
        one = found[side]
        speed = f"{statistics.median(one['seconds']):.2f} s, {one['rows_per_second']:,} rows/s"
        print(f"{side:>7}: {speed}, peak {one['peak_mib']:,} MiB")
    print(f"  ratio: {found['ratio_median']:.2f} (median of {found['ratios']})")


if __name__ == "__main__":
    main()
