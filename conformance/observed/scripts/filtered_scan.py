"""A newer row of a key does not pass a filter; the older one, in the base table, would. Needs pylance only.

Expected: only the base row 2, which nothing replaced.
"""

# ruff: noqa: T201
import os
import tempfile

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])

print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    base = pa.table([[1, 2], ["base", "base"]], schema=SCHEMA)
    lance.write_dataset(base, url, schema=SCHEMA).initialize_mem_wal()
    with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True) as writer:
        writer.put(pa.table([[1], ["new"]], schema=SCHEMA))
    (name,) = (folder for folder in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in folder)
    snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
    add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
    for condition in (None, "v = 'base'"):
        scanner = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [add(1, name)])
        found = (scanner.filter(condition) if condition else scanner).to_table().select(["id", "v"]).to_pylist()
        print(condition or "no filter", "->", sorted((row["id"], row["v"]) for row in found))
