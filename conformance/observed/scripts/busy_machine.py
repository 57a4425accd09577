"""A put fills a MemTable on a busy machine, and the writer is closed: 60 s with one put to a MemTable, 60 s with two.

Needs pylance only. Prints what a scan of the SSTable and the base table finds then. Expected: each row as it was put
last, in every table. With idle cores anything else is rare.
"""

# ruff: noqa: T201
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
SECONDS = 60


def rows(value: str, *ids: int) -> pa.Table:
    return pa.table([list(ids), [value for _ in ids]], schema=SCHEMA)


def scanned(url: str) -> str:
    names = [name for name in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in name]
    snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(len(names) + 1)
    for name in names:
        add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
        snapshot = add(int(name.rpartition("_")[2]), name)
    try:
        found = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [snapshot]).to_table()
    except OSError as error:
        text = str(error).split(", /")[0]
        return text.partition("/")[0] + "…" + text.partition("_gen_")[2] if "_gen_" in text else text
    return str(sorted((row["id"], row["v"]) for row in found.select(["id", "v"]).to_pylist()))


@contextlib.contextmanager
def other_work() -> Iterator[None]:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


print("pylance", lance.__version__)
for puts in (1, 2):
    seen: Counter[str] = Counter()
    limits = {"max_memtable_rows": 2 * puts, "max_memtable_batches": puts}
    with other_work():
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                url = f"{scratch}/t"
                ids = range(1, 1 + 2 * puts)
                lance.write_dataset(rows("old", *ids), url, schema=SCHEMA).initialize_mem_wal()
                with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True, **limits) as writer:
                    for put in range(puts):
                        writer.put(rows("new", *ids[2 * put : 2 * put + 2]))
                seen[scanned(url)] += 1
    for what, times in sorted(seen.items()):
        print(f"puts that fill the MemTable {puts}: {what}: {times} of {seen.total()}")
