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
from sstables import SCHEMA, SHARD, rows, scanned

SECONDS = 60


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
