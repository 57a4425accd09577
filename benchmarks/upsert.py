"""Write, flush and merge: upserts through the engine beside pylance's `merge_insert` of the same rows, in one run.

    python benchmarks/upsert.py [--stored 4000000] [--upserts 1000000] [--put-rows 10000] [--rounds 3] [--json]

Both sides get the same upserts, each key once, half of them of stored rows, and copies of the same base table. The
engine puts them durably, flushes, and merges the generation; pylance merges them at once, without a log. Reported are
CPU seconds of all threads, in turns: of pylance by those of the engine to durable, and to merged. That both results are
equal is checked in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("seq", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("value", pa.float64()),
    ]
)


def rows(ids: np.ndarray, first: int) -> pa.Table:
    """Rows of ``ids`` whose sequences count from ``first``."""
    names = pa.array(ids).cast(pa.string())
    return pa.table([ids, np.arange(first, first + len(ids)), names, ids / 7], schema=SCHEMA)


def engine(folder: Path, upserts: pa.Table, put_rows: int) -> tuple[float, float]:
    """CPU seconds to durable, and to merged."""
    table = memwal.open(folder)
    started = time.process_time()
    with table.writer(memtable_rows=1 << 62) as writer:
        for at in range(0, upserts.num_rows, put_rows):
            writer.put(upserts.slice(at, put_rows))
        durable = time.process_time() - started
        writer.flush()
    table.merge()
    return durable, time.process_time() - started


def native(folder: Path, upserts: pa.Table) -> float:
    """CPU seconds of one merge."""
    started = time.process_time()
    base = lance.dataset(str(folder))
    base.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(upserts)
    return time.process_time() - started


def sums(folder: Path) -> list[int]:
    """By what two results are compared."""
    found = lance.dataset(str(folder)).to_table(columns=["id", "seq"])
    return [found.num_rows, pc.sum(found["id"]).as_py(), pc.sum(found["seq"]).as_py()]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=4_000_000)
    parser.add_argument("--upserts", type=int, default=1_000_000)
    parser.add_argument("--put-rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    draw = np.random.default_rng(0)
    half = chosen.upserts // 2
    old = draw.choice(chosen.stored, half, replace=False)
    ids = draw.permutation(np.concatenate([old, np.arange(chosen.stored, chosen.stored + chosen.upserts - half)]))
    upserts = rows(ids, chosen.stored)
    taken: dict[str, list[float]] = {"durable": [], "merged": [], "pylance": []}
    with tempfile.TemporaryDirectory(prefix="memwal-upsert-") as name:
        base = Path(name, "base")
        lance.write_dataset(rows(draw.permutation(chosen.stored), 0), str(base), max_rows_per_file=1 << 20)
        memwal.enable(base, revision="R")
        for number in range(chosen.rounds):
            results = []
            for side in ("engine", "native") if number % 2 == 0 else ("native", "engine"):
                folder = Path(name, side)
                shutil.copytree(base, folder, copy_function=os.link)
                if side == "native":
                    taken["pylance"].append(native(folder, upserts))
                else:
                    durable, merged = engine(folder, upserts, chosen.put_rows)
                    taken["durable"].append(durable)
                    taken["merged"].append(merged)
                results.append(sums(folder))
                shutil.rmtree(folder)
            if results[0] != results[1]:
                raise RuntimeError(f"the results differ: {results}")
    ratios = {
        kind: round(
            statistics.median(theirs / ours for ours, theirs in zip(taken[kind], taken["pylance"], strict=True)), 2
        )
        for kind in ("durable", "merged")
    }
    seconds = {kind: [round(each, 2) for each in found] for kind, found in taken.items()}
    if chosen.json:
        print(json.dumps({"cpu_seconds": seconds, "pylance_by_engine": ratios}))
        return
    for kind, found in taken.items():
        rate = chosen.upserts / statistics.median(found)
        print(f"{kind:8} {rate:12,.0f} rows per CPU second; {seconds[kind]}")
    print(f"rows per CPU second by pylance's: to durable {ratios['durable']:.2f}, to merged {ratios['merged']:.2f}")


if __name__ == "__main__":
    main()
