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
from memwal.table.state import TableState
from memwal.violations import Violation
from memwal_model.machine import ASSUMPTIONS
from memwal_model.refinement import SEEN, Partial, Refused, explained

from .store import Contents
from .world import REFINEMENT


@dataclass(frozen=True, slots=True)
class _Table:
    """What one table manifest says."""

    progress: Mapping[RegionId, int]


@lru_cache(maxsize=4096)
def _table(data: bytes, name: str) -> _Table | None:
    """None for a manifest that cannot be read, or without MemWAL: what is wrong there others say."""
    try:
        state = TableState(table_manifest.decode(data, name), name)
        return None if state.mem_wal_entry is None else _Table(dict(state.mem_wal.merged))
    except MemwalError:
        return None


@lru_cache(maxsize=4096)
def _manifest(data: bytes, revision: Revision, name: str) -> region_manifest.RegionManifest | None:
    try:
        return region_manifest.decode(data, revision, name)
    except MemwalError:
        return None


@lru_cache(maxsize=4096)
def _epoch(data: bytes, revision: Revision, name: str) -> int:
    """Epoch of a WAL entry; 0 if it cannot be read."""
    try:
        return wal.decode(data, revision, name).epoch
    except MemwalError:
        return 0


@dataclass(slots=True)
class Refinement:
    """Judges changes of a store; what it has judged it remembers."""

    revision: Revision
    _seen: dict[Contents, dict[RegionId, Partial]] = field(default_factory=dict)

    def __call__(self, before: Contents, after: Contents) -> Violation | None:
        """The change from ``before`` to ``after`` as a violation; None if it is a step, or nothing that is seen."""
        old, new = self._regions(before), self._regions(after)
        for region, now in new.items():
            then = old.get(region) or self._region(region, [], before, self._tables(before))
            # The machine remembers the progress of expired versions, and nobody takes their numbers anew: against that
            # the collector has its grace time. Where there is none, a late commit may; readers go by the newest.
            late = {t for t in now["retained"] if t not in then["retained"] and t < (then["newest"].get((), 0),)}
            retained = {t: True for t in now["retained"] if t not in late}
            progress = {**then["progress"], **{t: value for t, value in now["progress"].items() if t not in late}}
            found = explained(then, {**now, "retained": retained, "progress": progress})
            if isinstance(found, Refused):
                near = f"; nearest is {found.nearest[0]}, but {found.because}" if found.nearest else ""
                reason = f"no step of the machine makes {'; '.join(found.changed)} of region {region}{near}"
                return Violation("ENGINE", REFINEMENT, reason)
        return None

    def _regions(self, contents: Contents) -> dict[RegionId, Partial]:
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
                state["written"][(position,)] = _epoch(data, self.revision, name)
        if tables:
            state["newest"] = {(): max(tables)}
            state["retained"] = {(each,): True for each in tables}
            state["progress"] = {(each,): found.progress.get(region, 0) for each, found in tables.items() if found}
        return state


def _nothing(revision: Revision) -> dict[str, dict[tuple[Any, ...], Any]]:
    """What is seen of a region that is not there; no table either."""
    return {
        "first": {(): revision.first_position},
        "barrier_first": {(): revision.barrier_on_first_claim},
        **{name: {(): True} for name in ASSUMPTIONS},
        **{name: {} for name in SEEN},
        "current": {(): revision.generation_first},
    }
