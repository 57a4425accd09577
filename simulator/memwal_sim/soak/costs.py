"""What each operation costs in requests, as a linear function of what it depends on, fitted to the engine.

Nothing here knows a number: operations of the engine run on tables of several sizes, each is observed together with its
factors (regions, unmerged generations, entries of the WAL tail, …), and least squares find what each factor costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from memwal.effects import Io
from memwal.ids import RegionId
from memwal.index import regions
from memwal.index.snapshot import RegionRow
from memwal.jobs import collector, merger
from memwal.jobs.collector import Policy
from memwal.maintained import base_index
from memwal.read import scan
from memwal.region.limits import Limits
from memwal.region.opening import open_writer
from memwal.region.region import Region
from memwal.region.writer import RegionWriter
from memwal.revisions import CONFIG_INLINE_REGIONS
from memwal.table import write
from memwal.table.state import latest

from .counting import Counted
from .founding import Founded, found, opened, table_of
from .settings import SoakSettings
from .views import Views

SIZES = (2, 6)
"""Regions of the tables that are measured."""
ROUNDS = 10
WARM = 3
"""Rounds before the first observation: a table whose manifests are its first ones is no usual one."""

SLIGHT = 0.02
"""A factor that never makes up more of an operation's requests than this is none."""

Factors = Mapping[str, float]
"""Name -> how much of it there was. Every operation has the factor `ONCE`."""

ONCE = "once"
PUT, FLUSH, CLAIM, MERGE, SNAPSHOT, STRONG, EVENTUAL, COLLECT = (
    "put", "flush", "claim", "merge pass", "snapshot", "strong read", "eventual read", "collection",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One operation that was run, what it depended on, and what it cost."""

    operation: str
    factors: Factors
    counted: Mapping[str, int]
    """As `Counted.seen`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one operation costs: for each kind of request, a coefficient per factor."""

    operation: str
    coefficients: Mapping[str, Factors]
    """``<scope> <kind>`` -> factor -> requests for one of it."""
    observations: int
    error: float
    """Largest difference of an observation's number of requests to what the coefficients give, relative to it."""

    def of(self, factors: Factors) -> dict[str, float]:
        """Requests of one operation with ``factors``; those that it has no coefficient for count nothing."""
        return {
            kind: sum(each * factors.get(name, 0.0) for name, each in own.items())
            for kind, own in self.coefficients.items()
        }


def fit(observations: Iterable[Observation]) -> dict[str, Cost]:
    """A `Cost` per operation, by least squares over its observations."""
    grouped: dict[str, list[Observation]] = {}
    for one in observations:
        grouped.setdefault(one.operation, []).append(one)
    return {operation: _fitted(operation, own) for operation, own in grouped.items()}


def _fitted(operation: str, own: list[Observation]) -> Cost:
    names = list(dict.fromkeys(name for one in own for name in one.factors))
    matrix = np.array([[one.factors.get(name, 0.0) for name in names] for one in own])
    least = SLIGHT * float(np.mean([sum(one.counted.values()) for one in own]))
    coefficients = {}
    for kind in sorted({kind for one in own for kind in one.counted}):
        wanted = np.array([one.counted.get(kind, 0) for one in own], float)
        coefficients[kind] = _solved(names, matrix, wanted, least)
    cost = Cost(operation=operation, coefficients=coefficients, observations=len(own), error=0.0)
    errors = [abs(sum(cost.of(one.factors).values()) / sum(one.counted.values()) - 1) for one in own]
    return replace(cost, error=max(errors))


def _solved(names: list[str], matrix: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], least: float) -> Factors:
    """Least squares, in which nothing costs less than nothing.

    The factor with the most negative coefficient is left out until there is none; then the one that changes no
    observation by more than ``least`` requests, until there is none. Such a slope would be noise on small tables, and
    a large number on large ones.
    """
    left = list(range(len(names)))
    while left:
        solution = np.linalg.lstsq(matrix[:, left], wanted, rcond=None)[0]
        worst = int(np.argmin(solution))
        if solution[worst] >= 0:
            most = solution * matrix[:, left].max(axis=0)
            slight = [at for at, name in enumerate(left) if most[at] <= (1e-6 if names[name] == ONCE else least)]
            if not slight:
                break
            worst = min(slight, key=most.__getitem__)
        del left[worst]
    return {names[at]: float(x) for at, x in zip(left, solution, strict=True)} if left else {}


