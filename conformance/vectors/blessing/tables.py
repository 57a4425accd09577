"""Whole tables, written by hand: table manifests as protobuf, data files by pylance's file writer.

Layout of a table manifest file: the Lance table format, "Manifest". Layout of a generation: MemWAL revision B, "Flushed
MemTable", and for revision R what its files are called there.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.file import LanceFileWriter

from .blooms import split_block
from .messages import encoded, uuid_text
from .objects import END_OF_STREAM, FIELDS, REGION, manifest, manifest_path, wal_path

Files = dict[str, bytes]
Row = tuple[int, str | None]

LATEST = 2**64 - 1
INDEX_ID = "11111111-2222-4333-8444-555555555555"
KEY = b"lance-schema:unenforced-primary-key"


def lance_bytes(table: pa.Table) -> bytes:
    """A Lance data file of version 2.1."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.lance"
        with LanceFileWriter(str(path), table.schema, version="2.1") as writer:
            if table.num_rows:
                writer.write_batch(table.combine_chunks().to_batches()[0])
            for key, value in (table.schema.metadata or {}).items():
                writer.add_schema_metadata(key.decode(), value.decode())
        return path.read_bytes()


def _field(number: int, field: pa.Field) -> str:
    logical = {"string": "string", "int64": "int64", "bool": "bool"}[str(field.type)]
    key = f' metadata {{ key: "{KEY.decode()}" value: "true" }} unenforced_primary_key: 1' if field.name == "id" else ""
    nullable = " nullable: 1" if field.nullable else ""
    return (
        f'fields {{ type: 2 name: "{field.name}" id: {number} parent_id: -1 logical_type: "{logical}"{nullable}{key} }}'
    )


def _block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def table_file(
    schema: pa.Schema,
    *,
    version: int = 1,
    fragments: Sequence[str] = (),
    details: str | None = None,
    config: Mapping[str, str] | None = None,
    more: str = "",
) -> bytes:
    """Bytes of a table manifest; ``details`` is the text of the MemWAL index's details, None for no index."""
    start = b""
    text = [f"version: {version} timestamp {{ seconds: 1767225600 }}"]
    text += [_field(number, field) for number, field in enumerate(schema)]
    text += [f"fragments {{ {fragment} }}" for fragment in fragments]
    if fragments:
        text.append(f"max_fragment: {len(fragments) - 1}")
    text.append('data_format { format: "lance" version: "2.1" }')
    text += [f'config {{ key: "{key}" value: "{value}" }}' for key, value in (config or {}).items()]
    if details is not None:
        start = _block(
            encoded(
                "IndexSection",
                f'indices {{ id {{ uuid: "{uuid_text(INDEX_ID)}" }} name: "__lance_mem_wal" '
                f'table_version: {version} details {{ type_url: "/lance.table.MemWalIndexDetails" '
                f"value {{ {details} }} }} }}",
            )
        )
        text.append("index_section: 0")
    body = _block(encoded("TableManifest", "\n".join(text) + more))
    return start + body + struct.pack("<QHH", len(start), 0, 2) + b"LANC"


def fragment(number: int, name: str, data: bytes, columns: int, rows: int) -> str:
    """Text of a fragment of one data file whose columns are the fields 0, 1, ..."""
    places = " ".join(f"fields: {i} column_indices: {i}" for i in range(columns))
    return f'id: {number} rows: {rows} files {{ path: "{name}" {places} major: 2 minor: 1 bytes: {len(data)} }}'


def rows_table(rows: Sequence[Row], *, tombstone: bool = False) -> pa.Table:
    """Rows of the columns id and v; with ``tombstone`` the third column says which ones delete (v is ``†``)."""
    fields = [*FIELDS, *([pa.field("_tombstone", pa.bool_(), nullable=False)] if tombstone else [])]
    columns: dict[str, list[Any]] = {"id": [r[0] for r in rows], "v": [None if r[1] == "†" else r[1] for r in rows]}
    if tombstone:
        columns["_tombstone"] = [r[1] == "†" for r in rows]
    return pa.table(columns, schema=pa.schema(fields))


def table_name(version: int) -> str:
    """Name of a table manifest in the V2 scheme."""
    return f"_versions/{LATEST - version:020d}.manifest"


def base(revision: str, rows: Sequence[Row], details: str = "", *, version: int = 1, more: str = "") -> Files:
    """The base table with its MemWAL index; no data file if there are no rows."""
    made: Files = {}
    fragments: list[str] = []
    if rows:
        data = lance_bytes(rows_table(rows))
        made["data/base.lance"] = data
        fragments.append(fragment(0, "base.lance", data, 2, len(rows)))
    config = {} if revision == "R" else {"memwal.revision": revision}
    schema = pa.schema(FIELDS)
    made[table_name(version)] = table_file(
        schema, version=version, fragments=fragments, details=details, config=config, more=more
    )
    return made


