"""Small tables with every kind of object, and ways to damage their objects so that just one invariant breaks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import memwal
import pyarrow as pa
import pyarrow.compute as pc
from memwal import invariants, paths
from memwal.codec import index_details, region_manifest, table_manifest, wal
from memwal.codec.index_details import IndexDetails
from memwal.codec.pb.lance import table_pb2
from memwal.codec.region_manifest import RegionManifest
from memwal.codec.table_manifest import TableManifest
from memwal.codec.wal import WalEntry
from memwal.drive import drive
from memwal.effects import Io
from memwal.ids import ManifestVersion, RegionId, WalPosition
from memwal.invariants import Report
from memwal.revisions import REVISIONS, STRICT, R
from memwal.table import versions as naming

from .ground import Ground

KEY = pa.field("id", pa.int64(), nullable=False)
SCHEMA = pa.schema([KEY, pa.field("name", pa.string()), pa.field("value", pa.int32())])


def rows(*triples: tuple[int, str | None, int | None]) -> pa.Table:
    """Rows of `SCHEMA`."""
    return pa.table([list(column) for column in zip(*triples, strict=True)], schema=SCHEMA)


def verify(store: Ground, root: str = "t", **options: Any) -> Report:
    """All invariants over the table at ``root``."""
    return drive(invariants.verify(Io(root, interpretation=STRICT), **options), store)


def whole(revision: str) -> Scene:
    """A copy of a table in which nothing is wrong: see `_built`."""
    store, regions = _built(revision)
    return Scene(store.copy(), revision, regions)


@cache
def _built(revision: str) -> tuple[Ground, tuple[RegionId, ...]]:
    """Base rows, some deleted; two regions with two claims, three generations and unflushed entries each.

    Generation 1 of the first region is merged; a snapshot has seen all that; the oldest version is tagged.
    """
    store = Ground()
    spec = memwal.region_spec([memwal.bucket("bucket", ["id"], 2)])
    table = memwal.create("t", SCHEMA, primary_key=["id"], revision=revision, spec=spec, store=store)
    table.base.append(rows(*((i, "base", 0) for i in range(100, 110))))
    many = rows(*((i, f"name {i}", i) for i in range(40)))
    buckets = table.region_values(many).column("bucket")
    regions = []
    for bucket in (0, 1):
        mine = many.filter(pc.equal(buckets, bucket))
        with table.writer(values={"bucket": bucket}) as writer:
            regions.append(writer.region_id)
            writer.put(mine.slice(0, 3))
            writer.put(mine.slice(1, 1))
            writer.flush()
            writer.put(mine.slice(3, 3))
            writer.flush()
        with table.writer(writer.region_id) as again:
            again.put(mine.slice(2, 3))
            again.flush()
            again.put(mine.slice(6, 2))
            again.put(mine.slice(7, 1))
    table.snapshot()
    _merge_one(store, regions[0])
    table.base.delete("id = 103")
    store.objects["t/_refs/tags/first.json"] = b'{"version": 1}'
    return store, tuple(regions)


class Killed(Exception):
    """Ends a job from outside."""


def _merge_one(store: Ground, region: RegionId) -> None:
    """Merge the first generation of ``region``: a merger that dies before the second."""

    def kill(event: str, fields: dict[str, object]) -> None:
        if event == "merged":
            raise Killed

    with contextlib.suppress(Killed):
        memwal.open("t", store=store, listener=kill).merge(region)


class Scene:
    """A table in a dictionary, and how to change its objects behind every process's back."""

    def __init__(self, store: Ground, revision: str, regions: tuple[RegionId, ...]) -> None:
        self.store, self.objects = store, store.objects
        self.revision = REVISIONS[revision]
        self.regions = regions

    def copy(self) -> Scene:
        """Another one, to be damaged in another way."""
        return Scene(self.store.copy(), self.revision.name, self.regions)

    def written(self, folder: Path) -> Path:
        """The table as files below ``folder``; its place."""
        for name, data in self.objects.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder / "t"

    @property
    def table(self) -> memwal.Table:
        """The table through the public interface."""
        return memwal.open("t", store=self.store)

    @property
    def region(self) -> str:
        """Folder of the first region."""
        return f"t/_mem_wal/{self.regions[0]}"

    def verify(self, **options: Any) -> Report:
        """All invariants."""
        return verify(self.store, **options)

    # Region manifests

    def manifest_path(self, version: int) -> str:
        return f"{self.region}/{paths.manifest(ManifestVersion(version))}"

    @property
    def manifest_versions(self) -> list[int]:
        folder = f"{self.region}/manifest/"
        return sorted(v for n in self.objects if n.startswith(folder) and (v := paths.manifest_version(n)) is not None)

    def manifest(self, version: int | None = None) -> RegionManifest:
        path = self.manifest_path(self.manifest_versions[-1] if version is None else version)
        return region_manifest.decode(self.objects[path], self.revision, path)

    def change_manifest(self, version: int | None = None, **changes: Any) -> str:
        """Rewrite a manifest version in place; returns its path."""
        before = self.manifest(version)
        path = self.manifest_path(before.version)
        self.objects[path] = region_manifest.encode(replace(before, **changes), self.revision)
        return path

    def add_manifest(self, **changes: Any) -> str:
        """One more version; returns its path."""
        newest = self.manifest()
        after = replace(newest, version=ManifestVersion(newest.version + 1), **changes)
        path = self.manifest_path(after.version)
        self.objects[path] = region_manifest.encode(after, self.revision)
        return path

    # WAL

    def wal_path(self, position: int) -> str:
        return f"{self.region}/{paths.wal(WalPosition(position), self.revision.wal_suffix)}"

    @property
    def positions(self) -> list[int]:
        found = (paths.wal_position(n, self.revision.wal_suffix) for n in self.objects if n.startswith(self.region))
        return sorted(p for p in found if p is not None)

    def entry(self, position: int) -> WalEntry:
        path = self.wal_path(position)
        return wal.decode(self.objects[path], self.revision, path)

    def put_entry(self, position: int, entry: WalEntry, **changes: Any) -> str:
        path = self.wal_path(position)
        self.objects[path] = wal.encode(replace(entry, **changes), self.revision)
        return path

    # Table versions, of the base table and of generations

    def versions(self, root: str = "t") -> list[int]:
        found = (naming.parse(n) for n in self.objects if n.startswith(f"{root}/_versions/"))
        return sorted(parsed[0] for parsed in found if parsed is not None)

    def version_path(self, version: int, root: str = "t") -> str:
        return f"{root}/{naming.name(version)}"  # type: ignore[arg-type]

    def version(self, version: int | None = None, root: str = "t") -> TableManifest:
        path = self.version_path(self.versions(root)[-1] if version is None else version, root)
        return table_manifest.decode(self.objects[path], path)

    def change_version(
        self, edit: Callable[[Any, list[Any]], None], version: int | None = None, root: str = "t", *, add: bool = False
    ) -> str:
        """Rewrite a table version, or add one after the newest; ``edit`` gets the message and the list of indexes."""
        before = self.version(version, root)
        message = table_pb2.Manifest()
        message.CopyFrom(before.message)
        indices = []
        for index in before.indices:
            copy = table_pb2.IndexMetadata()
            copy.CopyFrom(index)
            indices.append(copy)
        edit(message, indices)
        if add:
            message.version += 1
        path = self.version_path(message.version, root)
        after = TableManifest(message=message, indices=tuple(indices), transaction=before.transaction)
        self.objects[path] = table_manifest.encode(after)
        return path

    def change_details(
        self, change: Callable[[IndexDetails], IndexDetails], version: int | None = None, *, add: bool = False
    ) -> str:
        """Rewrite the MemWAL index of a version, or add a version with the changed one."""

        def edit(message: Any, indices: list[Any]) -> None:
            for index in indices:
                if index.index_details.type_url.endswith("MemWalIndexDetails"):
                    details = index_details.decode(index.index_details.value, R, "t")
                    index.index_details.value = index_details.encode(change(details), R)

        return self.change_version(edit, version, add=add)

    @property
    def details(self) -> IndexDetails:
        return self.table._state.mem_wal

    # Generations

    def generation(self, number: int) -> str:
        """Folder of a listed generation."""
        listed = next(g for g in self.manifest().flushed if g.generation == number)
        return f"{self.region}/{listed.path}"

    def below(self, folder: str) -> list[str]:
        """Names of the objects below ``folder``, sorted."""
        return sorted(name for name in self.objects if name.startswith(f"{folder}/"))


def damages(data: bytes) -> Iterator[bytes | None]:
    """Ways in which an object is lost or cut: gone (None), empty, halved, short of its last byte."""
    yield None
    yield b""
    if len(data) > 2:
        yield data[: len(data) // 2]
    yield data[:-1]
