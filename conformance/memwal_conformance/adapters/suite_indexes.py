"""The suite's own index builder: snapshots of all regions, one row for each, and indexes of the base that catch up."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from obstore import exceptions

from ..judge import artifacts, merging, snapshots, table
from ..judge.artifacts import Manifest
from ..judge.store import LAYOUTS, StoreLayout, replay_start
from ..judge.wire import replaced, uint_field
from ..protocol import AdapterError, Json
from .suite_merger import maintained
from .suite_store import ATTEMPTS, REGIONS, SuiteTable, commit

_VERSION, _LAST_SEEN = 1, 4
"""Fields of a region manifest."""
_LISTED = pa.list_(pa.struct([pa.field("generation", pa.uint64()), pa.field("path", pa.string())]))


def snapshot(where: SuiteTable, revision: str) -> Json:
    """Commit a snapshot of all regions. Tables with region specs are refused: their values stand in no manifest."""
    if revision not in snapshots.POINTERS:
        raise AdapterError("invalid_argument", f"no text says what a snapshot of revision {revision} looks like")
    for _ in range(ATTEMPTS):
        _, base = where.newest_version()
        if any(details.region_specs for details in table.table_manifest(base).memwal):
            raise AdapterError("invalid_argument", "region values are not known to the suite")
        found = [manifest for region_id in where.regions() if (manifest := where.newest_manifest(region_id))]
        regions = [_with_fresh_hint(where, manifest, data, LAYOUTS[revision]) for manifest, data in found]
        if commit(where, merging.with_snapshot(base, _file(regions, revision), len(regions), _now_ms())):
            return {"regions": len(regions)}
    raise AdapterError("conflict", f"{ATTEMPTS} table versions were taken by others")


def catch_up(where: SuiteTable, index: str | None) -> Json:
    """Have pylance bring maintained indexes up to the base table, and record what that covers, in one commit."""
    for _ in range(ATTEMPTS):
        _, base = where.newest_version()
        known = maintained(base)
        if index is not None and index not in known:
            raise AdapterError("not_found", f"no maintained index is called {index}")
        wanted = known if index is None else [index]
        if not wanted:
            return {"indexes": []}
        with where.changed(base) as (root, store_what_is_new):
            lance.dataset(str(root)).optimize.optimize_indices(index_names=wanted)
            following = merging.caught_up(base, store_what_is_new(), wanted)
        if commit(where, following):
            return {"indexes": wanted}
    raise AdapterError("conflict", f"{ATTEMPTS} table versions were taken by others")


def _with_fresh_hint(where: SuiteTable, known: Manifest, data: bytes, layout: StoreLayout) -> Manifest:
    """Raise the last-seen hint to the end of the WAL, as well as that goes; the manifest as it is then."""
    folder = f"{REGIONS}/{known.region_id}"
    names = where.names(f"{folder}/wal")
    there = {n for name in names if (n := artifacts.number_of(name, layout.container)) is not None}
    end = replay_start(known, layout)
    while end in there:
        end += 1
    if end - 1 <= known.last_seen:
        return known
    after = known.version + 1
    changed = replaced(data, {_VERSION: [uint_field(_VERSION, after)], _LAST_SEEN: [uint_field(_LAST_SEEN, end - 1)]})
    try:
        where.create(f"{folder}/manifest/{artifacts.name_of(after, 'binpb')}", changed)
    except exceptions.BaseError:
        return known  # best effort: another has changed the manifest, or the store did not answer
    where.put(f"{folder}/manifest/version_hint.json", json.dumps({"version": after}).encode())
    return artifacts.manifest(changed, known.region_id, after)


def _file(regions: Sequence[Manifest], revision: str) -> bytes:
    """MemWAL revisions A and B, "Region Snapshot Arrow Schema"."""
    columns = zip(snapshots.names(revision), [*snapshots.TYPES, _LISTED], strict=True)
    schema = pa.schema([pa.field(name, kind, nullable=kind == _LISTED) for name, kind in columns])
    rows = [dict(zip(schema.names, _row(manifest), strict=True)) for manifest in regions]
    with tempfile.TemporaryDirectory(prefix="memwal-suite-") as place:
        file = Path(place) / "snapshot.lance"
        with LanceFileWriter(str(file), schema) as writer:
            writer.write_batch(pa.Table.from_pylist(rows, schema=schema))
        return file.read_bytes()


def _row(manifest: Manifest) -> tuple[object, ...]:
    listed = [{"generation": generation.number, "path": generation.path} for generation in manifest.generations]
    pointers = (manifest.replay_after, manifest.last_seen, manifest.current_generation)
    own = (uuid.UUID(manifest.region_id).bytes, manifest.version, manifest.spec_id, manifest.epoch)
    return (*own, *pointers, listed)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
