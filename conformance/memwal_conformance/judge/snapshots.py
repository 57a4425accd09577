"""Region snapshots of the MemWAL index, read as the Lance file that they are and held against the region manifests.

MemWAL revisions A and B, "Region Snapshot Arrow Schema". Columns are matched by name, others are ignored (AMB-77).
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from . import wal
from .artifacts import Manifest
from .choice import Seen, breach
from .store import JudgedStore
from .wire import DamagedBytes

POINTERS = {
    "A": ("replay_after_wal_id", "wal_id_last_seen"),
    "B": ("replay_after_wal_entry_position", "wal_entry_position_last_seen"),
}
"""Columns of the replay pointer and of the last-seen hint, by revision."""
FILES = "_indices/*/index.lance"
_COPIED = {"A": ("INDEX-022", "SNAP-021"), "B": ("INDEX-022",), "R": ("INDEX-022",)}
CLAUSES = ("SNAP-002", "SNAP-003", "SNAP-004", "SNAP-005", "SNAP-006", "SNAP-007", "SNAP-008", "SNAP-009")
"""Clause of each column."""
TYPES = (pa.binary(16), pa.uint64(), pa.uint32(), pa.uint64(), pa.uint64(), pa.uint64(), pa.uint64())
"""Types of the columns but for the last one, flushed_generations."""


def files(store: JudgedStore) -> Iterator[bytes]:
    """The snapshot of the newest table version: from the index details, or else from the files that there are."""
    for details in store.table.memwal:
        if details.inline_snapshots:
            yield details.inline_snapshots
        elif details.num_regions:
            yield from (Path(file).read_bytes() for file in sorted(store.root.glob(FILES)))


def there(store: JudgedStore) -> Iterator[str | None]:
    """A snapshot that is counted is there, and a Lance file; without regions there is none, or one without rows."""
    for details in store.table.memwal:
        if details.inline_snapshots == b"" and not details.num_regions:
            yield "inline_snapshots is there and empty, without regions: neither absent nor a Lance file"
        if details.num_regions and not any(True for _ in files(store)):
            yield f"num_regions is {details.num_regions}, and there is no snapshot, inline or as {FILES}"
    for data in files(store):
        try:
            wal.lance_table(data)
        except DamagedBytes as error:
            yield f"a region snapshot: {error}"
        else:
            yield None


def column(at: int, store: JudgedStore) -> Iterator[str | None]:
    """Every snapshot has the column ``at`` of `names`, in its type."""
    for found in _readable(store):
        yield _column_fault(found, at, store.layout.revision)


def rows(store: JudgedStore) -> Seen:
    """One row per region, as many as num_regions says, each as the manifest version that it names (or later hints)."""
    revision = store.layout.revision
    for found in _readable(store):
        if any(_column_fault(found, at, revision) for at in range(len(CLAUSES))):
            continue
        regions = [str(uuid.UUID(bytes=value)) for value in found["region_id"].to_pylist()]
        twice = sorted({region for region in regions if regions.count(region) > 1})
        told = f"{twice[0]} has {regions.count(twice[0])} rows in the snapshot" if twice else ""
        yield breach(told, "SNAP-001") if twice else None
        for details in store.table.memwal:
            if details.inline_snapshots:
                told = f"num_regions is {details.num_regions}, and the snapshot has {len(regions)}"
                clause = "INDEX-012" if revision == "A" else "SNAP-001"
                yield breach(told, clause) if details.num_regions != len(regions) else None
        for region_id, row in zip(regions, found.to_pylist(), strict=True):
            region = store.regions.get(region_id)
            if region is None or region.newest is None:
                continue  # the region is gone, or has no manifest that can be read, which other checks are about
            manifest = region.manifests.get(row["version"])
            if manifest is not None:
                wrong = _difference(row, manifest, revision)
                yield breach(f"{region_id}, version {manifest.version}: {wrong}", *_COPIED[revision]) if wrong else None
            elif row["version"] > region.newest.version:
                told = f"{region_id}: the snapshot was read from version {row['version']}, which there has never been"
                yield breach(told, "SNAP-003")


def hints(store: JudgedStore) -> dict[str, int]:
    """Region id -> the last-seen hint of its row. Raises `DamagedBytes` for a snapshot that cannot be read."""
    found: dict[str, int] = {}
    revision = store.layout.revision
    region, seen = "region_id", POINTERS[revision][1]
    for data in files(store):
        table = _table(data)
        for name in (region, seen):
            if fault := _column_fault(table, names(revision).index(name), revision):
                raise DamagedBytes(f"a region snapshot: {fault}")
        ids = [str(uuid.UUID(bytes=value)) for value in table[region].to_pylist()]
        found |= dict(zip(ids, table[seen].to_pylist(), strict=True))
    return found


def _readable(store: JudgedStore) -> Iterator[pa.Table]:
    for data in files(store):
        with contextlib.suppress(DamagedBytes):
            yield _table(data)


@functools.lru_cache(maxsize=64)
def _table(data: bytes) -> pa.Table:
    """A snapshot's rows: many checks look at the same few files. Raises `DamagedBytes`."""
    return wal.lance_table(data)


def names(revision: str) -> tuple[str, ...]:
    """Names of the columns under a revision, in the order of `CLAUSES`."""
    pointer, seen = POINTERS[revision]
    own = ("region_id", "version", "region_spec_id", "writer_epoch")
    return (*own, pointer, seen, "current_generation", "flushed_generations")


def _column_fault(found: pa.Table, at: int, revision: str) -> str | None:
    name = names(revision)[at]
    kind = found.schema.field(name).type if found.schema.names.count(name) == 1 else None
    if at < len(TYPES):
        if kind != TYPES[at]:
            return f"the column {name} is {kind}, and not {TYPES[at]}"
        return f"the column {name} has NULLs" if found[name].null_count else None
    return None if _generations_are_listed(kind) else f"the column {name} is {kind}, and no list of numbers and paths"


def _generations_are_listed(kind: pa.DataType | None) -> bool:
    """Whether a type is a list of structs of a number of 64 bits and a path."""
    if kind is None or not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    item = kind.value_type
    if not pa.types.is_struct(item):
        return False
    inner = {item.field(at).name: item.field(at).type for at in range(item.num_fields)}
    path = inner.get("path")
    return inner.get("generation") == pa.uint64() and path in (pa.string(), pa.large_string())


def _difference(row: dict[str, object], manifest: Manifest, revision: str) -> str | None:
    """What a row says that its manifest does not; the last-seen hint may be further on."""
    pointer, seen = POINTERS[revision]
    told = {
        "region_spec_id": manifest.spec_id,
        "writer_epoch": manifest.epoch,
        pointer: manifest.replay_after,
        "current_generation": manifest.current_generation,
    }
    for name, value in told.items():
        if row[name] != value:
            return f"{name} is {row[name]}, the manifest has {value}"
    hint = row[seen]
    if isinstance(hint, int) and hint < manifest.last_seen:
        return f"{seen} is {hint}, the manifest has {manifest.last_seen}"
    listed = row["flushed_generations"] or []
    assert isinstance(listed, list)
    pairs = sorted((entry["generation"], entry["path"]) for entry in listed)
    known = sorted((g.number, g.path) for g in manifest.generations)
    return None if pairs == known else f"flushed_generations is {pairs}, the manifest has {known}"
