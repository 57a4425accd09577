"""The region snapshot as a file: rows <-> Lance file bytes, one row per region.

A region value that is not known is NULL (AMB-53), and so is one that is known to be NULL (AMB-57). The schema metadata
of the file says which NULLs are known; readers that do not look there take all of them as unknown, which is safe.

Source: MemWAL revisions A and B, "Region Snapshot Arrow Schema"; AMB-53, 54, 57, 67, 77.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..clauses import implements
from ..codec import data_file, json_text
from ..codec.index_details import IndexDetails
from ..codec.region_manifest import FlushedGeneration, RegionManifest
from ..errors import ArtifactError
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
from . import result_types

REGION_FIELD = "region_field_"
KNOWN_NULL = b"memwal.known_null"
"""Schema metadata key: JSON object, region field id -> ids of the regions whose value is known to be NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRow:
    """One region as the MemWAL index knows it."""

    region_id: RegionId
    spec_id: SpecId
    values: tuple[tuple[str, object], ...]
    """Region value per field id; a field that is absent is unknown, which is not the value None."""
    manifest: RegionManifest | None
    """State at build time; None for a region that is registered and has no manifest yet."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that every snapshot has."""

    name: str
    type: pa.DataType
    clause: str


_GENERATION = pa.struct([pa.field("generation", pa.uint64()), pa.field("path", pa.string())])


def _columns(revision: Revision) -> tuple[_Column, ...]:
    replay, seen = revision.pointer_names
    return (
        _Column("region_id", pa.binary(16), "SNAP-002"),
        _Column("version", pa.uint64(), "SNAP-003"),
        _Column("region_spec_id", pa.uint32(), "SNAP-004"),
        _Column("writer_epoch", pa.uint64(), "SNAP-005"),
        _Column(replay, pa.uint64(), "SNAP-006"),
        _Column(seen, pa.uint64(), "SNAP-007"),
        _Column("current_generation", pa.uint64(), "SNAP-008"),
        _Column("flushed_generations", pa.list_(_GENERATION), "SNAP-009"),
    )


@implements("SNAP-002", "SNAP-003", "SNAP-004", "SNAP-005", "SNAP-006", "SNAP-007", "SNAP-008", "SNAP-009", "SNAP-010")
@implements("SNAP-011", "AMB-54", "AMB-67", "AMB-77")
def schema(details: IndexDetails, revision: Revision) -> pa.Schema:
    """Schema of the snapshot: the manifest's fields, and a column per region field over all specs (AMB-54)."""
    base = [pa.field(column.name, column.type, nullable=False) for column in _columns(revision)]
    own = [pa.field(REGION_FIELD + name, arrow) for name, arrow in sorted(_field_types(details).items())]
    return pa.schema(base + own)


def _field_types(details: IndexDetails) -> dict[str, pa.DataType]:
    return {f.field_id: result_types.parse(f.result_type) for spec in details.specs for f in spec.fields}


@implements("SNAP-001", "SNAP-021", "AMB-53", "AMB-57")
def encode(rows: Sequence[RegionRow], details: IndexDetails, revision: Revision) -> bytes:
    """Bytes of the snapshot file, one row per region, sorted by region id. Equal rows give equal bytes."""
    ordered = sorted(rows, key=lambda row: row.region_id)
    states = [row.manifest for row in ordered]
    columns: list[Any] = [
        [region_id_to_bytes(row.region_id) for row in ordered],
        [m.version if m else 0 for m in states],
        [row.spec_id for row in ordered],
        [m.epoch if m else 0 for m in states],
        [m.position_replay_after if m else 0 for m in states],
        [m.position_last_seen if m else 0 for m in states],
        [m.generation_current if m else 0 for m in states],
        [[{"generation": g.generation, "path": g.path} for g in m.flushed] if m else [] for m in states],
    ]
    values = [dict(row.values) for row in ordered]
    nulls: dict[str, list[RegionId]] = {}
    for name in sorted(_field_types(details)):
        columns.append([own.get(name) for own in values])
        known = [row.region_id for row, own in zip(ordered, values, strict=True) if own.get(name, row) is None]
        if known:
            nulls[name] = known
    shape = schema(details, revision)
    if nulls:
        shape = shape.with_metadata({KNOWN_NULL: json.dumps(nulls).encode()})
    arrays = [pa.array(column, field.type) for column, field in zip(columns, shape, strict=True)]
    return data_file.encode(pa.table(arrays, schema=shape))


