"""A writer puts a row after another has claimed its shard. If that succeeds, the row must stay. Needs pylance only."""

# ruff: noqa: T201
import os
import tempfile
from collections.abc import Callable

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(number: int) -> pa.Table:
    return pa.table([[number], ["x"]], schema=SCHEMA)


def attempt(what: str, act: Callable[[], object]) -> None:
    try:
        act()
        print(f"{what}: done")
    except OSError as error:
        print(f"{what}: {str(error).split(', /')[0]}")


print("pylance", lance.__version__)
with tempfile.TemporaryDirectory() as scratch:
    url = f"{scratch}/t"
    lance.write_dataset(rows(9), url, schema=SCHEMA).initialize_mem_wal()
    first = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    attempt("the first puts row 1", lambda: first.put(rows(1)))
    second = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    attempt("the first puts row 2", lambda: first.put(rows(2)))
    attempt("the second puts row 3", lambda: second.put(rows(3)))
    attempt("the first closes", first.close)
    attempt("the second closes", second.close)
    third = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    print("a third, recovered, sees:", sorted(third.lsm_scanner().to_table()["id"].to_pylist()))
    third.close()
    for name in os.listdir(f"{url}/_mem_wal/{SHARD}"):
        if "_gen_" in name:
            found = lance.dataset(f"{url}/_mem_wal/{SHARD}/{name}").to_table()["id"].to_pylist()
            print(f"rows of {name.partition('_')[2]}: {sorted(found)}")
