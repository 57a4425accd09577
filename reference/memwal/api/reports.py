"""What the calls of the public interface return."""

from __future__ import annotations

from dataclasses import dataclass

from ..codec.region_manifest import RegionManifest
from ..ids import Generation, RegionId, SpecId
from ..jobs.collector import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionInfo:
    """One region, as registered and as its newest manifest says."""

    region_id: RegionId
    spec_id: SpecId
    values: dict[str, object]
    """Region value by field id; empty for manual regions and where unknown."""
    manifest: RegionManifest | None
    """Newest manifest; None for a region that no writer has claimed."""
    merged: Generation
    """Newest generation merged into the base table; 0 if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What one call of `Table.merge` committed."""

    merged: tuple[tuple[RegionId, Generation], ...]
    rows: int
    """Rows upserted into the base table."""
    deleted: int
    """Keys deleted from it (R)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What one call of `Table.gc` deleted or kept, thing by thing."""

    decisions: tuple[Decision, ...]
    dry_run: bool

    @property
    def collected(self) -> tuple[Decision, ...]:
        """Decisions for deletion; in a dry run nothing was deleted."""
        return tuple(d for d in self.decisions if d.collected)
