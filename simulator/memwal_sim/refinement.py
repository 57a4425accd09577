"""Refinement: every change of a simulated store is a step of the abstract machine, or none that the machine sees.

The machine is `memwal_model`. What a store shows of a region is decoded here; what only processes know stays open, so
that a step is refused only if no process could have made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from memwal import paths
from memwal.codec import region_manifest, table_manifest, wal
from memwal.errors import MemwalError
from memwal.ids import RegionId
from memwal.revisions import Revision
from memwal.table.collected import collected_points
from memwal.table.state import TableState
from memwal.violations import Violation
from memwal_model.following import SEEN, Partial, Stopped, begun, follow
from memwal_model.machine import ASSUMPTIONS

from .store import Contents
from .world import REFINEMENT


@dataclass(frozen=True, slots=True)
class _Table:
    """What one table manifest says."""

    progress: Mapping[RegionId, int]
    fragments: int
    """A number that stands for its fragments, in this process."""
    collected: Mapping[RegionId, int]
    """Per region the point below whose merging nothing may be restored."""

    def restorable(self, region: RegionId, newest: _Table | None) -> bool:
        """Whether it may become the newest again."""
        return newest is None or self.progress.get(region, 0) >= newest.collected.get(region, 0)


@lru_cache(maxsize=4096)
def _table(data: bytes, name: str) -> _Table | None:
    """None for a manifest that cannot be read, or without MemWAL: what is wrong there others say."""
    try:
        state = TableState(table_manifest.decode(data, name), name)
        if state.mem_wal_entry is None:
            return None
        return _Table(dict(state.mem_wal.merged), _fragments(state), collected_points(state))
    except MemwalError:
        return None


def _fragments(state: TableState) -> int:
    return hash(tuple(each.SerializeToString(deterministic=True) for each in state.fragments))


@lru_cache(maxsize=4096)
def _manifest(data: bytes, revision: Revision, name: str) -> region_manifest.RegionManifest | None:
    try:
        return region_manifest.decode(data, revision, name)
    except MemwalError:
        return None


@lru_cache(maxsize=4096)
def _entry(data: bytes, revision: Revision, name: str) -> tuple[int, bool]:
    """Epoch of a WAL entry, and whether it has rows; 0 if it cannot be read."""
    try:
        found = wal.decode(data, revision, name)
    except MemwalError:
        return 0, False
    return found.epoch, found.rows.num_rows > 0 or bool(found.done)


@dataclass(slots=True)
class Refinement:
    """Judges changes of a store; what it has judged it remembers."""

    revision: Revision
    _seen: dict[Contents, dict[RegionId, Partial]] = field(default_factory=dict)

    def __call__(self, before: Contents, after: Contents) -> Violation | None:
        """The change from ``before`` to ``after`` as a violation; None if it is a step, or nothing that is seen."""
        old, new = self.regions(before), self.regions(after)
        for region, now in new.items():
            then = old.get(region) or self.nothing(region, before)
            found = follow(begun(then, collects_wal=True), now)
            if isinstance(found, Stopped):
                return Violation("ENGINE", REFINEMENT, f"region {region}: {found}")
        return None

    def nothing(self, region: RegionId, contents: Contents) -> Partial:
        """What a store shows of a region that is not there yet: the table."""
        return self._region(region, [], contents, self._tables(contents))

    def regions(self, contents: Contents) -> dict[RegionId, Partial]:
        """What a store shows of each region."""
        known = self._seen.get(contents)
        if known is None:
            known = self._seen[contents] = self._read(contents)
        return known

    def _read(self, contents: Contents) -> dict[RegionId, Partial]:
        files: dict[RegionId, list[tuple[str, str]]] = {}
        for name in contents.below(paths.MEM_WAL):
            region, _, inside = name.removeprefix(f"{paths.MEM_WAL}/").partition("/")
            files.setdefault(RegionId(region), []).append((inside, name))
        tables = self._tables(contents)
        return {region: self._region(region, inside, contents, tables) for region, inside in files.items()}

    def _tables(self, contents: Contents) -> Mapping[int, _Table | None]:
        versions = ((paths.table_version(name), name) for name in contents.below(paths.VERSIONS))
        return {version: _table(contents.objects[name], name) for version, name in versions if version is not None}

    def _region(
        self, region: RegionId, files: list[tuple[str, str]], contents: Contents, tables: Mapping[int, _Table | None]
    ) -> Partial:
        state = _nothing(self.revision)
        newest = 0
        for inside, name in files:
            data = contents.objects[name]
            folder, _, last = inside.partition("/")
            version = paths.manifest_version(last) if folder == "manifest" else None
            position = paths.wal_position(last, self.revision.wal_suffix) if folder == "wal" else None
            if version is not None and version > newest and (manifest := _manifest(data, self.revision, name)):
                newest = version
                state["version"] = {(): version}
                state["epoch"] = {(): manifest.epoch}
                state["pointer"] = {(): manifest.position_replay_after}
                state["hint"] = {(): manifest.position_last_seen}
                state["current"] = {(): manifest.generation_current}
                state["listed"] = {(each.generation,): True for each in manifest.flushed}
            elif position is not None:
                state["entry"][(position,)] = True
                epoch, rows = _entry(data, self.revision, name)
                state["written"][(position,)] = epoch
                state["rows"][(position,)] = rows
        if tables:
            state["newest"] = {(): max(tables)}
            top = tables[max(tables)]
            state["retained"] = {
                (each,): True for each, found in tables.items() if found and found.restorable(region, top)
            }
            state["fragments"] = {(each,): found.fragments for each, found in tables.items() if found}
            state["progress"] = {(each,): found.progress.get(region, 0) for each, found in tables.items() if found}
        return state


def _nothing(revision: Revision) -> dict[str, dict[tuple[Any, ...], Any]]:
    """What is seen of a region that is not there; no table either."""
    return {
        "first": {(): revision.first_position},
        "barrier_first": {(): revision.barrier_on_first_claim},
        **{name: {(): True} for name in ASSUMPTIONS},
        **{name: {} for name in (*SEEN, "rows", "fragments")},
        "current": {(): revision.generation_first},
    }
