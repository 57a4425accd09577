"""A put fills the MemTable, and the writer is scanned at once. Needs pylance only.

The base table has ("old") what the put replaces. Expected each time: 'new', since the put was acknowledged and the
scan takes part in the writer's memory.
"""

# ruff: noqa: T201
import tempfile
from collections import Counter

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(value: str) -> pa.Table:
    return pa.table([[1], [value]], schema=SCHEMA)


def seen(writer: lance.mem_wal.ShardWriter) -> str:
    try:
        return str(writer.lsm_scanner().to_table()["v"].to_pylist())
    except OSError as error:
        return str(error).split(", /")[0].partition(": ")[0] + " …" + str(error).split(", /")[-2].rpartition("_gen_")[2]


print("pylance", lance.__version__)
found: Counter[str] = Counter()
for _ in range(20):
    with tempfile.TemporaryDirectory() as scratch:
        url = f"{scratch}/t"
        lance.write_dataset(rows("old"), url, schema=SCHEMA).initialize_mem_wal()
        with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True, max_memtable_batches=1) as writer:
            writer.put(rows("new"))
            found[seen(writer)] += 1
        with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True) as writer:
            found["reopened: " + seen(writer)] += 1
for what, times in sorted(found.items()):
    print(f"{what}: {times} of 20")
