"""One version puts a row and is killed; another one recovers it. Needs pylance only.

python across_versions.py write FOLDER     # under the one
python across_versions.py recover FOLDER   # under the other
"""

# ruff: noqa: T201
import os
import sys

import lance
import pyarrow as pa

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
ACT, FOLDER = sys.argv[1:]

if ACT == "write":
    lance.write_dataset(pa.table([[9], ["x"]], schema=SCHEMA), FOLDER, schema=SCHEMA).initialize_mem_wal()
    writer = lance.dataset(FOLDER).mem_wal_writer(SHARD, durable_write=True)
    writer.put(pa.table([[1], ["x"]], schema=SCHEMA))
    print(f"pylance {lance.__version__} has put row 1")
else:
    try:
        writer = lance.dataset(FOLDER).mem_wal_writer(SHARD, durable_write=True)
        print(f"pylance {lance.__version__}, recovered, sees:", writer.lsm_scanner().to_table()["id"].to_pylist())
    except OSError as error:
        print(f"pylance {lance.__version__} claims:", str(error).split(", /")[0])
sys.stdout.flush()
os._exit(0)
