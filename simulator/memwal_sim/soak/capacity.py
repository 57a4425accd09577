"""What an object store would see of a table under a steady load: requests, bytes and money, for any number of regions.

The costs of one operation are those of `costs.measured`; this module only says how often each operation comes and how
large its factors are then. The assumptions are in docs/soak.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from memwal.revisions import REVISIONS

from . import costs
from .costs import CLAIM, COLLECT, EVENTUAL, FLUSH, MERGE, ONCE, PUT, SNAPSHOT, STRONG
from .counting import REGION
from .loads import DAY_S, Load
from .prices import CLASSES, Prices
from .sizes import entry_bytes, index_sizes

SCALES = (10, 1_000, 100_000)
"""Numbers of regions that a report shows."""
PAGE_NAMES = 1_000
"""Names in one page of a listing; each further page is a request."""


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
                "regions with a newer manifest": _changed(load, flushed_regions / between),
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
                "versions collected": load.commits_per_s * between,
                "files collected": 2 * merges * between / load.merge_every_s + load.commits_per_s * between,
            },
        ),
    }


def _changed(load: Load, collected_per_s: float) -> float:
    """Regions whose manifest changed since the last snapshot: by flushes, claims, and collections of generations."""
    changes = load.flushes_per_s + collected_per_s + load.claims_per_day * load.regions / DAY_S
    return _touched(load.regions, changes * load.snapshot_every_s)


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
