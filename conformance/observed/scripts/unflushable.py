"""A put is acknowledged whose rows no SSTable can hold; then the writer is closed. Needs pylance only.

The rows: nothing but nulls in a dictionary column; a null struct, in a table of file version 2.0. Expected: the put is
refused, or the flush succeeds; `close` at least says that it failed. Then a second writer puts a row with nothing
special about it, and is closed.
"""

# ruff: noqa: T201
import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
STRUCT = pa.struct([("a", pa.int32())])
DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def attempt(what: str, act: Callable[[], object]) -> None:
    try:
        found = act()
        print(f"  {what}: {'done' if found is None else found}")
    except OSError as error:
        print(f"  {what}: {str(error).split(', /')[0]}")


def row(schema: pa.Schema, number: int, value: object) -> pa.Table:
    return pa.table([[number], pa.array([value], schema.field("v").type)], schema=schema)


def scan(writer: Any) -> list[int]:
    return sorted(writer.lsm_scanner().to_table()["id"].to_pylist())


def show(scratch: str, kind: pa.DataType, version: str | None, harmless: object) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", kind)])
    url = f"{scratch}/t"
    lance.write_dataset(schema.empty_table(), url, schema=schema, data_storage_version=version).initialize_mem_wal()
    first = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    attempt("put of row 1", partial(first.put, row(schema, 1, None)))
    attempt("close", first.close)
    second = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
    attempt("scan beside a second writer", partial(scan, second))
    attempt("its put of row 2", partial(second.put, row(schema, 2, harmless)))
    attempt("its close", second.close)
    folders = [f"{url}/_mem_wal/{SHARD}/{name}" for name in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in name]
    complete = [folder for folder in folders if os.path.exists(f"{folder}/bloom_filter.bin")]
    print("  rows in SSTables:", sorted(n for f in complete for n in lance.dataset(f).to_table()["id"].to_pylist()))


print("pylance", lance.__version__)
for name, case in {"dictionary": (DICTIONARY, None, "x"), "struct": (STRUCT, "2.0", {"a": 1})}.items():
    print(f"{name}:")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        show(folder, *case)
