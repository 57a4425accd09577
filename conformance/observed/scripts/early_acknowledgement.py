"""A durable put behind a full MemTable, while the put of its WAL entry stands still at the store. Needs pylance only.

Expected: the put is not acknowledged before its entry is stored.
"""

# ruff: noqa: T201
import os
import threading

import lance
import pyarrow as pa
from small_s3 import HOLD, served

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
URL = "s3://bucket/t"
OPTIONS = served()
ASKED, LET_GO, ENDED = threading.Event(), threading.Event(), threading.Event()


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"v{i}" for i in ids]], schema=SCHEMA)


def hold(verb: str, path: str) -> None:
    if verb == "PUT" and "/wal/" in path:
        ASKED.set()
        LET_GO.wait(20)


def put() -> None:
    writer.put(rows(2))
    ENDED.set()


print("pylance", lance.__version__)
lance.write_dataset(rows(), URL, schema=SCHEMA, storage_options=OPTIONS).initialize_mem_wal()
limits = {"max_memtable_batches": 1, "max_memtable_rows": 1}
writer = lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True, **limits)
writer.put(rows(1))
print("put of row 1: done")
HOLD.append(hold)
threading.Thread(target=put, daemon=True).start()
print("the entry of row 2 stands before the store:", ASKED.wait(10))
print("the put of row 2 is acknowledged meanwhile:", ENDED.wait(3))
os._exit(0)
