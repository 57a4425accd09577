"""What the released native package has, under the names of each of its versions; None where it has nothing."""

from __future__ import annotations

from typing import Any

from lance.dataset import MergeInsertBuilder

try:
    import lance.mem_wal as mem_wal
except ImportError:
    mem_wal = None  # a version from before MemWAL: nothing is claimed


def named(owner: object, *names: str) -> Any:
    """The first attribute of these names that ``owner`` has: versions differ in them. None if it has none."""
    return next((getattr(owner, name) for name in names if hasattr(owner, name)), None)


WRITER = named(mem_wal, "ShardWriter", "RegionWriter")
SNAPSHOT = named(mem_wal, "ShardSnapshot", "RegionSnapshot")
SCANNER = named(mem_wal, "LsmScanner")
LOOKUP = named(mem_wal, "LsmPointLookupPlanner")
SEARCH = named(mem_wal, "LsmVectorSearchPlanner")
COMPACTED = named(mem_wal, "CompactedSsTable", "MergedGeneration")
ADD_SSTABLE = named(SNAPSHOT, "with_sstable", "with_flushed_generation")
MARK = named(MergeInsertBuilder, "mark_sstables_as_compacted", "mark_generations_as_merged")
EVALUATE = named(mem_wal, "evaluate_sharding_spec")