@implements("SNAP-001", "SNAP-011", "AMB-53", "AMB-57", "AMB-77")
def decode(data: bytes, details: IndexDetails, revision: Revision, path: str) -> tuple[RegionRow, ...]:
    """Rows of a snapshot, in the order of the file; columns are matched by name and type, others are ignored.

    A region field column that is not there is unknown for all regions. Raises `ArtifactError` naming the clause.
    """
    table = data_file.decode(data, path, clause="SNAP-001")
    base = [_base_column(table, column, path) for column in _columns(revision)]
    fields = _field_columns(table, details, path)
    nulls = _known_nulls(table, path)
    specs = {spec.spec_id: tuple(f.field_id for f in spec.fields) for spec in details.specs}
    rows: dict[RegionId, RegionRow] = {}
    for at, (identity, version, spec, epoch, replay, seen, current, flushed) in enumerate(zip(*base, strict=True)):
        region = region_id_from_bytes(identity)
        if region in rows:
            raise ArtifactError("SNAP-001", path, f"region {region} has two rows")
        values = tuple(
            (name, fields[name][at])
            for name in specs.get(spec, ())
            if name in fields and (fields[name][at] is not None or region in nulls.get(name, ()))
        )
        manifest = RegionManifest(
            version=ManifestVersion(version),
            region_id=region,
            spec_id=SpecId(spec),
            epoch=Epoch(epoch),
            position_replay_after=WalPosition(replay),
            position_last_seen=WalPosition(seen),
            generation_current=Generation(current),
            flushed=tuple(FlushedGeneration(generation=Generation(g["generation"]), path=g["path"]) for g in flushed),
        )
        known = manifest if manifest.version else None
        rows[region] = RegionRow(region_id=region, spec_id=SpecId(spec), values=values, manifest=known)
    return tuple(rows.values())


def _base_column(table: pa.Table, column: _Column, path: str) -> list[Any]:
    if column.name not in table.schema.names:
        raise ArtifactError(column.clause, path, f"the snapshot lacks column {column.name!r}")
    found = table.column(column.name)
    if not _is(found.type, column.type):
        raise ArtifactError(column.clause, path, f"column {column.name!r} is {found.type}, not {column.type}")
    if found.null_count:
        raise ArtifactError(column.clause, path, f"column {column.name!r} has a NULL")
    return _listed(found)


def _listed(column: pa.ChunkedArray) -> list[Any]:
    if not _is_generations(column.type):
        return list(column.to_pylist())
    if all(chunk.offsets[0] == chunk.offsets[-1] for chunk in column.chunks if len(chunk)):
        return [()] * len(column)
    return list(column.to_pylist())


def _is(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the type of a stored column is the wanted one; how lists are laid out and called is free (AMB-77)."""
    return found == wanted or (_is_generations(wanted) and _is_generations(found))


def _is_generations(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    found = {field.name: field.type for field in kind.value_type}
    return found.get("generation") == pa.uint64() and found.get("path") in (pa.string(), pa.large_string())


def _field_columns(table: pa.Table, details: IndexDetails, path: str) -> dict[str, list[Any]]:
    found = {}
    for name, wanted in _field_types(details).items():
        column = REGION_FIELD + name
        if column not in table.schema.names:
            continue
        stored = table.column(column)
        if stored.type != wanted:
            raise ArtifactError("SNAP-010", path, f"column {column!r} is {stored.type}, not {wanted}")
        found[name] = stored.to_pylist()
    return found


def _known_nulls(table: pa.Table, path: str) -> Mapping[str, frozenset[str]]:
    text = (table.schema.metadata or {}).get(KNOWN_NULL)
    if text is None:
        return {}
    try:
        return {str(name): frozenset(map(str, _ids(regions))) for name, regions in json_text.parse(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        reason = f"metadata {KNOWN_NULL.decode()} is not an object of lists: {error}"
        raise ArtifactError("AMB-57", path, reason) from error


def _ids(regions: object) -> Iterable[object]:
    if not isinstance(regions, list):
        raise TypeError(f"{regions!r} is not a list")
    return regions
