"""What an object store would see of a table under a steady load: requests, bytes and money, for any number of regions.

The costs of one operation are those of `costs.measured`; this module only says how often each operation comes and how
large its factors are then. The assumptions are in docs/soak.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from memwal.errors import InvalidArgument, check_name
from memwal.index.snapshot import INLINE_REGIONS
from memwal.jobs.defaults import COMMIT_EVERY
from memwal.revisions import REVISIONS

from . import costs
from .costs import CLAIM, COLLECT, EVENTUAL, FLUSH, MERGE, ONCE, PUT, SNAPSHOT, STRONG
from .counting import REGION
from .prices import CLASSES, Prices
from .run import Result
from .sizes import entry_bytes, index_sizes

DAY_S = 86_400
SCALES = (10, 1_000, 100_000)
"""Numbers of regions that a report shows."""
_FEW = 1e-3
"""Regions; fewer than so many are none."""
PAGE_NAMES = 1_000
"""Names in one page of a listing; each further page is a request."""


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
    """Fragments of the base table. Somebody compacts it, or this grows without end."""
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
                raise InvalidArgument(f"{one.name} is {value}, and has to be a number that is not negative")
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
                raise InvalidArgument(f"{name} is {getattr(self, name)}, and has to be above 0")
        check_name("revision", self.revision, REVISIONS)
        if self.puts_per_s > self.rows_per_s:
            raise InvalidArgument(f"{self.puts_per_s} puts/s of {self.rows_per_s} rows/s: a put has at least one row")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLine:
    """One operation under a load."""

    operation: str
    per_day: float
    """How often it comes."""
    requests: Mapping[str, float]
    """Of one: ``<scope> <kind>`` -> requests."""
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    """Of one."""

    @property
    def each(self) -> float:
        """Requests of one."""
        return sum(self.requests.values())

    def kinds_per_day(self) -> dict[str, float]:
        """Requests a day by kind, of both scopes."""
        found: dict[str, float] = {}
        for name, count in self.requests.items():
            kind = name.rpartition(" ")[2]
            found[kind] = found.get(kind, 0.0) + count * self.per_day
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the store sees of one table."""

    load: Load
    lines: tuple[LoadLine, ...]
    prices: Prices
    details_bytes: int
    """Of the MemWAL index inside each table version: every commit writes them."""
    snapshot_bytes: int
    """Of the external region snapshot; 0 if it is inline and so among the details."""

    def requests_per_day(self) -> dict[str, float]:
        """By kind."""
        found: dict[str, float] = {}
        for line in self.lines:
            for kind, count in line.kinds_per_day().items():
                found[kind] = found.get(kind, 0.0) + count
        return found

    def prefix_per_s(self, scope: str) -> float:
        """Mean requests a second to the table's own prefix, or to that of one region."""
        every = sum(
            count * line.per_day
            for line in self.lines
            for name, count in line.requests.items()
            if name.startswith(scope)
        )
        return every / DAY_S / (self.load.regions if scope == REGION else 1)

    def stored_gb(self) -> float:
        """The table, and what waits for a merge and a collection."""
        load = self.load
        waiting_s = load.merge_every_s / 2 + load.collect_every_s
        return load.table_gb + 2 * load.rows_per_s * load.row_bytes * waiting_s / 1e9

    def cost_per_day(self) -> dict[str, float]:
        """Money by what it is for: each operation, and storage."""
        found = {line.operation: self.prices.of_requests(line.kinds_per_day()) for line in self.lines}
        return {**found, "storage": self.prices.of_storage(self.stored_gb() * DAY_S * 1000)}

    def busy(self, operation: str) -> float:
        """Share of the time that one process needs for ``operation``, one request after another; above 1: too slow."""
        line = next(line for line in self.lines if line.operation == operation)
        return line.each * line.per_day * self.load.latency_ms / 1000 / DAY_S

    def commits_per_s(self) -> float:
        """Table versions a second."""
        return self.load.commits_per_s

    def as_dict(self) -> dict[str, Any]:
        """JSON object of everything."""
        requests = self.requests_per_day()
        classes: dict[str, float] = {}
        for kind, count in requests.items():
            classes[CLASSES[kind]] = classes.get(CLASSES[kind], 0.0) + count
        cost = self.cost_per_day()
        return {
            "load": asdict(self.load),
            "operations": [
                {"operation": line.operation, "per_day": line.per_day, "requests_each": line.each}
                for line in self.lines
            ],
            "requests_per_day": requests,
            "requests_per_s_by_class": {name: count / DAY_S for name, count in sorted(classes.items())},
            "requests_per_s": sum(requests.values()) / DAY_S,
            "requests_per_s_table_prefix": self.prefix_per_s("table"),
            "requests_per_s_each_region_prefix": self.prefix_per_s(REGION),
            "bytes_up_per_s": sum(line.bytes_up * line.per_day for line in self.lines) / DAY_S,
            "bytes_down_per_s": sum(line.bytes_down * line.per_day for line in self.lines) / DAY_S,
            "stored_gb": self.stored_gb(),
            "cost_per_day": {**cost, "all": sum(cost.values())},
            "commits_per_s": self.commits_per_s(),
            "busy": {name: self.busy(name) for name in (MERGE, SNAPSHOT, COLLECT)},
            "index_details_bytes": self.details_bytes,
            "snapshot_file_bytes": self.snapshot_bytes,
            "snapshot": "inline" if self.load.inline else "external",
        }


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


