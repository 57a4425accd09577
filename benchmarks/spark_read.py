"""Reading a table in Spark: the data source `memwal` against Parquet files of the same rows, in one run.

    python benchmarks/spark_read.py [--rows 4000000] [--rounds 5] [--key int|text] [--folder FOLDER] [--json]

The table has 8 regions; a tenth of its keys was written again, half of that lies in generations and half in WALs. The
Parquet files hold the merged rows. Every side hands all rows and columns to Spark's sink `noop`, in turns that rotate,
after one turn that is not counted. Reported are the medians of the CPU seconds of the process tree (this program, the
JVM and the Python workers), and the largest resident memory of a Python worker. The folder is kept if it is named, and
what is in it is read again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import memwal
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from memwal_spark import runtime
from process_tree import cpu_seconds, processes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REGIONS = 8
FRAGMENTS = 16
KEYS = {"int": pa.int64(), "text": pa.string()}


def rows(numbers: np.ndarray, key: str, sequence: int) -> pa.Table:
    """Rows of the keys ``numbers``."""
    keys = pa.array(numbers) if key == "int" else pa.array([f"key-{number:012d}" for number in numbers])
    values = np.random.default_rng(sequence).random(len(numbers))
    texts = pa.array([f"text of {number % 1000}" for number in numbers.tolist()])
    return pa.table(
        {"id": keys, "seq": pa.array(np.full(len(numbers), sequence)), "value": pa.array(values), "text": texts}
    )


def made(folder: Path, count: int, key: str) -> Path:
    """The table, and the Parquet files of its rows beside it; made if they are not there."""
    place = folder / f"{key}-{count}"
    if (place / "parquet").exists():
        return place
    kinds = {"id": KEYS[key], "seq": pa.int64(), "value": pa.float64(), "text": pa.string()}
    spec = memwal.bucket("b", "id", REGIONS)
    table = memwal.create(place / "table", pa.schema(list(kinds.items())), primary_key=["id"], spec=spec)
    draw = np.random.default_rng(0)
    for part in np.array_split(draw.permutation(count), FRAGMENTS):
        table.base.append(rows(part, key, 0))
    again = rows(draw.choice(count, count // 10, replace=False), key, 1)
    buckets = table.region_values(again).column("b").to_numpy()
    for bucket in range(REGIONS):
        mine = again.filter(pa.array(buckets == bucket))
        with table.writer(values={"b": bucket}, background=False) as writer:
            half = mine.num_rows // 2
            writer.put(mine.slice(0, half))
            writer.flush()
            for part in range(5):
                writer.put(mine.slice(half + part * (half // 5), half // 5))
    (place / "partial").mkdir()
    for number, split in enumerate(table.plan_read(splits=REGIONS)):
        with pq.ParquetWriter(place / "partial" / f"{number}.parquet", table.schema.remove_metadata()) as writer:
            for batch in table.batches_of(split):
                writer.write_table(batch)
    (place / "partial").rename(place / "parquet")
    return place


def worker_peak_bytes() -> int:
    """The largest resident memory that a Python worker has had."""
    peak = 0
    for number, _ in processes(os.getpid()):
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes()
            status = Path(f"/proc/{number}/status").read_text()
        except OSError:
            continue
        if b"pyspark" in command and b"java" not in command.partition(b"\0")[0] and number != os.getpid():
            high = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0 kB")
            peak = max(peak, int(high.split()[1]) * 1024)
    return peak


def sides(spark: SparkSession, place: Path) -> dict[str, Callable[[], DataFrame]]:
    """Name -> what is read."""
    table, files = str(place / "table"), str(place / "parquet")
    return {
        "parquet": lambda: spark.read.parquet(files),
        "memwal, 1 partition": lambda: spark.read.format("memwal").option("numPartitions", 1).load(table),
        "memwal, 8 partitions": lambda: spark.read.format("memwal").option("numPartitions", 8).load(table),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--key", choices=sorted(KEYS), default="int")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = made(arguments.folder or Path(scratch), arguments.rows, arguments.key)
        one = {"spark.sql.files.maxPartitionBytes": "100g", "spark.sql.files.openCostInBytes": "0"}
        one |= {"spark.sql.files.minPartitionNum": "1"}
        with runtime.running("spark_read", conf=one) as spark:
            report(spark, place, arguments)


def report(spark: SparkSession, place: Path, arguments: argparse.Namespace) -> None:
    """Run all sides and print what they took."""
    asked = sides(spark, place)
    taken: dict[str, list[float]] = {name: [] for name in asked}
    partitions = {name: read().rdd.getNumPartitions() for name, read in asked.items()}
    names, peak = list(asked), 0
    for turn in range(arguments.rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            before = cpu_seconds()
            asked[name]().write.format("noop").mode("overwrite").save()
            if turn:
                taken[name].append(cpu_seconds() - before)
            peak = max(peak, worker_peak_bytes())
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    found = {
        "rows": arguments.rows,
        "key": arguments.key,
        "partitions": partitions,
        "CPU seconds": {name: round(seconds, 2) for name, seconds in medians.items()},
        "all turns": {name: [round(each, 2) for each in seconds] for name, seconds in taken.items()},
        "parquet by memwal, 1 partition": round(medians["parquet"] / medians["memwal, 1 partition"], 2),
        "8 partitions by 1": round(medians["memwal, 8 partitions"] / medians["memwal, 1 partition"], 2),
        "peak of a worker, MiB": peak >> 20,
    }
    print(json.dumps(found, indent=1 if arguments.json else None))


if __name__ == "__main__":
    main()
