"""A writer puts a row where its successor has put one already: the put must end, in an error. Needs pylance only."""

# ruff: noqa: T201
import os
import sys
import tempfile
import threading

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
LIMIT_S = 20


def rows(number: int) -> pa.Table:
    return pa.table([[number], ["x"]], schema=SCHEMA)


def put() -> None:
    try:
        first.put(rows(3))
        print("the first puts row 3: done")
    except OSError as error:
        print("the first puts row 3:", str(error).split(", /")[0])


print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    lance.write_dataset(rows(9), url, schema=SCHEMA).initialize_mem_wal()
    first = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    first.put(rows(1))
    second = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    second.put(rows(2))
    waiting = threading.Thread(target=put, daemon=True)
    waiting.start()
    waiting.join(LIMIT_S)
    if waiting.is_alive():
        print(f"the first puts row 3: no answer in {LIMIT_S} s")
    second.close()
    third = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    print("a third, recovered, sees:", sorted(third.lsm_scanner().to_table()["id"].to_pylist()))
sys.stdout.flush()
os._exit(0)  # a put that never returns keeps the interpreter
