"""A vector search without a vector index, with one of the base table, and with one that MemTables keep, too.

Needs pylance only. 20 base rows at (n, 0); the SSTable replaces row 0 by one at (50, 0), row 1 by one without a vector,
and adds row 90 at (0.5, 0). Asked for the neighbours of (0, 0), by exact distance. Expected: 90 first, then 2, 3, ...;
never 0 or 1 where they were.
"""

# ruff: noqa: T201
import os
import tempfile
import threading

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("vec", pa.list_(pa.float32(), 2))])
LIMIT_S = 20


def rows(found: dict[int, list[float] | None]) -> pa.Table:
    return pa.table([list(found), pa.array(list(found.values()), SCHEMA.field("vec").type)], schema=SCHEMA)


print("pylance", lance.__version__)
for index in ("no index", "index", "maintained index"):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        url = f"{scratch}/t"
        lance.write_dataset(rows({n: [float(n), 0.0] for n in range(20)}), url, schema=SCHEMA)
        if index != "no index":
            lance.dataset(url).create_index("vec", "IVF_FLAT", num_partitions=1, name="by_vec")
        try:
            kept = ["by_vec"] if index == "maintained index" else None
            lance.dataset(url).initialize_mem_wal(maintained_indexes=kept)
        except OSError as error:
            print(f"{index}: {str(error).split(', /')[0]}")
            continue
        writer = lance.dataset(url).mem_wal_writer(SHARD, durable_write=True)
        put = threading.Thread(target=writer.put, args=[rows({0: [50.0, 0.0], 1: None, 90: [0.5, 0.0]})], daemon=True)
        put.start()
        put.join(LIMIT_S)
        if put.is_alive():
            print(f"{index}: the put has not returned after {LIMIT_S} s", flush=True)
            os._exit(0)
        writer.close()
        (name,) = (folder for folder in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in folder)
        snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
        add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
        planner = mem_wal.LsmVectorSearchPlanner(lance.dataset(url), [add(1, name)], "vec", distance_type="l2")
        for k in (1, 3, 30):
            try:
                found = planner.plan_search(pa.array([0.0, 0.0], pa.float32()), k=k).to_table()["id"].to_pylist()
            except (OSError, ValueError) as error:
                found = str(error).split(", /")[0][:120]
            print(f"{index}, k = {k}: {found}")
