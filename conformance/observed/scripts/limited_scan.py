"""Some base rows are replaced through a writer, and scans ask for a part of the others. Needs pylance only.

Of 6 rows, d are replaced. A scan filters for the value of the others, with the limit n and the offset m: there must be
min(n, 6 - d - m) rows.
"""

# ruff: noqa: T201
import os
import tempfile

import lance
import pyarrow as pa
from lance import mem_wal

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])

print("pylance", lance.__version__)
for replaced in (0, 1, 2, 4):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        url = f"{scratch}/t"
        base = pa.table([list(range(6)), ["base"] * 6], schema=SCHEMA)
        lance.write_dataset(base, url, schema=SCHEMA).initialize_mem_wal()
        with lance.dataset(url).mem_wal_writer(SHARD, durable_write=True) as writer:
            if replaced:
                writer.put(pa.table([list(range(replaced)), ["new"] * replaced], schema=SCHEMA))
        snapshot = mem_wal.ShardSnapshot(SHARD).with_current_generation(2)
        add = getattr(snapshot, "with_sstable", None) or snapshot.with_flushed_generation
        for name in (name for name in os.listdir(f"{url}/_mem_wal/{SHARD}") if "_gen_" in name):
            snapshot = add(1, name)
        short = []
        for limit in (1, 2, 3, 6):
            for offset in (None, 0, 1, 2, 3):
                scanner = mem_wal.LsmScanner.from_snapshots(lance.dataset(url), [snapshot])
                scanner = scanner.filter("v = 'base'").limit(limit, offset)
                found, due = scanner.to_table().num_rows, max(0, min(limit, 6 - replaced - (offset or 0)))
                if found != due:
                    short.append(f"limit {limit} offset {offset}: {found} rows, not {due}")
        print(f"{replaced} replaced: {'; '.join(short) or 'right'}")