def predict(load: Load, prices: Prices | None = None) -> Capacity:
    """What the store sees of ``load``."""
    details_bytes, snapshot_bytes = index_sizes(load.regions, REVISIONS[load.revision], inline=load.inline)
    known = costs.measured(load.revision, collection=load.collection, inline=load.inline)
    every = factors(load)
    lines = []
    for operation, (per_day, each) in every.items():
        counted = known[operation].of({ONCE: 1.0, **each})
        lines.append(LoadLine(operation=operation, per_day=per_day, requests=_at_scale(load, operation, counted)))
    found = Capacity(
        load=load,
        lines=tuple(lines),
        prices=prices or Prices(),
        details_bytes=details_bytes,
        snapshot_bytes=snapshot_bytes,
    )
    return replace(found, lines=tuple(_with_bytes(found, line) for line in found.lines))


def factors(load: Load) -> dict[str, tuple[float, dict[str, float]]]:
    """Per operation: how often it comes in a day, and its mean factors."""
    regions, flushes = float(load.regions), load.flushes_per_s
    tail = regions * load.entries_per_flush / 2
    waiting = flushes * load.merge_every_s
    merges = load.commits_per_pass
    puts_between = load.puts_per_s * load.snapshot_every_s
    dirty = _touched(regions, puts_between)
    between = load.collect_every_s
    flush_s = regions / flushes if flushes else math.inf
    put_s = regions / load.puts_per_s if load.puts_per_s else math.inf
    newer = _moved(put_s, (load.snapshot_every_s, max(between, flush_s)))
    lagging = flushes * _longer(load.merge_every_s, load.snapshot_every_s)
    generations = flushes * between
    commits = load.commits_per_s * between
    refreshed = dirty * between / load.snapshot_every_s
    claims = load.claims_per_day * regions
    flushed_regions = _touched(regions, generations)
    base = {"fragments": load.fragments, "deletion files": load.deletion_files}
    return {
        PUT: (load.puts_per_s * DAY_S, {"newer manifest": newer}),
        FLUSH: (flushes * DAY_S, {"entries": load.entries_per_flush}),
        CLAIM: (claims, {"tail entries": tail / regions}),
        MERGE: (
            DAY_S / load.merge_every_s,
            {
                "regions": regions,
                "generations": waiting,
                "commits": merges,
                "commits x fragments": merges * load.fragments,
                "fragments that lose rows": load.fragments if merges else 0.0,
            },
        ),
        SNAPSHOT: (
            DAY_S / load.snapshot_every_s,
            {
                "regions": regions,
                "unseen entries": min(puts_between, tail),
                "regions with unseen entries": dirty,
                "regions with a hint in their tail": regions * max(0.0, 1 - load.snapshot_every_s / flush_s),
            },
        ),
        STRONG: (
            load.strong_reads_per_s * DAY_S,
            {"regions": regions, "generations": waiting / 2, "tail entries": tail, **base},
        ),
        EVENTUAL: (load.eventual_reads_per_s * DAY_S, {"regions": regions, "generations": lagging, **base}),
        COLLECT: (
            DAY_S / between,
            {
                "regions": regions,
                "regions with collected generations": flushed_regions,
                "generations collected": generations,
                "generations kept": waiting / 2,
                "WAL entries collected": load.puts_per_s * between,
                "manifests collected": generations + flushed_regions + refreshed + claims * between / DAY_S,
                "versions kept": load.versions_kept,
                "versions collected": commits,
                "files collected": 2 * merges * between / load.merge_every_s + commits,
            },
        ),
    }


