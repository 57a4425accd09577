"""What an open writer knows about its region and that never changes.

Source: MemWAL revisions A and B, "Region".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..effects import Io
from ..ids import RegionId, SpecId
from ..revisions import Revision
from .rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Everything about a region that does not change while a writer is open."""

    io: Io
    """The region's folder."""
    region_id: RegionId
    revision: Revision
    rows: Rows
    """Schema of the rows as stored in WAL and generations, and how writes are validated."""
    spec_id: SpecId = SpecId(0)
    shard_fields: tuple[tuple[str, bytes], ...] = ()
    """Region values for the manifest (R)."""
    wal_collection: bool = False
    """Whether WAL files may be collected; then each WAL put is verified (AMB-25)."""
    table: Io | None = None
    """The base table's folder, where each MemTable looks up what indexes to maintain; None: as the first (AMB-142)."""
    manifest_collection: bool = False
    """Whether manifest versions may be collected; then each commit of one is confirmed (AMB-30)."""
