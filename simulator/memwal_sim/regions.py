"""What a store shows of its regions and its table, as fields of the abstract machine (`memwal_model`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyroaring
from memwal import paths
from memwal.codec import region_manifest, table_manifest, wal
from memwal.effects import Io
from memwal.errors import MemwalError
from memwal.ids import RegionId
from memwal.revisions import STRICT, Revision
from memwal.table import read, reuse
from memwal.table.collected import collected_points
from memwal.table.state import TableState
from memwal_model.course import SEEN, Partial
from memwal_model.machine import ASSUMPTIONS

from .store import Contents


@dataclass(frozen=True, slots=True)
class _Table:
    """What one table manifest says."""

    progress: Mapping[RegionId, int]
    fragments: int
    """A number that stands for its fragments, in this process."""
    parts: frozenset[Hashable]
    """What stands for each fragment, whatever is deleted in it."""
    missing: Mapping[str, frozenset[Hashable]]
    """Of each index that records what it covers: the parts that it does not."""
    caught_up: Mapping[str, Mapping[RegionId, int]]
    """Of each maintained index, or one that has an entry, what it is credited with."""
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
        details = state.mem_wal
        caught_up: dict[str, Mapping[RegionId, int]] = {name: {} for name in details.maintained_indexes}
        caught_up |= {each.index_name: dict(each.generations) for each in details.catchup}
        parts = {each.id: (each.id, *(file.path for file in each.files)) for each in state.fragments}
        return _Table(
            progress=dict(details.merged),
            fragments=_fragments(state),
            parts=frozenset(parts.values()),
            missing={name: frozenset(parts[each] for each in _missing(state, name)) for name in caught_up},
            caught_up=caught_up,
            collected=collected_points(state),
        )
    except MemwalError:
        return None


def _missing(state: TableState, name: str) -> frozenset[int]:
    """Fragments that an index does not cover; none if it does not say. Nothing of the engine's is asked for that."""
    entries = [entry for entry in state.manifest.indices if entry.name == name]
    if not all(entry.fragment_bitmap for entry in entries):
        return frozenset()
    named = frozenset[int]().union(*(pyroaring.BitMap.deserialize(entry.fragment_bitmap) for entry in entries))
    return frozenset(fragment.id for fragment in state.fragments) - reuse.fragments(named, state.moves)


def _fragments(state: TableState) -> int:
    return hash(tuple(each.SerializeToString(deterministic=True) for each in state.fragments))


@lru_cache(maxsize=4096)
def _manifest(data: bytes, revision: Revision, name: str) -> region_manifest.RegionManifest | None:
    try:
        return region_manifest.decode(data, revision, name)
    except MemwalError:
        return None


@lru_cache(maxsize=4096)
def _named(data: bytes, folder: str) -> frozenset[str]:
    """The data files that the manifest of a generation names; what cannot be read others say."""
    try:
        state, io = TableState(table_manifest.decode(data, folder), folder), Io(folder, interpretation=STRICT)
        files = [file for fragment in state.fragments for file in fragment.files]
        return frozenset(io.path(read.file_path(io, state, file)) for file in files)
    except (MemwalError, ValueError):
        return frozenset()


def _whole(folder: str, names: Iterable[str], contents: Contents) -> bool:
    """Whether a generation has a manifest, and the files that its newest one names."""
    inside = (name for name in names if name.startswith(f"{folder}/{paths.VERSIONS}/"))
    versions = {paths.table_version(name.removeprefix(f"{folder}/")) or 0: name for name in inside}
    return bool(versions) and all(
        name in contents for name in _named(contents.objects[versions[max(versions)]], folder)
    )


EntryRows = frozenset[frozenset[str]]
"""Rows of a WAL entry, each as the words of its cells; a task that is finished with it is a row without cells."""