@dataclass(slots=True)
class _Life:
    """A table on which operations are run and observed."""

    settings: SoakSettings
    counted: Counted = field(default_factory=Counted)
    observations: list[Observation] = field(default_factory=list)
    writers: dict[str, RegionWriter] = field(default_factory=dict)
    versions: Counter[str] = field(default_factory=Counter)
    founded: Founded | None = None
    number: int = 0

    @property
    def views(self) -> Views:
        return Views(self.counted.store, self.settings.revision_())

    @property
    def io(self) -> Io:
        return self.settings.table()

    @property
    def table(self) -> Founded:
        assert self.founded is not None
        return self.founded

    def note(self, operation: str, factors: Factors) -> None:
        self.observations.append(
            Observation(operation=operation, factors={ONCE: 1, **factors}, counted=dict(self.counted.seen))
        )

    def begin(self, *, inline: bool) -> None:
        rows = dict.fromkeys((f"k{n:06d}" for n in range(0, self.settings.keys, 2)), "0".ljust(8, "~"))
        self.founded = self.counted.run(found(self.settings, rows))
        if not inline:
            self.counted.run(write.set_config(self.io, {CONFIG_INLINE_REGIONS: "0"}))
        for row in self.table.rows:
            self.claim(row)

    def claim(self, row: RegionRow) -> None:
        manifest = self.views.region(row.region_id)
        tail = self._tail(row.region_id)[0] if manifest is not None else 0
        region = opened(self.io, self.table, row)
        self.writers[row.region_id] = self.counted.run(_open(self.io, region))
        if manifest is not None:
            self.note(CLAIM, {"tail entries": tail})

    def put(self, row: RegionRow) -> None:
        keys = self.table.keys[row.region_id]
        self.number += 1
        chosen = {keys[(self.number + n) % len(keys)]: f"{self.number:x}".ljust(8, "~") for n in range(2)}
        writer = self.writers[row.region_id]
        newer = max(self.views.manifest_versions(row.region_id)) > writer.manifest.version
        self.counted.run(writer.put(table_of(chosen)))
        self.note(PUT, {"newer manifest": float(newer)})

    def flush(self, row: RegionRow) -> None:
        writer = self.writers[row.region_id]
        entries = len(writer.memtable.stored)
        self.counted.run(writer.flush())
        self.note(FLUSH, {"entries": entries})

    def _tail(self, region: RegionId) -> tuple[int, int, bool]:
        """Entries of the WAL tail, those of them above the last-seen hint, and whether the hint is in the tail."""
        manifest = self.views.region(region)
        assert manifest is not None
        start = self.views.replay_start(manifest)
        tail = [p for p in self.views.wal_positions(manifest.region_id) if p >= start]
        seen = manifest.position_last_seen
        return len(tail), sum(position > seen for position in tail), seen in tail

    def factors(self) -> dict[str, float]:
        state, tails = self.views.table(), [self._tail(row.region_id) for row in self.table.rows]
        manifests = [m for row in self.table.rows if (m := self.views.region(row.region_id)) is not None]
        unmerged = [g for m in manifests for g in m.flushed if g.generation > state.mem_wal.progress(m.region_id)]
        return {
            "regions": len(self.table.rows),
            "generations": len(unmerged),
            "fragments": len(state.fragments),
            "deletion files": sum(fragment.HasField("deletion_file") for fragment in state.fragments),
            "tail entries": sum(tail for tail, _, _ in tails),
            "unseen entries": sum(unseen for _, unseen, _ in tails),
            "regions with unseen entries": sum(unseen > 0 for _, unseen, _ in tails),
            "regions with a hint in their tail": sum(hinted for _, _, hinted in tails),
        }

    def merge(self) -> None:
        known, before = self.factors(), self.views.table().fragments
        found = sorted(self.counted.run(regions.discover(self.io, self.settings.revision_())))
        seen = self.counted.seen.copy()
        merged, _ = self.counted.run(merger.merge_regions(self.io, found, commit_every=self.settings.commit_every))
        self.counted.seen += seen
        left = {fragment.SerializeToString() for fragment in self.views.table().fragments}
        commits = max((each.commit for each in merged), default=0)
        self.note(
            MERGE,
            {
                "regions": known["regions"],
                "generations": known["generations"],
                "commits": commits,
                "commits x fragments": commits * len(before),
                "fragments that lose rows": sum(fragment.SerializeToString() not in left for fragment in before),
            },
        )

    def snapshot(self) -> None:
        known = self.factors()
        stored = self.counted.run(regions.known(self.io, self.views.table()))
        kept = {row.region_id: row.manifest.version for row in stored if row.manifest is not None}
        live = [found for row in self.table.rows if (found := self.views.region(row.region_id)) is not None]
        newer = sum(found.version > kept.get(found.region_id, 0) for found in live)
        self.counted.run(regions.build_snapshot(self.io))
        names = ("regions", "unseen entries", "regions with unseen entries", "regions with a hint in their tail")
        self.note(SNAPSHOT, {**{name: known[name] for name in names}, "regions with a newer manifest": newer})

    def read(self) -> None:
        known = self.factors()
        self.counted.run(scan.scan(self.io))
        names = ("regions", "generations", "tail entries", "fragments", "deletion files")
        self.note(STRONG, {name: known[name] for name in names})

        state = self.views.table()
        rows = self.counted.run(regions.known(self.io, state))
        listed = [(row.region_id, g.generation) for row in rows if row.manifest for g in row.manifest.flushed]
        unmerged = sum(generation > state.mem_wal.progress(region) for region, generation in listed)
        self.counted.run(_eventual(self.io))
        self.note(
            EVENTUAL, {**{name: known[name] for name in names if name != "tail entries"}, "generations": unmerged}
        )

    def collect(self, retain_versions: int) -> None:
        known = self.factors()
        policy = Policy(retain_versions=retain_versions, retain_manifests=self.settings.retain_manifests)
        listed = {row.region_id: self.views.region(row.region_id) for row in self.table.rows}
        decided = self.counted.run(collector.collect(self.io, policy))
        self.counted.pass_time(1000)
        gone = Counter(one.kind for one in decided if one.collected)
        kept = Counter(one.kind for one in decided if not one.collected)
        changed = sum(
            before is not None and (after := self.views.region(region)) is not None and after.version > before.version
            for region, before in listed.items()
        )
        self.note(
            COLLECT,
            {
                "regions": known["regions"],
                "regions with collected generations": changed,
                "generations collected": gone["generation"],
                "generations kept": kept["generation"],
                "WAL entries collected": gone["wal"],
                "manifests collected": gone["manifest"],
                "versions kept": kept["version"],
                "versions collected": gone["version"],
                "files collected": sum(gone[kind] for kind in ("data", "deletion", "index", "transaction")),
            },
        )


