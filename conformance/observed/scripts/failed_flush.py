"""The store refuses the SSTable of a full MemTable, and takes the next one; then a crash. Needs pylance only.

    python failed_flush.py          # then a crash
    python failed_flush.py close    # all SSTables are refused, and the writer is closed

Both puts were acknowledged. Expected: a second writer finds rows 1 and 2; a close that could not flush says so.
"""

# ruff: noqa: T201
import re
import sys
import time
from collections.abc import Callable

import lance
import pyarrow as pa
from small_s3 import OBJECTS, REFUSE, REFUSED, served

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
URL = "s3://bucket/t"
OPTIONS = served()


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"v{i}" for i in ids]], schema=SCHEMA)


def listed() -> list[str]:
    newest = max((k for k in OBJECTS if k.endswith(".binpb")), key=lambda k: k.rpartition("/")[2][:64][::-1])
    return sorted(name.decode()[8:] for name in re.findall(rb"[0-9a-f]{8}_gen_[0-9]+", OBJECTS[newest]))


def wait(until: Callable[[], object]) -> None:
    limit = time.monotonic() + 10
    while not until() and time.monotonic() < limit:
        time.sleep(0.01)


print("pylance", lance.__version__)
lance.write_dataset(rows(), URL, schema=SCHEMA, storage_options=OPTIONS).initialize_mem_wal()
closing = sys.argv[1:] == ["close"]
limits = {"max_memtable_batches": 1, "max_memtable_rows": 1}
first = lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True, **limits)
REFUSE.append(r".*_gen_\d+/.*" if closing else r".*_gen_1/.*")
first.put(rows(1))
print("put of row 1: done")
wait(lambda: REFUSED)
if closing:
    try:
        first.close()
        print(f"close: done, and the SSTables that the shard manifest lists are {listed()}")
    except OSError as error:
        print(f"close: {str(error).split(', /')[0][:60]} …")
    sys.exit()
time.sleep(0.5)
REFUSE.clear()
first.put(rows(2))
print("put of row 2: done")
wait(listed)
time.sleep(0.5)
CRASHED = dict(OBJECTS)
print(f"the SSTables that the shard manifest lists: {listed()}")
first.close()
OBJECTS.clear()
OBJECTS.update(CRASHED)
second = lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True)
print("a second writer, after a crash, finds rows", sorted(second.lsm_scanner().to_table()["id"].to_pylist()))
