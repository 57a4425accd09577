"""A table of two columns, and what a scan of its SSTables and the base table finds, for scripts. Needs pylance only."""

import os

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(value: str, *ids: int) -> pa.Table:
    return pa.table([list(ids), [value for _ in ids]], schema=SCHEMA)


def scanned(url: str) -> str:
    names = [name for name in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in name]
    snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(len(names) + 1)
    for name in names:
        add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
        snapshot = add(int(name.rpartition("_")[2]), name)
    try:
        found = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [snapshot]).to_table()
    except OSError as error:
        text = str(error).split(", /")[0]
        return text.partition("/")[0] + "…" + text.partition("_gen_")[2] if "_gen_" in text else text
    return str(sorted((row["id"], row["v"]) for row in found.select(["id", "v"]).to_pylist()))
