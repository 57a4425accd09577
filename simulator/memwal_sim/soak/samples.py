"""Time series of a soak: what the store holds and what went over the wire, at equal distances in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .prices import Prices
from .roles import EVENTUAL_READER, STRONG_READER
from .views import PLACES
from .world import SoakWorld

Row = dict[str, float]
"""Name of a series -> value at one moment."""

HOUR_MS = 3_600_000


@dataclass(slots=True)
class Sampler:
    """Takes samples of a world. Series that are rates are over the time since the last sample."""

    world: SoakWorld
    prices: Prices
    rows: list[Row] = field(default_factory=list)
    _before: Mapping[str, float] = field(default_factory=dict)
    _stored_gb_ms: float = 0.0
    _last_ms: float = 0.0

    def take(self) -> Row:
        """Sample now."""
        world = self.world
        hours = max(world.env.now - self._last_ms, 1e-9) / HOUR_MS
        self._stored_gb_ms += world.store.size_bytes / 1e9 * (world.env.now - self._last_ms)
        counts = self._counters()
        row = {"hours": world.env.now / HOUR_MS, **self._state()}
        for name, value in counts.items():
            row[f"{name}/h"] = (value - self._before.get(name, 0)) / hours
        row |= self._amplification(counts)
        row["cost"] = self.prices.of_requests(world.traffic.requests) + self.prices.of_storage(self._stored_gb_ms)
        self.rows.append(row)
        self._before, self._last_ms = counts, world.env.now
        return row

    @property
    def stored_gb_ms(self) -> float:
        """Integral of the bytes on the store over time, in GB x ms."""
        return self._stored_gb_ms

    def _state(self) -> Row:
        world = self.world
        table = world.views.table()
        lag = rows = tail = listed = 0
        for region in world.table.keys:
            manifest = world.views.region(region)
            if manifest is None:
                continue
            progress = table.mem_wal.progress(region)
            unmerged = [g.generation for g in manifest.flushed if g.generation > progress]
            listed += len(manifest.flushed)
            lag += len(unmerged)
            rows += sum(world.frozen_rows.get((region, number), 0) for number in unmerged)
            start = world.views.replay_start(manifest)
            tail += sum(position >= start for position in world.views.wal_positions(region))
        world.frozen_rows = {k: v for k, v in world.frozen_rows.items() if k[1] > table.mem_wal.progress(k[0])}
        places = world.views.bytes_by_place()
        return {
            "generations unmerged": lag,
            "generations listed": listed,
            "rows unmerged": rows,
            "WAL tail entries": tail,
            "objects": len(world.store),
            "bytes": world.store.size_bytes,
            **{f"bytes of {place}": places[place] for place in PLACES},
            "table version": table.version,
            "fragments": len(table.fragments),
            "deletion files": sum(fragment.HasField("deletion_file") for fragment in table.fragments),
        }

    def _counters(self) -> Row:
        world = self.world
        traffic = world.traffic
        fenced = sum(count for (_, how), count in world.ends.items() if how == "Fenced")
        conflicts = sum(count for event, count in world.notes.items() if event in CONFLICTS)
        return {
            **{f"{kind} requests": traffic.requests[kind] for kind in sorted(traffic.requests)},
            "requests": traffic.total,
            "bytes up": traffic.bytes_up,
            "bytes down": traffic.bytes_down,
            "puts": world.history.acknowledged,
            "claims": world.notes["claimed"],
            "fenced": fenced,
            "conflicts": conflicts,
            "reads again": world.notes["read_again"],
            "faults": sum(traffic.fates.values()),
        }

    def _amplification(self, counts: Row) -> Row:
        """Bytes put per byte of user rows, so far; requests and bytes per read, since the last sample."""
        world = self.world
        row = {"write amplification": counts["bytes up"] / max(world.user_bytes, 1)}
        for role in (STRONG_READER, EVENTUAL_READER):
            requests = float(sum(n for (whose, _), n in world.traffic.by_role.items() if whose == role))
            so_far = {"reads": float(world.reads[role]), "requests": requests}
            so_far["bytes"] = float(world.traffic.bytes_by_role[role])
            new = {name: value - self._before.get(f"{role} {name}", 0.0) for name, value in so_far.items()}
            if new["reads"]:
                row[f"{role}: requests per read"] = new["requests"] / new["reads"]
                row[f"{role}: bytes per read"] = new["bytes"] / new["reads"]
            counts.update({f"{role} {name}": value for name, value in so_far.items()})
        return row


CONFLICTS = ("merge_conflict", "merge_skipped", "merge_void", "credit_conflict", "index_conflict", "manifest_lost")
"""Notes that mean that a commit lost to another one."""


def series(rows: list[Row]) -> dict[str, list[float | None]]:
    """Columns of ``rows``; None where a sample has no such value."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
