"""Opening the writer of a region: claim, then recover what the WAL holds above the last flushed generation.

Source: MemWAL revisions A and B, "Writer Expectations"; revision A, "Initialization & Recovery".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..clauses import implements
from ..codec.region_manifest import RegionManifest
from ..ids import WalPosition
from ..maintained.base_index import MaintainedIndex
from ..maintained.memory import MemTableIndexes
from .claim import claim
from .limits import Limits
from .recovery import recover, replay_start
from .region import Region
from .sequences import Comparison
from .writer import RegionWriter


@implements("FENCE-003", "FENCE-022", "WRITER-001", "WRITER-008", "WRITER-013", "WRITER-034")
async def open_writer(
    region: Region, *, limits: Limits | None = None, maintained: Sequence[MaintainedIndex] = ()
) -> RegionWriter:
    """Claim the region and recover its MemTable; returns the open writer.

    ``maintained``: the base indexes that its MemTables carry too (AMB-48).
    """
    return await recovered(region, await claim(region), limits=limits, maintained=maintained)


async def recovered(
    region: Region,
    manifest: RegionManifest,
    *,
    limits: Limits | None = None,
    maintained: Sequence[MaintainedIndex] = (),
    comparison: Comparison | None = None,
) -> RegionWriter:
    """The open writer of a region that was just claimed with ``manifest``: recovers its MemTables."""
    found = await recover(region, manifest)
    covered = found.memtable.position_covered
    following = WalPosition(covered + 1) if covered is not None else replay_start(manifest, region.revision)
    *frozen, memtable = (
        replace(each, indexes=MemTableIndexes.empty(maintained, region.rows.key, region.rows.schema))
        for each in (*found.frozen, found.memtable)
    )
    for each in (*frozen, memtable) if maintained else ():
        each.index_up_to_date(maintained=True)
    writer = RegionWriter(
        region=region,
        limits=limits or Limits(),
        manifest=manifest,
        memtable=memtable,
        frozen=tuple(frozen),
        position_next=following,
        comparison=comparison,
    )
    now_ms = await writer.now()
    writer.clocks = writer.clocks.started(writer.limits, memtable.waiting_rows, memtable.rows, now_ms)
    return writer