async def _open(io: Io, region: Region) -> RegionWriter:
    maintained = await base_index.load(io, await latest(io))
    return await open_writer(region, limits=Limits(memtable_entries=10_000), maintained=maintained)


async def _eventual(io: Io) -> int:
    return int((await scan.scan(io, version=await latest(io))).num_rows)


def _live(life: _Life, rounds: int) -> None:
    """Rounds of everything, in which the numbers of puts, flushes and merges vary; the first `WARM` are not kept."""
    for turn in range(rounds):
        if turn == WARM:
            life.observations.clear()
        for at, row in enumerate(life.table.rows):
            for _ in range(1 + (turn + at) % 4):
                life.put(row)
            if (turn + at) % 3:
                life.flush(row)
                if (turn + at) % 5 == 0:
                    life.put(row)
            if (turn * 7 + at) % 6 == 0:
                life.claim(row)
        if turn % 2:
            life.read()
        life.snapshot()
        if turn % 3 != 1:
            life.merge()
        if turn % 4 == 0:
            life.merge()
        life.read()
        if turn != 1:
            life.collect(2 + turn % 3)
        life.snapshot()


@cache
def measured(revision: str, *, collection: bool, inline: bool) -> dict[str, Cost]:
    """The costs under ``revision``; ``collection``: WAL entries and manifest versions may be collected.

    ``inline``: the region snapshot is kept inside the index, as it is for few regions. Takes some seconds.
    """
    observations: list[Observation] = []
    for count in SIZES:
        settings = SoakSettings(
            revision=revision,
            regions=count,
            keys=12 * count,
            commit_every=2,
            wal_collection=collection,
            manifest_collection=collection,
        )
        life = _Life(settings)
        life.begin(inline=inline)
        _live(life, ROUNDS)
        observations += life.observations
    return fit(observations)
