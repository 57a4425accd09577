"""What the calls of the public interface return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..codec.region_manifest import RegionManifest
from ..ids import Generation, RegionId, SpecId
from ..index.backlog import RegionBacklog
from ..jobs import collector, index_builder, merger
from ..table.history import TableCommit
from ..words import counted, grid, moment, size


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


T = TypeVar("T")


class ReportRows(tuple[T, ...]):
    """A tuple that prints as a short table."""

    def __repr__(self) -> str:
        if not self:
            return "nothing"
        columns = _COLUMNS[type(self[0])]
        return grid(tuple(columns), [[told(each) for told in columns.values()] for each in self])


_COLUMNS: Mapping[type, Mapping[str, Callable[[Any], object]]] = {
    RegionInfo: {
        "region": lambda each: each.region_id,
        "values": lambda each: ", ".join(f"{name}={value}" for name, value in each.values.items()) or "-",
        "epoch": lambda each: each.manifest.epoch if each.manifest else "-",
        "generations": lambda each: len(each.manifest.flushed) if each.manifest else "-",
        "merged": lambda each: each.merged,
    },
    RegionBacklog: {
        "region": lambda each: each.region_id,
        "to merge": lambda each: len(each.generations),
        "rows": lambda each: each.generation_rows,
        "WAL rows": lambda each: each.wal_rows,
        "WAL bytes": lambda each: size(each.wal_bytes),
        "damaged": lambda each: each.damaged,
    },
    TableCommit: {
        "version": lambda each: each.version,
        "committed": lambda each: moment(each.committed_ms),
        "operation": lambda each: each.damage or each.operation,
        "rows": lambda each: each.rows,
    },
}
"""What `ReportRows` print of its rows: head of a column -> what stands in it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MergeReport:
    """What one call of `Table.merge` committed."""

    merged: tuple[tuple[RegionId, Generation], ...]
    rows: int
    """Rows upserted into the base table."""
    deleted: int
    """Keys deleted from it (R)."""
    commits: int
    """Versions of the table that this made."""
    compacted: int = 0
    """Small fragments of the base that were rewritten as fewer afterwards."""

    def __repr__(self) -> str:
        by_region: dict[RegionId, list[Generation]] = {}
        for region, generation in self.merged:
            by_region.setdefault(region, []).append(generation)
        rows = [(region, ", ".join(map(str, generations))) for region, generations in by_region.items()]
        return "\n".join([self.summary, *([grid(("region", "generations"), rows)] if rows else [])])

    @property
    def summary(self) -> str:
        """The sums in one sentence."""
        if not self.merged:
            return "nothing to merge"
        done = f"{counted(self.rows, 'row')} upserted, {counted(self.deleted, 'key')} deleted"
        generations = counted(len(self.merged), "generation")
        rewritten = f"; {counted(self.compacted, 'small fragment')} rewritten as fewer" if self.compacted else ""
        return f"merged {generations} in {counted(self.commits, 'commit')}: {done}{rewritten}"

    @classmethod
    def of(cls, done: Iterable[merger.Merged], compacted: int) -> MergeReport:
        """The sums over what one call merged, and how many fragments it rewrote then."""
        each = tuple(done)
        return cls(
            merged=tuple((merged.region_id, merged.generation) for merged in each),
            rows=sum(merged.rows for merged in each),
            deleted=sum(merged.deleted for merged in each),
            commits=len({merged.commit for merged in each}),
            compacted=compacted,
        )


def first(failures: Iterable[merger.Failure]) -> merger.Failure:
    """The first of ``failures``, of which there are some, with a note of each further one."""
    found, *others = failures
    for other in others:
        found.add_note(f"in another region: {other}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CatchUpReport:
    """What one call of `Table.catch_up` did, index by index."""

    indexes: tuple[index_builder.CaughtUp, ...]

    @property
    def committed(self) -> tuple[index_builder.CaughtUp, ...]:
        """Those that were extended or credited; the others covered the table and were credited with it already."""
        return tuple(found for found in self.indexes if found.committed)

    @property
    def summary(self) -> str:
        """How many indexes were behind, in a sentence."""
        if not self.indexes:
            return "nothing to catch up: the table has no index over a column"
        return f"{len(self.committed)} of {counted(len(self.indexes), 'index', 'indexes')} had to catch up"

    def __repr__(self) -> str:
        rows = [(done.index_name, done.version_indexed, len(done.fragments)) for done in self.indexes]
        table = [grid(("index", "covers version", "fragments added"), rows)] if rows else []
        return "\n".join([self.summary, *table])


@dataclass(frozen=True, slots=True, kw_only=True)
class GcTotal:
    """How many things of one kind one call of `Table.gc` looked at."""

    kind: collector.Kind
    collected: int
    """Deleted; in a dry run: would be."""
    kept: int
    collected_bytes: int | None
    """Of what was collected; None where sizes were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GcReport:
    """What one call of `Table.gc` deleted or kept, thing by thing."""

    decisions: tuple[collector.Decision, ...]
    dry_run: bool

    def __repr__(self) -> str:
        verb = "would delete" if self.dry_run else "deleted"
        rows = [(each.kind, each.collected, size(each.collected_bytes), each.kept) for each in self.totals]
        summary = f"{verb} {len(self.collected):,} of {counted(len(self.decisions), 'thing')}; `.decisions` says why"
        return "\n".join([summary, *([grid(("kind", verb, "bytes", "kept"), rows)] if rows else [])])

    @property
    def collected(self) -> tuple[collector.Decision, ...]:
        """Decisions for deletion; in a dry run nothing was deleted."""
        return tuple(d for d in self.decisions if d.collected)

    @property
    def kept(self) -> tuple[collector.Decision, ...]:
        """Decisions against it."""
        return tuple(d for d in self.decisions if not d.collected)

    @property
    def totals(self) -> tuple[GcTotal, ...]:
        """Counts by kind, in the order in which things are collected; kinds of which there is nothing are left out."""
        found = []
        for kind in dict.fromkeys(table.kind for table in collector.ELIGIBILITY):
            going = [d for d in self.collected if d.kind == kind]
            sizes = [d.size_bytes for d in going if d.size_bytes is not None]
            kept = sum(d.kind == kind for d in self.kept)
            if going or kept:
                size_bytes = sum(sizes) if len(sizes) == len(going) else None
                found.append(GcTotal(kind=kind, collected=len(going), kept=kept, collected_bytes=size_bytes))
        return tuple(found)
