"""What a stream leaves behind in a day: fragments and versions, against an append to a plain Lance table per trigger.

``python benchmarks/stream_fragments.py --triggers 2000 --regions 2`` lets the tasks of the streaming sink write so many
batches, merges and collects now and then, appends the same batches to a plain table, and counts. What is said of a day
of 8,640 triggers, one every 10 seconds, is computed from these counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import lance
import memwal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from memwal.codec.marks import Mark
from memwal_spark import write
from memwal_spark.options import FLUSH_ENTRIES, for_writing_streams
from memwal_spark.write import RegionTask

DAY = 8640
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
    ]
)


def batches(count: int, rows: int, keys: int) -> list[pa.Table]:
    """``rows`` upserts of ``keys`` keys for each trigger, with sequences that count on."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, keys, (count, rows))
    names = [pa.array(each).cast(pa.string()) for each in ids]
    return [pa.table([ids[n], np.arange(n * rows, (n + 1) * rows), names[n]], schema=SCHEMA) for n in range(count)]


def ours(path: Path, given: list[pa.Table], regions: int, merge_every: int, flush_every: int) -> dict[str, float]:
    """What the sink's tasks leave, merged and collected every so many triggers."""
    spec = memwal.bucket("b", "id", regions)
    table = memwal.create(path, SCHEMA, primary_key=["id"], spec=spec, wal_collection=True)
    options = for_writing_streams({"path": str(path), "sequenceBy": "seq", "flushEveryEntries": str(flush_every)})
    spent: list[float] = []
    generations = 0
    for number, rows in enumerate(given):
        started = time.process_time()
        buckets = table.region_values(rows)["b"]
        for bucket in range(regions):
            mark = Mark(application="query", batch=number, partitions=(bucket,))
            share = rows.filter(pc.equal(buckets, bucket))
            generations += RegionTask(options).write(memwal.open(path), share, mark).generations
        spent.append(time.process_time() - started)
        if number % merge_every == merge_every - 1 or number == len(given) - 1:
            table.merge()
            # What is counted is what was made: the collector takes older versions away, and WAL entries.
            entries, versions = sum(table.log_ends().values()), int(table.version)
            table.gc(retain_versions=5)
            # A day takes long: what is known of it is there when it is ended.
            fragments = len(lance.dataset(str(path)).get_fragments())
            print(f"{number + 1} triggers: {fragments} fragments, {versions} versions", file=sys.stderr, flush=True)
    stored = sum(each.is_file() for each in path.rglob("*"))
    table.refresh()
    return {
        "fragments": len(lance.dataset(str(path)).get_fragments()),
        "versions": versions,
        "generations": generations,
        "WAL entries": entries,
        "files that are left": stored,
        "CPU seconds of a trigger": sum(spent) / len(spent),
    }


def plain(path: Path, given: list[pa.Table]) -> dict[str, float]:
    """What an append per trigger leaves."""
    started = time.process_time()
    for rows in given:
        lance.write_dataset(rows, str(path), mode="append" if path.exists() else "create")
    table = lance.dataset(str(path))
    return {
        "fragments": len(table.get_fragments()),
        "versions": table.version,
        "files that are left": sum(each.is_file() for each in path.rglob("*")),
        "CPU seconds of a trigger": (time.process_time() - started) / len(given),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--triggers", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=200, help="of a trigger")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--regions", type=int, default=2)
    parser.add_argument("--merge-every", type=int, default=360, help="triggers; 360 are an hour")
    parser.add_argument("--flush-every", type=int, default=FLUSH_ENTRIES, help="flushEveryEntries of the sink")
    chosen = parser.parse_args()
    # The tasks of the sink ask Spark who they are; here they are nobody in particular.
    task = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 0)
    write.context = lambda: task  # type: ignore[assignment, return-value]
    given = batches(chosen.triggers, chosen.rows, chosen.keys)
    with tempfile.TemporaryDirectory() as name:
        found = {
            "plain append": plain(Path(name) / "plain", given),
            "memwal": ours(Path(name) / "memwal", given, chosen.regions, chosen.merge_every, chosen.flush_every),
        }
    for kind, counts in found.items():
        print(f"{kind:14}", ", ".join(f"{name} {round(value, 3):,}" for name, value in counts.items()))
    for what in ("fragments", "versions"):
        a_day = {kind: counts[what] / chosen.triggers * DAY for kind, counts in found.items()}
        mine, theirs = a_day["memwal"], a_day["plain append"]
        ratio = f", 1/{theirs / mine:.0f}" if mine else ""
        print(f"{what} a day: {mine:,.0f} against {theirs:,.0f}{ratio}")


if __name__ == "__main__":
    main()
