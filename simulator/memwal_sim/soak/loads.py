"""A steady load on one table, and the one that a soak puts on its table."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from memwal.errors import InvalidArgument, check_name
from memwal.index.snapshot import INLINE_REGIONS
from memwal.jobs.defaults import COMMIT_EVERY
from memwal.revisions import REVISIONS

from .run import Result

DAY_S = 86_400
_FEW = 1e-3
"""Regions; fewer than so many are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A steady load on one table. Rates are of the whole table, per second; times in seconds."""

    regions: int = 10
    puts_per_s: float = 100.0
    rows_per_s: float = 10_000.0
    row_bytes: float = 200.0
    flush_rows: float = 100_000.0
    """Rows of a MemTable when it is flushed."""
    merge_every_s: float = 600.0
    """Every so often one merger goes through all regions."""
    commit_every: float = float(COMMIT_EVERY)
    """Most regions whose generations it merges in one commit."""
    snapshot_every_s: float = 900.0
    collect_every_s: float = 3600.0
    strong_reads_per_s: float = 0.01
    eventual_reads_per_s: float = 0.1
    claims_per_day: float = 1.0
    """Times that each region's writer is replaced in a day."""
    fragments: float = 50.0
    """Fragments of the base table. Compact it, or this grows without end."""
    deletion_files: float = 50.0
    """Of these fragments."""
    versions_kept: float = 3.0
    """Table versions that the collector leaves."""
    table_gb: float = 10.0
    latency_ms: float = 30.0
    """Of one request, for what has to happen one after another."""
    revision: str = "B"
    collection: bool = True
    inline_regions: int = INLINE_REGIONS
    """Most regions whose snapshot is inside the index."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type == "float" and (not math.isfinite(value) or value < 0):
                raise InvalidArgument(f"{one.name} is {value}, and must not be negative")
        for name in (
            "regions",
            "flush_rows",
            "merge_every_s",
            "commit_every",
            "snapshot_every_s",
            "collect_every_s",
            "row_bytes",
        ):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}, and must be above 0")
        check_name("revision", self.revision, REVISIONS)
        if self.puts_per_s > self.rows_per_s:
            raise InvalidArgument(
                f"{self.puts_per_s} puts/s of {self.rows_per_s} rows/s: a put must have at least one row"
            )

    @property
    def flushes_per_s(self) -> float:
        """MemTable flushes of all regions."""
        return self.rows_per_s / self.flush_rows

    @property
    def entries_per_flush(self) -> float:
        """WAL entries of one MemTable."""
        return self.puts_per_s / self.flushes_per_s if self.flushes_per_s else 0.0

    @property
    def commits_per_pass(self) -> float:
        """Commits of one pass of the merger: each has the next generation of some regions.

        Flushes fall on the regions at random (Poisson), so that some have several generations and others none.
        """
        each = self.flushes_per_s * self.merge_every_s / self.regions
        chance, found, number = math.exp(-each), 0.0, 1
        having = self.regions * (1 - chance)
        while having >= _FEW:
            found += max(having / self.commit_every, min(having, 1.0))
            chance *= each / number
            number += 1
            having -= self.regions * chance
        return found

    @property
    def commits_per_s(self) -> float:
        """Table versions a second: those of mergers, and one per snapshot."""
        return self.commits_per_pass / self.merge_every_s + 1 / self.snapshot_every_s

    @property
    def inline(self) -> bool:
        """Whether the region snapshot is inside the index."""
        return self.regions <= self.inline_regions or not REVISIONS[self.revision].snapshot_files


def load_of(result: Result) -> Load:
    """The load that a soak without faults puts on its table: its settings, and how many puts, claims and files."""
    settings, totals, samples = result.settings, result.totals, result.samples
    puts = totals["puts_acknowledged"] - 1
    writers = sum(count for name, count in totals["ends"].items() if name.startswith("writer: "))
    seconds = settings.duration_ms / 1000
    puts_per_s = puts / seconds

    def every_s(every_ms: int) -> float:
        return every_ms / 1000 if every_ms else math.inf

    merge_every_s = every_s(settings.merge_every_ms) / settings.mergers
    load = Load(
        regions=settings.regions,
        puts_per_s=puts_per_s,
        rows_per_s=puts_per_s * settings.rows_per_put,
        row_bytes=settings.value_bytes + 7.0,
        flush_rows=float(settings.flush_entries * settings.rows_per_put),
        merge_every_s=merge_every_s,
        snapshot_every_s=every_s(settings.snapshot_every_ms),
        collect_every_s=every_s(settings.collect_every_ms),
        strong_reads_per_s=1 / every_s(settings.strong_read_every_ms),
        eventual_reads_per_s=1 / every_s(settings.eventual_read_every_ms),
        claims_per_day=writers / settings.regions / seconds * DAY_S,
        fragments=sum(row["fragments"] for row in samples) / len(samples),
        deletion_files=sum(row["deletion files"] for row in samples) / len(samples),
        commit_every=float(settings.commit_every),
        table_gb=0.0,
        latency_ms=settings.latency_ms,
        revision=settings.revision,
        collection=settings.wal_collection and settings.manifest_collection,
    )
    return replace(load, versions_kept=settings.retain_versions + load.commits_per_s * settings.grace_ms / 1000)
