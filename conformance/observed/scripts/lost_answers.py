"""A conditional put is carried out, and its answer is no success: what pylance makes of it. Needs pylance only.

    python lost_answers.py wal 500        # the answer to the first WAL entry is 500
    python lost_answers.py wal 412        # ... is 412, as if a proxy had sent it twice
    python lost_answers.py wal reset      # ... is a reset connection; then the writer is closed
    python lost_answers.py wal reset put  # ... then the writer is asked for another put, and left alone
    python lost_answers.py manifest 500   # the answer to the manifest that records the first SSTable is 500

Prints what is stored, and for a manifest what is read, afterwards.
"""

# ruff: noqa: T201
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
from small_s3 import OBJECTS, SPOIL, served

TARGET, ANSWER, *NEXT = sys.argv[1:]
SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
# An append-only table shows what is put twice; only one with a key can be scanned.
KEY = {b"lance-schema:unenforced-primary-key": b"true"} if TARGET == "manifest" else None
SCHEMA = pa.schema([pa.field("id", pa.int64(), KEY is None, KEY), pa.field("v", pa.string())])
OPTIONS = served()
SPOIL.append(({"wal": r".*/wal/10+\.arrow", "manifest": r".*/manifest/010+\.binpb"}[TARGET], ANSWER))
URL = "s3://bucket/t"


def rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), [f"v{i}" for i in ids]], schema=SCHEMA)


def attempt(what: str, act: Callable[[], object]) -> None:
    try:
        act()
        print(f"{what}: done")
    except OSError as error:
        print(f"{what}: {str(error).split(', /')[0]}")


def another() -> Any:
    return lance.dataset(URL, storage_options=OPTIONS).mem_wal_writer(SHARD, durable_write=True)


print("pylance", lance.__version__)
lance.write_dataset(rows(), URL, schema=SCHEMA, storage_options=OPTIONS).initialize_mem_wal()
writer = another()
attempt("put of row 1", lambda: writer.put(rows(1)))
if TARGET == "wal" and (ANSWER != "reset" or NEXT):
    if NEXT:
        attempt("put of row 2", lambda: writer.put(rows(2)))
        time.sleep(2)
    CRASHED = dict(OBJECTS)
    attempt("close", writer.close)
    OBJECTS.clear()
    OBJECTS.update(CRASHED)
    print("the store as a crash before that close leaves it; a second writer recovers and closes:")
    attempt("close", another().close)
elif TARGET == "wal":
    attempt("close", writer.close)
    second = re.compile(r".*_gen_.*|.*/manifest/010+\.binpb|.*/version_hint\.json")
    CRASHED = {key: data for key, data in OBJECTS.items() if not second.fullmatch(key)}
    OBJECTS.clear()
    OBJECTS.update(CRASHED)
    print("the store as a crash within that close leaves it, after its WAL put; a second writer recovers and closes:")
    attempt("close", another().close)
else:
    print("scan beside the writer:", writer.lsm_scanner().to_table()["id"].to_pylist())
    attempt("close", writer.close)
    beside = another()
    print("scan beside a second writer:", beside.lsm_scanner().to_table()["id"].to_pylist())
    attempt("close", beside.close)
for name in sorted({k.partition("/_versions/")[0] for k in OBJECTS if "_gen_" in k and "/_versions/" in k}):
    found = lance.dataset(f"s3://bucket/{name}", storage_options=OPTIONS).to_table()["id"].to_pylist()
    print(f"SSTable {name.rpartition('/')[2]} has the rows {found}")
newest = max((k for k in OBJECTS if k.endswith(".binpb")), key=lambda k: k.rpartition("/")[2][:64][::-1])
for path in re.findall(rb"[0-9a-f]{8}_gen_[0-9]+", OBJECTS[newest]):
    print(f"the newest shard manifest lists {path.decode()}")
