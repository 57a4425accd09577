"""A claim is overtaken by another between its manifest and its barrier: what the WAL has then. Needs pylance only.

The first request of the second writer that looks for the end of the WAL is held until the third has claimed the shard
and put a row. Prints the puts, the epoch and the rows of each WAL entry, and what a fourth writer sees.
"""

# ruff: noqa: T201
import re
import threading
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
from small_s3 import HOLD, OBJECTS, served

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
OPTIONS = served()
URL = "s3://bucket/t"
HELD, RELEASED = threading.Event(), threading.Event()


def hold(_: str, path: str) -> None:
    if "wal" in path.partition("_mem_wal")[2] and not HELD.is_set():
        HELD.set()
        RELEASED.wait(60)


def rows(number: int) -> pa.Table:
    return pa.table([[number], ["x"]], schema=SCHEMA)


def attempt(what: str, act: Callable[[], object]) -> None:
    try:
        act()
        print(f"{what}: done")
    except OSError as error:
        print(f"{what}: {str(error).split(', /')[0]}")


def another() -> Any:
    return lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True)


print("pylance", lance.__version__)
lance.write_dataset(rows(9), URL, schema=SCHEMA, storage_options=OPTIONS).initialize_mem_wal()
first = another()
attempt("the first puts row 1", lambda: first.put(rows(1)))
HOLD.append(hold)
claim = threading.Thread(target=attempt, args=("the second's claim", another))
claim.start()
HELD.wait(60)
print("the second has its manifest, and is held before it looks for the end of the WAL")
third = another()
attempt("the third puts row 2", lambda: third.put(rows(2)))
print("the second is let go on")
RELEASED.set()
claim.join()
attempt("the third puts row 3", lambda: third.put(rows(3)))
entries = {
    int(found[1][::-1], 2): pa.ipc.open_stream(data).read_all()
    for key, data in OBJECTS.items()
    if (found := re.search(r"/wal/([01]{64})\.arrow", key))
}
for position, entry in sorted(entries.items()):
    print(f"WAL entry {position}: epoch {entry.schema.metadata[b'writer_epoch'].decode()}, {entry.num_rows} rows")
fourth = another()
print("a fourth, recovered, sees:", sorted(fourth.lsm_scanner().to_table()["id"].to_pylist()))
attempt("the fourth closes", fourth.close)
for name in sorted({k.partition("/_versions/")[0] for k in OBJECTS if "_gen_" in k and "/_versions/" in k}):
    found_rows = lance.dataset(f"s3://bucket/{name}", storage_options=OPTIONS).to_table()["id"].to_pylist()
    print(f"SSTable {name.rpartition('/')[2]} has the rows {sorted(found_rows)}")
