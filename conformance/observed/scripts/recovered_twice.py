"""A process puts row 1 and dies; a second recovers it, puts row 2, and dies; a third recovers both, and closes.

The table is append-only. Needs pylance only. Expected: an SSTable with the rows 1 and 2.
"""

# ruff: noqa: T201
import os
import subprocess
import sys
import tempfile

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table([list(numbers), ["x" for _ in numbers]], schema=SCHEMA)


if len(sys.argv) == 3:
    lance.dataset(sys.argv[1]).mem_wal_writer(SHARD, durable_write=True).put(rows(int(sys.argv[2])))
    os._exit(0)
print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    lance.write_dataset(rows(9), url, schema=SCHEMA).initialize_mem_wal()
    for number in ("1", "2"):
        subprocess.run([sys.executable, __file__, url, number], check=True)
        for name in sorted(os.listdir(f"{url}/_mem_wal/{SHARD}/wal"), key=lambda name: name[:64][::-1]):
            with pa.ipc.open_stream(f"{url}/_mem_wal/{SHARD}/wal/{name}") as stream:
                entry = stream.read_all()
            found = entry["id"].to_pylist() if entry.num_rows else []
            print(f"after put {number}: entry {int(name[:64][::-1], 2)} has", found)
    lance.dataset(url).mem_wal_writer(SHARD, durable_write=True).close()
    for name in os.listdir(f"{url}/_mem_wal/{SHARD}"):
        if "_gen_" in name:
            found = lance.dataset(f"{url}/_mem_wal/{SHARD}/{name}").to_table()["id"].to_pylist()
            print("rows of the SSTable:", sorted(found))
