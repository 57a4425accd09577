"""A writer fills two MemTables and is closed; a second one, with the same limits, is opened and closed; 40 times.

Needs pylance only. Prints what a scan of the SSTables and the base table finds then. Expected: each row as it was put
last, 40 times; what the replay of a full MemTable leaves must be readable.
"""

# ruff: noqa: T201
import tempfile
import time
from collections import Counter

import lance
import pyarrow as pa
from sstables import SCHEMA, SHARD, rows, scanned

SETTINGS = {"durable_write": True, "max_memtable_rows": 6, "max_wal_flush_interval_ms": 1}

print("pylance", lance.__version__)
seen: Counter[str] = Counter()
for _ in range(40):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        url = f"{scratch}/t"
        lance.write_dataset(rows("base", 9), url, schema=SCHEMA).initialize_mem_wal()
        with lance.dataset(url).mem_wal_writer(SHARD, **SETTINGS) as writer:
            writer.put(rows("old", 1, 1, 2))
            writer.put(pa.Table.from_batches([*rows("old", 1, 2, 2).to_batches(), *rows("new", 1, 2, 1).to_batches()]))
            until = time.monotonic() + 5
            while writer.memtable_stats().get("frozen_count") and time.monotonic() < until:
                time.sleep(0.005)
        lance.dataset(url).mem_wal_writer(SHARD, **SETTINGS).close()
        seen[scanned(url)] += 1
for what, times in sorted(seen.items()):
    print(f"{what}: {times} of 40")
