"""Two compactions of one shard end in the wrong order, and one twice. Needs pylance only.

Each is a merge-insert that carries its progress. Expected: what would take the progress back, or merge a generation
again, is refused, also where both compactions began at the same version; the newest row stays.
"""

# ruff: noqa: T201
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from lance import mem_wal
from lance.dataset import MergeInsertBuilder

SHARD = "0a0b0c0d-0000-4000-8000-000000000001"
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("v", pa.string())])
COMPACTED: Any = getattr(mem_wal, "CompactedSsTable", None) or getattr(mem_wal, "MergedGeneration", None)
MARK: Any = getattr(MergeInsertBuilder, "mark_sstables_as_compacted", None) or getattr(
    MergeInsertBuilder, "mark_generations_as_merged", None
)


def rows(value: str) -> pa.Table:
    return pa.table([[1], [value]], schema=SCHEMA)


def compact(dataset: lance.LanceDataset, generation: int) -> None:
    insert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    MARK(insert, [COMPACTED(SHARD, generation)]).execute(rows(f"generation {generation}"))


def attempt(what: str, act: Callable[[], object], url: str) -> None:
    try:
        act()
        ended = "done"
    except OSError as error:
        ended = str(error).split(", /")[0]
    print(f"  {what}: {ended}; the base table has", lance.dataset(url).to_table()["v"].to_pylist())


print("pylance", lance.__version__)
for together in (False, True):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        url = f"{scratch}/t"
        lance.write_dataset(rows("base"), url, schema=SCHEMA).initialize_mem_wal()
        begun = {number: lance.dataset(url) for number in (1, 2, 3)}
        print("begun at one version:" if together else "one after the other:")
        for generation in (2, 1, 2, 3):
            attempt(
                f"compaction of generation {generation}",
                partial(compact, begun[generation] if together else lance.dataset(url), generation),
                url,
            )
