"""Puts fill one MemTable after another; then the writer is closed, and a second one opened and closed.

Needs pylance only. The table is append-only, and nothing fails. Prints, for each shard manifest, the last WAL entry
that its SSTables have (`replay_after_wal_entry_position`, field 3), and which rows are in SSTables at the end.
Expected: the positions 1 to 4, never a smaller one after a larger one, and each row once. With "at once" the puts do
not wait for the flushes.
"""

# ruff: noqa: T201
import os
import tempfile
import time
from collections import Counter

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])


def rows(number: int) -> pa.Table:
    return pa.table([[number], ["x"]], schema=SCHEMA)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def covered(path: str) -> int:
    with open(path, "rb") as file:
        data = file.read()
    at = found = 0
    while at < len(data):
        key, at = varint(data, at)
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 in (0, 2):
            size, at = varint(data, at)
        if key >> 3 == 3:
            found = size
        at += 0 if key & 7 == 0 else size
    return found


def manifests(folder: str) -> list[str]:
    names = [name for name in os.listdir(f"{folder}/manifest") if name.endswith(".binpb")]
    return [f"{folder}/manifest/{name}" for name in sorted(names, key=lambda name: name[:64][::-1])]


print("pylance", lance.__version__)
for waits in (True, False):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        url = f"{scratch}/t"
        folder = f"{url}/_mem_wal/{SHARD}"
        lance.write_dataset(rows(9), url, schema=SCHEMA).initialize_mem_wal()
        with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True, max_memtable_batches=1) as writer:
            for number in (1, 2, 3, 4):
                before = len(manifests(folder))
                writer.put(rows(number))
                until = time.monotonic() + 5
                while waits and len(manifests(folder)) == before and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(0.1 if waits else 0)  # what the writer does after that manifest matters
        lance.dataset(url).mem_wal_writer(SHARD, durable_write=True).close()
        found: Counter[int] = Counter()
        for name in os.listdir(folder):
            if "_gen_" in name:
                found.update(lance.dataset(f"{folder}/{name}").to_table()["id"].to_pylist())
        print("each after the flush before:" if waits else "at once:")
        print("  the manifests cover", [covered(path) for path in manifests(folder)])
        print("  rows in SSTables:", ", ".join(f"row {n} {found[n]} times" for n in (1, 2, 3, 4)))
