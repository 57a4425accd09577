"""What the store holds, decoded from its objects directly: no protocol code, no requests, no time.

Oracles and samples look at it this way, so that they neither disturb the run nor share its way of finding things.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from memwal import paths
from memwal.codec import region_manifest, table_manifest
from memwal.codec.region_manifest import RegionManifest
from memwal.errors import NotFound
from memwal.ids import Generation, RegionId, WalPosition, region_id
from memwal.revisions import Revision
from memwal.stores.memory import Objects
from memwal.table import versions
from memwal.table.state import TableState

ROOT = "table"
"""Folder of the table in the store."""
_MEM_WAL = f"{ROOT}/{paths.MEM_WAL}"


@lru_cache(maxsize=64)
def _table_state(data: bytes, path: str) -> TableState:
    return TableState(table_manifest.decode(data, path), path)


@lru_cache(maxsize=4096)
def _region_manifest(data: bytes, revision: Revision, path: str) -> RegionManifest:
    return region_manifest.decode(data, revision, path)


class Views:
    """The newest versions in a store of the table and of its regions."""

    def __init__(self, store: Objects, revision: Revision) -> None:
        self._store, self.revision = store, revision

    def table(self, root: str = ROOT) -> TableState:
        """The newest version of the table in the folder ``root``. Raises `NotFound`."""
        names = {}
        for path in self._store.listed(f"{root}/{paths.VERSIONS}"):
            parsed = versions.parse(path.removeprefix(f"{root}/"))
            if parsed is not None:
                names[parsed[0]] = path
        if not names:
            raise NotFound(f"{root}/{paths.VERSIONS}")
        newest = names[max(names)]
        return _table_state(self._store[newest], newest)

    def region_ids(self) -> Iterator[RegionId]:
        """Regions that have a folder, sorted."""
        return (region_id(name) for name in self._store.folders(_MEM_WAL))

    def manifest_versions(self, region: RegionId) -> dict[int, str]:
        """Version -> name of each region manifest."""
        found = {}
        for path in self._store.listed(f"{_MEM_WAL}/{region}/manifest"):
            version = paths.manifest_version(path)
            if version is not None:
                found[int(version)] = path
        return found

    def region(self, region: RegionId) -> RegionManifest | None:
        """The newest manifest of the region; None before the first claim."""
        names = self.manifest_versions(region)
        if not names:
            return None
        newest = names[max(names)]
        return _region_manifest(self._store[newest], self.revision, newest)

    def wal_positions(self, region: RegionId) -> list[WalPosition]:
        """Positions of the WAL entries that are there, ascending."""
        names = self._store.listed(f"{_MEM_WAL}/{region}/wal")
        found = (paths.wal_position(name, self.revision.wal_suffix) for name in names)
        return sorted(position for position in found if position is not None)

    def replay_start(self, manifest: RegionManifest) -> WalPosition:
        """First position whose rows are in no generation."""
        if manifest.generation_current == self.revision.generation_first:
            return self.revision.first_position
        return WalPosition(manifest.position_replay_after + 1)

    def named_entries(self, manifest: RegionManifest) -> set[str]:
        """File names of the WAL entries that listed generations refer to through a base path (A)."""
        if self.revision.self_contained:
            return set()
        folders = (f"{_MEM_WAL}/{manifest.region_id}/{listed.path}" for listed in manifest.flushed)
        fragments = (fragment for folder in folders for fragment in self.table(folder).fragments)
        return {file.path for fragment in fragments for file in fragment.files if file.HasField("base_id")}

    def merged(self, region: RegionId) -> Generation:
        """Last generation of the region that is in the newest table version."""
        return self.table().mem_wal.progress(region)

    def bytes_by_place(self) -> dict[str, int]:
        """Bytes of objects by what they belong to: see `PLACES`."""
        sizes = dict.fromkeys(PLACES, 0)
        for path, data in self._store.items():
            sizes[place_of(path)] += len(data)
        return sizes


PLACES = ("WAL", "generations", "region manifests", "base data", "base indexes", "table versions")
"""What the objects of a table belong to."""


def place_of(path: str) -> str:
    """The one of `PLACES` that the object belongs to."""
    below = path.removeprefix(f"{ROOT}/")
    first, _, rest = below.partition("/")
    if first == paths.MEM_WAL:
        second = rest.partition("/")[2].partition("/")[0]
        return {"wal": "WAL", "manifest": "region manifests"}.get(second, "generations")
    if first in (paths.DATA, paths.DELETIONS):
        return "base data"
    return "base indexes" if first == paths.INDICES else "table versions"