@lru_cache(maxsize=4096)
def _entry(data: bytes, revision: Revision, name: str) -> tuple[int, EntryRows] | None:
    """Epoch of a WAL entry, and its rows."""
    try:
        found = wal.decode(data, revision, name)
    except MemwalError:
        return None
    rows = (frozenset(str(cell) for cell in row.values() if cell is not None) for row in found.rows.to_pylist())
    return found.epoch, frozenset((*rows, *(frozenset() for _ in found.done)))


@dataclass(slots=True)
class RegionsSeen:
    """Reads stores; what it has read it remembers."""

    revision: Revision
    _seen: dict[Contents, dict[RegionId, Partial]] = field(default_factory=dict)

    def nothing(self, region: RegionId, contents: Contents) -> Partial:
        """What a store shows of a region that is not there yet: the table."""
        return {**_nothing(self.revision), **self._of_table(region, self._tables(contents))}

    def regions(self, contents: Contents) -> dict[RegionId, Partial]:
        """What a store shows of each region but those of which something cannot be read: what is wrong others say."""
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
        found = {region: self._region(region, inside, contents, tables) for region, inside in files.items()}
        return {region: seen for region, seen in found.items() if seen is not None}

    def _tables(self, contents: Contents) -> Mapping[int, _Table | None]:
        versions = ((paths.table_version(name), name) for name in contents.below(paths.VERSIONS))
        return {version: _table(contents.objects[name], name) for version, name in versions if version is not None}

    def _region(
        self, region: RegionId, files: list[tuple[str, str]], contents: Contents, tables: Mapping[int, _Table | None]
    ) -> Partial | None:
        state = _nothing(self.revision)
        versions = {}
        for inside, name in files:
            data = contents.objects[name]
            folder, _, last = inside.partition("/")
            version = paths.manifest_version(last) if folder == "manifest" else None
            position = paths.wal_position(last, self.revision.wal_suffix) if folder == "wal" else None
            if version is not None:
                versions[version] = data, name
            elif position is not None:
                found = _entry(data, self.revision, name)
                if found is None:
                    return None
                state["entry"][(position,)] = True
                state["written"][(position,)], state["rows"][(position,)] = found
        if versions:
            data, name = versions[max(versions)]
            manifest = _manifest(data, self.revision, name)
            if manifest is None:
                return None
            state["version"] = {(): max(versions)}
            state["epoch"] = {(): manifest.epoch}
            state["pointer"] = {(): manifest.position_replay_after}
            state["hint"] = {(): manifest.position_last_seen}
            state["current"] = {(): manifest.generation_current}
            state["listed"] = {(each.generation,): True for each in manifest.flushed}
            names = [name for _, name in files]
            state["files"] = {
                (each.generation,): _whole(f"{paths.region(region)}/{each.path}", names, contents)
                for each in manifest.flushed
            }
        return {**state, **self._of_table(region, tables)}

    def _of_table(self, region: RegionId, tables: Mapping[int, _Table | None]) -> Partial:
        if not tables:
            return {}
        top = tables[max(tables)]
        read = {(version,): found for version, found in tables.items() if found is not None}
        return {
            "newest": {(): max(tables)},
            "retained": {place: True for place, found in read.items() if found.restorable(region, top)},
            "fragments": {place: found.fragments for place, found in read.items()},
            "caught_up": {
                (version, name): credit.get(region, 0)
                for (version,), found in read.items()
                for name, credit in found.caught_up.items()
            },
            "progress": {place: found.progress.get(region, 0) for place, found in read.items()},
            "parts": {place: found.parts for place, found in read.items()},
            "missing": {
                (*place, name): lacks for place, found in read.items() for name, lacks in found.missing.items()
            },
        }


def _nothing(revision: Revision) -> dict[str, dict[tuple[Any, ...], Any]]:
    """What is seen of a region that is not there; no table either."""
    return {
        "first": {(): revision.first_position},
        "barrier_first": {(): revision.barrier_on_first_claim},
        **{name: {(): True} for name in ASSUMPTIONS},
        **{name: {} for name in (*SEEN, "rows", "fragments", "parts", "missing")},
        "current": {(): revision.generation_first},
    }
