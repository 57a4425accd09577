"""The reference engine's objects <-> the protocol's views, for the ``eval`` messages of its adapter."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from memwal.codec import hint, index_details, region_manifest, wal
from memwal.codec.index_details import IndexCatchup, IndexDetails, RegionField, RegionSpec
from memwal.codec.region_manifest import FlushedGeneration, RegionManifest
from memwal.errors import ArtifactError
from memwal.ids import (
    Epoch,
    FieldId,
    Generation,
    ManifestVersion,
    Milliseconds,
    RegionId,
    SpecId,
    TableVersion,
    WalPosition,
)
from memwal.index import hashing, transforms
from memwal.revision_0 import segments
from memwal.revision_0.records import MemWal, State
from memwal.revisions import Revision

from memwal_conformance import cells
from memwal_conformance.protocol import Json

ACCOUNTING = ("in_memory_bytes", "physical_rows", "primary_key_bytes")


def manifest_view(manifest: RegionManifest) -> Json:
    """View of a region manifest."""
    view: Json = {
        "region_id": manifest.region_id,
        "version": str(manifest.version),
        "region_spec_id": str(manifest.spec_id),
        "writer_epoch": str(manifest.epoch),
        "replay_after": str(manifest.position_replay_after),
        "last_seen": str(manifest.position_last_seen),
        "current_generation": str(manifest.generation_current),
        "flushed_generations": [_generation_view(flushed) for flushed in manifest.flushed],
    }
    if manifest.shard_fields:
        pairs = [{"field_id": f, "value": base64.b64encode(v).decode()} for f, v in manifest.shard_fields]
        view["shard_fields"] = pairs
    return view | ({"status": "sealed"} if manifest.sealed else {})


def _generation_view(flushed: FlushedGeneration) -> Json:
    counts = {name: getattr(flushed, name) for name in ACCOUNTING}
    known = {name: str(count) for name, count in counts.items() if count is not None}
    return {"generation": str(flushed.generation), "path": flushed.path, **known}


def manifest_of(view: Json) -> RegionManifest:
    """Inverse of `manifest_view`."""
    return RegionManifest(
        version=ManifestVersion(int(view["version"])),
        region_id=RegionId(view["region_id"]),
        spec_id=SpecId(int(view["region_spec_id"])),
        epoch=Epoch(int(view["writer_epoch"])),
        position_replay_after=WalPosition(int(view["replay_after"])),
        position_last_seen=WalPosition(int(view["last_seen"])),
        generation_current=Generation(int(view["current_generation"])),
        flushed=tuple(_generation_of(g) for g in view["flushed_generations"]),
        shard_fields=tuple((f["field_id"], base64.b64decode(f["value"])) for f in view.get("shard_fields", ())),
        sealed=view.get("status") == "sealed",
    )


def _generation_of(view: Json) -> FlushedGeneration:
    in_memory, rows, key = (int(view[name]) if name in view else None for name in ACCOUNTING)
    return FlushedGeneration(
        generation=Generation(int(view["generation"])),
        path=view["path"],
        in_memory_bytes=in_memory,
        physical_rows=rows,
        primary_key_bytes=key,
    )


def spec_of(view: Json) -> RegionSpec:
    """A region spec from its view."""
    fields = tuple(
        RegionField(
            field_id=field["field_id"],
            source_ids=tuple(FieldId(int(i)) for i in field["source_ids"]),
            transform=field.get("transform"),
            expression=field.get("expression"),
            result_type=field["result_type"],
            parameters=tuple(sorted(field["parameters"].items())),
        )
        for field in view["fields"]
    )
    return RegionSpec(spec_id=SpecId(int(view["spec_id"])), fields=fields)


def _spec_view(spec: RegionSpec) -> Json:
    fields = []
    for field in spec.fields:
        view: Json = {
            "field_id": field.field_id,
            "source_ids": [str(i) for i in field.source_ids],
            "result_type": field.result_type,
            "parameters": dict(field.parameters),
        }
        view |= {"transform": field.transform} if field.transform is not None else {}
        view |= {"expression": field.expression} if field.expression is not None else {}
        fields.append(view)
    return {"spec_id": str(spec.spec_id), "fields": fields}


def _progress_view(progress: index_details.Progress) -> list[Json]:
    return [{"region_id": region, "generation": str(generation)} for region, generation in progress]


def _progress_of(view: list[Json]) -> index_details.Progress:
    return tuple((RegionId(m["region_id"]), Generation(int(m["generation"]))) for m in view)


def details_view(details: IndexDetails) -> Json:
    """View of the details of the MemWAL index."""
    snapshots = details.inline_snapshots
    return {
        "snapshot_ts_millis": str(details.snapshot_ts_ms),
        "num_regions": str(details.num_regions),
        "inline_snapshots": None if snapshots is None else base64.b64encode(snapshots).decode(),
        "region_specs": [_spec_view(spec) for spec in details.specs],
        "maintained_indexes": list(details.maintained_indexes),
        "merged_generations": _progress_view(details.merged),
        "index_catchup": [
            {"index_name": c.index_name, "caught_up_generations": _progress_view(c.generations)}
            for c in details.catchup
        ],
    }


def details_of(view: Json) -> IndexDetails:
    """Inverse of `details_view`."""
    snapshots = view["inline_snapshots"]
    return IndexDetails(
        snapshot_ts_ms=Milliseconds(int(view["snapshot_ts_millis"])),
        num_regions=int(view["num_regions"]),
        inline_snapshots=None if snapshots is None else base64.b64decode(snapshots),
        specs=tuple(spec_of(spec) for spec in view["region_specs"]),
        maintained_indexes=tuple(view["maintained_indexes"]),
        merged=_progress_of(view["merged_generations"]),
        catchup=tuple(
            IndexCatchup(index_name=c["index_name"], generations=_progress_of(c["caught_up_generations"]))
            for c in view["index_catchup"]
        ),
    )


def wal_view(entry: wal.WalEntry) -> Json:
    """View of a WAL entry."""
    view: Json = {"writer_epoch": str(entry.epoch), "rows": cells.to_rows(entry.rows)}
    return view if entry.generation is None else view | {"generation": str(entry.generation)}


def wal_of(view: Json) -> wal.WalEntry:
    """Inverse of `wal_view`."""
    generation = Generation(int(view["generation"])) if "generation" in view else None
    rows = cells.to_table(view["rows"])
    return wal.WalEntry(epoch=Epoch(int(view["writer_epoch"])), rows=rows, generation=generation)


def _hint_version(data: bytes, path: str) -> ManifestVersion:
    version = hint.decode(data, path)
    if version is None:
        raise ArtifactError("MANIFEST-026", path, "the hint names no version")
    return version


DECODERS: dict[str, Callable[[bytes, Revision, str], Json]] = {
    "manifest": lambda data, revision, path: manifest_view(region_manifest.decode(data, revision, path)),
    "hint": lambda data, _, path: {"version": str(_hint_version(data, path))},
    "wal": lambda data, revision, path: wal_view(wal.decode(data, revision, path)),
    "index_details": lambda data, revision, path: details_view(index_details.decode(data, revision, path)),
}
"""Kind of object -> its view from bytes."""

ENCODERS: dict[str, Callable[[Any, Revision], bytes]] = {
    "manifest": lambda view, revision: region_manifest.encode(manifest_of(view), revision),
    "hint": lambda view, _: hint.encode(ManifestVersion(int(view["version"]))),
    "wal": lambda view, revision: wal.encode(wal_of(view), revision),
    "index_details": lambda view, revision: index_details.encode(details_of(view), revision),
}
"""Kind of object -> its bytes from the view."""


def hash_of(function: str, tagged: list[cells.Cell], revision: Revision) -> int | None:
    """Hash of one or several cells, None for NULL."""
    columns = [cells.to_table({"columns": [_column(c)], "rows": [[c]]}).column(0) for c in tagged]
    if function == "murmur3_multi":
        hashed = hashing.murmur3_multi(columns, revision.hash_profile)
    else:
        (column,) = columns
        hashed = hashing.murmur3(column, revision.hash_profile)
    found: int | None = hashed[0].as_py()
    return found


def _column(tagged: cells.Cell) -> Json:
    return {"name": "c", "type": tagged["t"], "nullable": True}


def region_values(spec: Json, field_ids: list[str], rows: cells.Rows, revision: Revision) -> list[list[cells.Cell]]:
    """Region values of each row, in the order of the spec's fields."""
    table = cells.to_table(rows)
    names = {FieldId(int(i)): name for i, name in zip(field_ids, table.column_names, strict=True)}
    found: pa.Table = transforms.evaluate(spec_of(spec), table, names, revision=revision)
    values: list[list[cells.Cell]] = cells.to_rows(found)["rows"]
    return values


def record_view(record: MemWal) -> Json:
    """View of a record of revision 0."""
    return {
        "region": record.region,
        "generation": str(record.generation),
        "mem_table_location": record.mem_table_location,
        "wal_location": record.wal_location,
        "entries": [str(number) for number in record.entries],
        "state": record.state.name.lower(),
        "owner_id": record.owner_id,
        "last_updated_dataset_version": str(record.version_updated),
    }


def record_of(view: Json) -> MemWal:
    """Inverse of `record_view`."""
    return MemWal(
        region=view["region"],
        generation=Generation(int(view["generation"])),
        mem_table_location=view["mem_table_location"],
        wal_location=view["wal_location"],
        entries=segments.of(int(number) for number in view["entries"]),
        state=State[view["state"].upper()],
        owner_id=view["owner_id"],
        version_updated=TableVersion(int(view["last_updated_dataset_version"])),
    )
