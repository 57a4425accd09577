"""What the calls of the public interface return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..codec.region_manifest import RegionManifest
from ..ids import Generation, RegionId, SpecId
from ..jobs.collector import ELIGIBILITY, Decision, Kind
from ..jobs.index_builder import CaughtUp
from ..jobs.merger import Failure, Merged


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
    commits: int
    """Versions of the table that this made."""

    @classmethod
    def of(cls, done: Iterable[Merged]) -> MergeReport:
        """The sums over what one call merged."""
        each = tuple(done)
        return cls(
            merged=tuple((merged.region_id, merged.generation) for merged in each),
            rows=sum(merged.rows for merged in each),
            deleted=sum(merged.deleted for merged in each),
            commits=len({merged.commit for merged in each}),
        )


def first(failures: Iterable[Failure]) -> Failure:
    """The first of ``failures``, of which there are some, with a note of each further one."""
    found, *others = failures
    for other in others:
        found.add_note(f"in another region: {other}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpReport:
    """What one call of `Table.catch_up` did, index by index."""

    indexes: tuple[CaughtUp, ...]

    @property
    def committed(self) -> tuple[CaughtUp, ...]:
        """Those that were extended or credited; the others covered the table and were credited with it already."""
        return tuple(found for found in self.indexes if found.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcTotal:
    """How many things of one kind one call of `Table.gc` looked at."""

    kind: Kind
    collected: int
    """Deleted; in a dry run: would be."""
    kept: int
    collected_bytes: int | None
    """Of what was collected; None where sizes were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What one call of `Table.gc` deleted or kept, thing by thing."""

    decisions: tuple[Decision, ...]
    dry_run: bool

    @property
    def collected(self) -> tuple[Decision, ...]:
        """Decisions for deletion; in a dry run nothing was deleted."""
        return tuple(d for d in self.decisions if d.collected)

    @property
    def kept(self) -> tuple[Decision, ...]:
        """Decisions against it."""
        return tuple(d for d in self.decisions if not d.collected)

    @property
    def totals(self) -> tuple[GcTotal, ...]:
        """Counts by kind, in the order in which things are collected; kinds of which there is nothing are left out."""
        found = []
        for kind in dict.fromkeys(table.kind for table in ELIGIBILITY):
            going = [d for d in self.collected if d.kind == kind]
            sizes = [d.size_bytes for d in going if d.size_bytes is not None]
            kept = sum(d.kind == kind for d in self.kept)
            if going or kept:
                size_bytes = sum(sizes) if len(sizes) == len(going) else None
                found.append(GcTotal(kind=kind, collected=len(going), kept=kept, collected_bytes=size_bytes))
        return tuple(found)