def _moved(put_s: float, every_s: Sequence[float]) -> float:
    """Share of puts that find a newer region manifest than their writer knows.

    A writer looks with every put, every ``put_s``; others write a new manifest, each of ``every_s`` once: snapshot
    builders that raise its hint, and collectors that find a generation to collect.
    """
    return 1 - math.prod(max(0.0, 1 - put_s / each) if math.isfinite(each) else 1.0 for each in every_s)


def _longer(first_s: float, second_s: float) -> float:
    """Mean of how much longer a time up to ``first_s`` is than one up to ``second_s``, both uniform, or 0."""
    if first_s <= second_s:
        return first_s**2 / second_s / 6 if math.isfinite(first_s) else 0.0
    return first_s / 2 - second_s / 2 + second_s**2 / first_s / 6


def _touched(regions: float, events: float) -> float:
    """Of ``regions``, how many are met by ``events`` that fall on them at random."""
    return regions * -math.expm1(-events / regions)


def _at_scale(load: Load, operation: str, counted: Mapping[str, float]) -> dict[str, float]:
    """``counted`` with the further pages of the listing of all regions."""
    scaled = dict(counted)
    if operation in (MERGE, SNAPSHOT, STRONG, COLLECT):
        pages = math.ceil(load.regions / PAGE_NAMES) - 1
        scaled["table ListFolders"] = scaled.get("table ListFolders", 0.0) + pages
    return scaled


def _with_bytes(found: Capacity, line: LoadLine) -> LoadLine:
    """``line`` with the bytes of what it reads and writes."""
    load = found.load
    rows = load.row_bytes
    per_put, per_flush = load.rows_per_s / max(load.puts_per_s, 1e-9), load.flush_rows
    version = found.details_bytes + 120 * load.fragments + 1000
    waiting = load.flushes_per_s * load.merge_every_s
    snapshot = found.snapshot_bytes
    tail = load.regions * load.entries_per_flush / 2 * per_put * rows
    base = load.table_gb * 1e9
    up = {
        PUT: entry_bytes(REVISIONS[load.revision]) + per_put * rows,
        FLUSH: per_flush * rows,
        MERGE: waiting * per_flush * rows + load.commits_per_pass * version,
        SNAPSHOT: version + 2 * found.details_bytes + snapshot,
    }
    down = {
        CLAIM: tail / load.regions,
        MERGE: load.commits_per_pass * version + waiting * per_flush * rows,
        SNAPSHOT: 2 * version + snapshot,
        STRONG: base + tail + 2 * version,
        EVENTUAL: base + version + snapshot,
        COLLECT: (load.versions_kept + load.commits_per_s * load.collect_every_s) * version,
    }
    return replace(line, bytes_up=up.get(line.operation, 0.0), bytes_down=down.get(line.operation, 0.0))
