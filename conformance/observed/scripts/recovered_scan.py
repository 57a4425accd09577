"""A process puts two rows and dies; another recovers them, and closes. Its SSTable is scanned. Needs pylance only.

Expected: the rows 1, 2 and the base row 9.
"""

# ruff: noqa: T201
import os
import subprocess
import sys
import tempfile

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table([list(numbers), ["x" for _ in numbers]], schema=SCHEMA)


if len(sys.argv) == 2:
    lance.dataset(sys.argv[1]).mem_wal_writer(SHARD, durable_write=True).put(rows(1, 2))
    os._exit(0)
print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    lance.write_dataset(rows(1, 9), url, schema=SCHEMA).initialize_mem_wal()
    subprocess.run([sys.executable, __file__, url], check=True)
    lance.dataset(url).mem_wal_writer(SHARD, durable_write=True).close()
    (name,) = (folder for folder in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in folder)
    print("rows of the SSTable:", lance.dataset(f"{url}/_mem_wal/{SHARD}/{name}").to_table()["id"].to_pylist())
    snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
    add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
    scanner = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [add(1, name)])
    try:
        print("scan:", sorted(scanner.to_table()["id"].to_pylist()))
    except OSError as error:
        print("scan:", str(error).split(", /")[0])
