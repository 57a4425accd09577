"""Tables to collect on: in memory, with a clock that the test moves, and with what readers and listings see."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import memwal
import pytest
from memwal import paths
from memwal.codec import table_manifest
from memwal.codec.index_details import IndexCatchup
from memwal.codec.pb.lance import table_pb2
from memwal.codec.region_manifest import RegionManifest
from memwal.effects import StoreRequest
from memwal.ids import Generation, RegionId, TableVersion
from memwal.jobs.collector import Decision, Policy, collect
from memwal.read import scan as reading
from memwal.region import manifest as manifests
from memwal.revisions import REVISIONS
from memwal.table.state import TableState

from . import tables
from .ground import READS, Ground, row
from .tables import IO, by_id, changed, flush, history, objects_below

REVISIONS_ALL = ("A", "B", "R")
EVERY = pytest.mark.parametrize("revision", REVISIONS_ALL)
BOTH = {"wal_collection": True, "manifest_collection": True}


@dataclass
class Clock:
    """What `memwal.drive` takes for the time; a second later at each look, and later still when the test says so."""

    now_ms: int = 1_800_000_000_000

    def time(self) -> float:
        self.now_ms += 1000
        return self.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def table(ground: Ground, revision: str = "B", **options: Any) -> memwal.Table:
    """A new table with the columns ``id``, the key, and ``v``; everything may be collected unless options say no."""
    return tables.table(ground, revision, **{**BOTH, **options})


def generation(made: memwal.Table, region: str | None, *pairs: tuple[int, str]) -> str:
    """Write and flush one generation, one WAL entry per pair; returns the region."""
    return flush(made, [row(key, value) for key, value in pairs], region=region)


@cache
def _busy(revision: str) -> tuple[dict[str, bytes], str]:
    ground = Ground()
    made = table(ground, revision)
    made.base.append(row(1, "base"))
    region = generation(made, None, (1, "one"), (2, "two"))
    generation(made, region, (2, "newer"), (3, "three"))
    made.snapshot()
    made.merge()
    generation(made, region, (4, "four"))
    made.snapshot()
    with made.writer(region, background=False) as writer:
        writer.put(row(5, "five"))
    return ground.objects, region


BUSY_ROWS = {1: "one", 2: "newer", 3: "three", 4: "four", 5: "five"}


def busy(revision: str) -> tuple[Ground, RegionId]:
    """A table with `BUSY_ROWS`: generations 1 and 2 merged and listed, 3 only listed, and a row in the WAL only."""
    objects, region = _busy(revision)
    return Ground(objects), RegionId(region)


def run(ground: Ground, *, dry_run: bool = False, sizes: bool = False, **policy: Any) -> tuple[Decision, ...]:
    """Collect with this policy."""
    return ground.run(collect(IO, Policy(**policy), dry_run=dry_run, sizes=sizes))


def strong(ground: Ground) -> dict[int, str]:
    """What a strong reader sees."""
    return by_id(ground.run(reading.scan(IO)))


def at_version(ground: Ground, state: TableState) -> dict[int, str]:
    """What a reader of that version sees: its base and its own region snapshot."""
    return by_id(ground.run(reading.scan(IO, version=state)))


def newest_manifest(ground: Ground, region: RegionId, revision: str) -> RegionManifest:
    """The region's manifest as a reader finds it."""
    return ground.run(manifests.require(manifests.folder(IO, region), REVISIONS[revision]))


def listed(ground: Ground, region: RegionId, revision: str) -> list[int]:
    """Generations that the region's manifest lists."""
    return [g.generation for g in newest_manifest(ground, region, revision).flushed]


def folders(ground: Ground, region: RegionId) -> list[int]:
    """Numbers of the generation folders that hold any object."""
    names = {name.partition("/")[0] for name in objects_below(ground, paths.region(region))}
    return sorted(number for name in names if (number := paths.generation_number(name)) is not None)


def wal_positions(ground: Ground, region: RegionId, revision: str) -> list[int]:
    """Positions of the WAL entries that are there."""
    suffix = REVISIONS[revision].wal_suffix
    found = (paths.wal_position(name, suffix) for name in objects_below(ground, f"{paths.region(region)}/wal"))
    return sorted(int(position) for position in found if position is not None)


def manifest_versions(ground: Ground, region: RegionId) -> list[int]:
    """Versions of the region manifest that are there."""
    names = objects_below(ground, f"{paths.region(region)}/manifest")
    return sorted(int(version) for name in names if (version := paths.manifest_version(name)) is not None)


def reasons(decisions: Iterable[Decision], kind: str, *, collected: bool = False) -> list[str]:
    """Reasons of the decisions on things of a kind, in order."""
    return [d.reason for d in decisions if d.kind == kind and d.collected == collected]


def catch_up(ground: Ground, entries: dict[str, dict[str, int]], maintained: tuple[str, ...]) -> TableState:
    """Set the maintained indexes and how far each has caught up, per region."""
    found = tuple(
        IndexCatchup(index_name=name, generations=tuple((RegionId(r), Generation(g)) for r, g in generations.items()))
        for name, generations in entries.items()
    )
    return changed(ground, lambda d: replace(d, maintained_indexes=maintained, catchup=found))


def clocked(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the test moves, in place of the time of this machine."""
    found = Clock()
    monkeypatch.setattr("memwal.drive.time", found)
    return found


def one_merged(ground: Ground, revision: str = "B") -> RegionId:
    """A table whose generation 1 is merged."""
    made = table(ground, revision)
    region = RegionId(generation(made, None, (1, "a")))
    made.merge()
    return region


def enabled_history(ground: Ground) -> list[TableState]:
    """Versions on which MemWAL is enabled."""
    return [state for state in history(ground) if state.mem_wal_entry is not None]


def tag(ground: Ground, name: str, version: int, **more: object) -> None:
    """Tag a version, as pylance does."""
    ground.objects[f"t/_refs/tags/{name}.json"] = json.dumps({"version": version, **more}).encode()


def orphan(ground: Ground, region: RegionId, number: int, prefix: str = "0badf00d", made_ms: int = 0) -> str:
    """A folder as a flush leaves it that failed before its commit."""
    folder = f"{paths.region(region)}/{paths.generation(prefix, Generation(number))}"
    ground.objects[f"t/{folder}/bloom_filter.bin"] = b"x"
    if made_ms:
        message = table_pb2.Manifest(version=1)
        message.timestamp.FromMilliseconds(made_ms)
        data = table_manifest.encode(table_manifest.TableManifest(message=message))
        ground.objects[f"t/{folder}/{paths.table_manifest(TableVersion(1))}"] = data
    return folder


def changes(ground: Ground, since: int) -> list[StoreRequest[Any]]:
    """Requests that change something, of all but the first ``since``."""
    return [request for request in ground.asked[since:] if not isinstance(request, READS)]
