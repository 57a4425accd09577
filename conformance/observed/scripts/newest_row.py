"""A key is put twice, and read from the SSTable that close wrote. Needs pylance only. Expected: 'new'."""

# ruff: noqa: T201
import os
import tempfile

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(number: int, value: str) -> pa.Table:
    return pa.table([[number], [value]], schema=SCHEMA)


print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    lance.write_dataset(rows(9, "base"), url, schema=SCHEMA).initialize_mem_wal()
    with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True) as writer:
        writer.put(rows(1, "old"))
        writer.put(rows(1, "new"))
        print("with the writer:", sorted(writer.lsm_scanner().to_table()["v"].to_pylist()))
    (name,) = (folder for folder in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in folder)
    print("rows of the SSTable:", lance.dataset(f"{url}/_mem_wal/{SHARD}/{name}").to_table()["v"].to_pylist())
    snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
    add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
    scanner = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [add(1, name)])
    print("scan of the SSTable and the base:", sorted(scanner.to_table()["v"].to_pylist()))