def generation(revision: str, folder: str, rows: Sequence[Row], region: str = REGION) -> Files:
    """A flushed generation with its own data file (revisions B and R); each key at most once."""
    table = rows_table(rows, tombstone=revision == "R")
    data = lance_bytes(table)
    place = f"_mem_wal/{region}/{folder}"
    made = {
        f"{place}/data/rows.lance": data,
        f"{place}/{table_name(1)}": table_file(
            table.schema, fragments=[fragment(0, "rows.lance", data, table.num_columns, len(rows))]
        ),
        f"{place}/bloom_filter.bin": split_block([row[0] for row in rows]) if revision == "R" else b"of another engine",
    }
    if revision == "R":
        made |= {f"{place}/_pk_index/{name}": content for name, content in _key_index([r[0] for r in rows]).items()}
    return made


def _key_index(keys: Sequence[int]) -> Files:
    order = sorted(range(len(keys)), key=lambda at: keys[at])
    values = [keys[at] for at in order]
    data = pa.table(
        {"values": values, "ids": order},
        schema=pa.schema([pa.field("values", pa.int64()), pa.field("ids", pa.uint64(), nullable=False)]),
    )
    lookup = pa.table(
        {"min": values[:1], "max": values[-1:], "null_count": [0], "page_idx": [0]},
        schema=pa.schema(
            [
                pa.field("min", pa.int64()),
                pa.field("max", pa.int64()),
                pa.field("null_count", pa.uint32(), nullable=False),
                pa.field("page_idx", pa.uint32(), nullable=False),
            ],
            metadata={"batch_size": "8192", "range_partitioned": "false"},
        ),
    )
    return {"page_data.lance": lance_bytes(data), "page_lookup.lance": lance_bytes(lookup)}


def entry(revision: str, epoch: int, rows: Sequence[Row], *, number: int = 1) -> bytes:
    """A WAL entry of one write; without rows what the revision puts at the tip of a claimed region."""
    metadata = {"writer_epoch": str(epoch)} | ({"generation": str(number)} if revision == "R" else {})
    if revision == "R" and not rows:
        metadata = {"writer_epoch": str(epoch), "fence_sentinel": "true"}
    table = rows_table(rows, tombstone=revision == "R").replace_schema_metadata(metadata)
    if revision == "A":
        return lance_bytes(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        if rows:
            writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    assert data.endswith(END_OF_STREAM)
    return data


def entries(revision: str, content: Mapping[int, tuple[int, Sequence[Row]]], *, number: int = 1) -> Files:
    """WAL entries by position: epoch and rows."""
    return {wal_path(revision, p): entry(revision, e, rows, number=number) for p, (e, rows) in content.items()}


def manifests(*texts: str, region: str = REGION, first: int = 1) -> Files:
    """Region manifests of ascending versions from ``first``; a text leaves out the version."""
    return {
        manifest_path(version, region): manifest(f"version: {version} {text}", region)
        for version, text in enumerate(texts, first)
    }


def hint(version: int, region: str = REGION) -> Files:
    """The version hint of a region."""
    return {f"_mem_wal/{region}/manifest/version_hint.json": b'{"version": %d}' % version}


def snapshot(
    revision: str, version: int, epoch: int, pointer: int, current: int, listed: Sequence[tuple[int, str]]
) -> bytes:
    """Region snapshots of one region as a Lance file; the arguments are the fields of its manifest."""
    names = ("replay_after_wal_id", "wal_id_last_seen")
    if revision != "A":
        names = ("replay_after_wal_entry_position", "wal_entry_position_last_seen")
    item = pa.struct([pa.field("generation", pa.uint64()), pa.field("path", pa.string())])
    fields: list[tuple[str, pa.DataType, Any]] = [
        ("region_id", pa.binary(16), bytes.fromhex(REGION.replace("-", ""))),
        ("version", pa.uint64(), version),
        ("region_spec_id", pa.uint32(), 0),
        ("writer_epoch", pa.uint64(), epoch),
        (names[0], pa.uint64(), pointer),
        (names[1], pa.uint64(), pointer),
        ("current_generation", pa.uint64(), current),
        ("flushed_generations", pa.list_(item), [{"generation": g, "path": path} for g, path in listed]),
    ]
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind, _ in fields])
    return lance_bytes(pa.table([pa.array([value], kind) for _, kind, value in fields], schema=schema))
