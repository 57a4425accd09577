"""What it costs to compare rows with what is stored: the same upserts with a sequence column and without, side by side.

``python benchmarks/late_rows.py --stored 4000000 --upserts 1000000 [--key text] [--again 1]`` writes a table of 8
buckets, all of it merged, and then the same random upserts into copies of it, in turns; prints CPU seconds of all
threads. The sequences of the upserts are higher than all stored ones, but for the first ``--again`` rows of each
bucket, which are stored rows, as if a job that failed was begun again: then the stored keys have to be read.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import memwal
import numpy as np
import pyarrow as pa

BUCKETS = 8
KEYS = {"int": pa.int64(), "text": pa.string()}


def rows(ids: np.ndarray, first: int, key: str = "int") -> pa.Table:
    """Rows of the keys ``ids`` whose sequences count from ``first``."""
    schema = pa.schema(
        [
            pa.field("id", KEYS[key], nullable=False),
            pa.field("seq", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("value", pa.float64()),
        ]
    )
    names = pa.array(ids).cast(pa.string())
    sequence = np.arange(first, first + len(ids))
    return pa.table([names if key == "text" else pa.array(ids), sequence, names, ids / 7], schema=schema)


def shares(table: memwal.Table, found: pa.Table) -> list[pa.Table]:
    """The rows of each bucket."""
    buckets = table.region_values(found)["b"].to_numpy()
    return [found.filter(pa.array(buckets == bucket)) for bucket in range(BUCKETS)]


def write(table: memwal.Table, parts: list[pa.Table], put_rows: int, **options: str) -> float:
    """Put each bucket's rows, ``put_rows`` at a time, and flush; returns CPU seconds."""
    started = time.process_time()
    for bucket, part in enumerate(parts):
        with table.writer(values={"b": bucket}, **options) as writer:  # type: ignore[arg-type]
            for at in range(0, part.num_rows, put_rows):
                writer.put(part.slice(at, put_rows))
            writer.flush()
    return time.process_time() - started


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stored", type=int, default=4_000_000)
    parser.add_argument("--upserts", type=int, default=1_000_000)
    parser.add_argument("--put-rows", type=int, default=10_000)
    parser.add_argument("--again", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--key", choices=sorted(KEYS), default="int")
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored = rows(rng.permutation(chosen.stored), 0, chosen.key)
        table = memwal.create(folder / "t", stored.schema, primary_key=["id"], spec=memwal.bucket("b", "id", BUCKETS))
        write(table, shares(table, stored), 250_000)
        table.merge()
        upserts = shares(table, rows(rng.integers(0, chosen.stored, chosen.upserts), chosen.stored, chosen.key))
        again = shares(table, stored.slice(0, 16 * BUCKETS * chosen.again))
        upserts = [pa.concat_tables([old.slice(0, chosen.again), new]) for old, new in zip(again, upserts, strict=True)]
        spent: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(chosen.rounds):
            for kind, found in spent.items():
                shutil.copytree(folder / "t", folder / kind)
                options = {"sequence_by": "seq"} if kind == "with" else {}
                found.append(write(memwal.open(folder / kind), upserts, chosen.put_rows, **options))
                shutil.rmtree(folder / kind)
    for kind, found in spent.items():
        print(
            f"{kind:8} {chosen.upserts / min(found):12,.0f} rows per CPU second; {[round(each, 2) for each in found]}"
        )
    print(f"a write with the comparison is {min(spent['without']) / min(spent['with']):.2f} of one without")


if __name__ == "__main__":
    main()
