"""Region snapshots: one row per region, as Lance file bytes inside the MemWAL index or beside it.

Source: MemWAL revisions A and B, "Region Snapshot Storage" and "Region Snapshot Arrow Schema"; AMB-53, 67, 74-77.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from .. import paths
from ..clauses import implements
from ..codec import data_file
from ..codec.index_details import IndexDetails
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..effects import Io
from ..errors import ArtifactError, NotFound
from ..ids import (
    Epoch,
    Generation,
    ManifestVersion,
    RegionId,
    SpecId,
    WalPosition,
    region_id_from_bytes,
    region_id_to_bytes,
)
from ..revisions import Revision
from ..table.state import TableState
from . import result_types

REGION_FIELD = "region_field_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRow:
    """One region as the MemWAL index knows it."""

    region_id: RegionId
    spec_id: SpecId
    values: tuple[tuple[str, object], ...]
    """Region value per field id; a field that is absent is unknown, which is not the value None."""
    manifest: RegionManifest | None
    """State at build time; None for a region that is registered and has no manifest yet."""


def _pointers(revision: Revision) -> tuple[str, str]:
    if revision.name == "A":
        return "replay_after_wal_id", "wal_id_last_seen"
    return "replay_after_wal_entry_position", "wal_entry_position_last_seen"


@implements("SNAP-002", "SNAP-003", "SNAP-004", "SNAP-005", "SNAP-006", "SNAP-007", "SNAP-008", "SNAP-009", "SNAP-010")
def schema(details: IndexDetails, revision: Revision) -> pa.Schema:
    """Schema of the snapshot: the manifest's fields, and a column per region field over all specs (AMB-54)."""
    replay, seen = _pointers(revision)
    generation = pa.struct([pa.field("generation", pa.uint64()), pa.field("path", pa.string())])
    columns = [
        pa.field("region_id", pa.binary(16), nullable=False),
        pa.field("version", pa.uint64(), nullable=False),
        pa.field("region_spec_id", pa.uint32(), nullable=False),
        pa.field("writer_epoch", pa.uint64(), nullable=False),
        pa.field(replay, pa.uint64(), nullable=False),
        pa.field(seen, pa.uint64(), nullable=False),
        pa.field("current_generation", pa.uint64(), nullable=False),
        pa.field("flushed_generations", pa.list_(generation), nullable=False),
    ]
    fields = {f.field_id: result_types.parse(f.result_type) for spec in details.specs for f in spec.fields}
    columns += [pa.field(REGION_FIELD + name, arrow) for name, arrow in sorted(fields.items())]
    return pa.schema(columns)


def encode(rows: Sequence[RegionRow], details: IndexDetails, revision: Revision) -> bytes:
    """Bytes of the snapshot file, one row per region, sorted by region id."""
    replay, seen = _pointers(revision)
    listed = []
    for row in sorted(rows, key=lambda r: r.region_id):
        manifest = row.manifest
        listed.append(
            {
                "region_id": region_id_to_bytes(row.region_id),
                "version": manifest.version if manifest else 0,
                "region_spec_id": row.spec_id,
                "writer_epoch": manifest.epoch if manifest else 0,
                replay: manifest.position_replay_after if manifest else 0,
                seen: manifest.position_last_seen if manifest else 0,
                "current_generation": manifest.generation_current if manifest else 0,
                "flushed_generations": [
                    {"generation": g.generation, "path": g.path} for g in (manifest.flushed if manifest else ())
                ],
                **{REGION_FIELD + name: value for name, value in row.values},
            }
        )
    return data_file.encode(pa.Table.from_pylist(listed, schema=schema(details, revision)))


@implements("SNAP-011", "AMB-77")
def decode(data: bytes, details: IndexDetails, revision: Revision, path: str) -> tuple[RegionRow, ...]:
    """Rows of a snapshot; columns are matched by name. Raises `ArtifactError`."""
    table = data_file.decode(data, path, clause="SNAP-001")
    wanted = schema(details, revision)
    missing = [f.name for f in wanted if not f.nullable and f.name not in table.schema.names]
    if missing:
        raise ArtifactError("SNAP-001", path, f"the snapshot lacks the columns {missing}")
    replay, seen = _pointers(revision)
    rows = []
    for record in table.to_pylist():
        spec_id = SpecId(record["region_spec_id"])
        fields = next((spec.fields for spec in details.specs if spec.spec_id == spec_id), ())
        values = tuple((f.field_id, record.get(REGION_FIELD + f.field_id)) for f in fields)
        region = region_id_from_bytes(record["region_id"])
        manifest = RegionManifest(
            version=ManifestVersion(record["version"]),
            region_id=region,
            spec_id=spec_id,
            epoch=Epoch(record["writer_epoch"]),
            position_replay_after=WalPosition(record[replay]),
            position_last_seen=WalPosition(record[seen]),
            generation_current=Generation(record["current_generation"]),
            flushed=tuple(
                FlushedGeneration(generation=Generation(g["generation"]), path=g["path"])
                for g in record["flushed_generations"]
            ),
        )
        rows.append(
            RegionRow(region_id=region, spec_id=spec_id, values=values, manifest=manifest if manifest.version else None)
        )
    return tuple(rows)


@implements("INDEX-008", "INDEX-009", "SNAP-012", "SNAP-013", "AMB-75")
async def load(table: Io, state: TableState) -> tuple[RegionRow, ...]:
    """The snapshot in ``state``: inline if there is one, else the external file if regions are counted, else empty."""
    details, revision = state.mem_wal, state.revision
    if details.inline_snapshots:
        return decode(details.inline_snapshots, details, revision, state.path)
    if not details.num_regions:
        return ()
    entry = state.mem_wal_entry
    assert entry is not None
    name = external(entry.uuid.uuid)
    try:
        data = await table.get(name)
    except NotFound:
        reason = f"the index counts {details.num_regions} regions, and this file is not there"
        raise ArtifactError("SNAP-013", table.path(name), reason) from None
    return decode(data, details, revision, table.path(name))


def external(index: bytes) -> str:
    """Name of an external snapshot, for the 16 bytes of the index UUID."""
    return f"{paths.INDICES}/{uuid.UUID(bytes=index)}/index.lance"
