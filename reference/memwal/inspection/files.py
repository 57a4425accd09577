"""One file: what kind it is, and everything in it but rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping

import pyarrow as pa

from ..codec import bloom, deletion, hint, json_text, region_manifest, split_block, table_manifest, wal
from ..codec.deletion import ARROW, BITMAP
from ..codec.pb.lance import table_pb2
from ..codec.region_manifest import RegionManifest
from ..effects import Io
from ..errors import ArtifactError, InvalidArgument
from ..revision_0 import entries as entries_0
from ..revisions import REVISIONS, R, Revision
from ..table import transactions
from ..table.legacy.structure import FOOTER
from . import kinds, lance_files, versions
from .details import of_details
from .node import U64, Fields, Node, Value, damaged, look, of_error, short, texts

WHOLE_MOST = 1 << 30
"""Bytes of a file, other than a data file, that are read to look into it."""
_ROWS_MOST = 1 << 32
"""A fragment's offsets have 32 bits."""

Describe = Callable[[bytes, str, Revision], Node]


async def inspect_file(io: Io, name: str, revision: Revision = R, kind: str = "", limit: int = 20) -> Node:
    """The file ``name``; of data files only the ends are read.

    ``kind``: what it has to be, as the caller knows from elsewhere. ``limit``: entries of each list that are shown.
    Raises `NotFound`, and `InvalidArgument` for a file of no kind that is known. Damage is in the node.
    """
    size = await io.head(name)
    said = kind or kinds.by_name(name)
    end = await io.get(name, max(0, size - 64), min(size, 64)) if size else b""
    found = kind or await _by_end(io, name, size, end, said) or (said if said == kinds.DATA_FILE else None)
    if found in (kinds.DATA_FILE, kinds.LEGACY_DATA_FILE):
        node = await look(lance_files.inspect(io, name, size, limit), io.path(name))
        return node if isinstance(node, Node) else damaged(found, name, node)
    if size > WHOLE_MOST:
        raise InvalidArgument(f"{io.path(name)}: {size} bytes are too many for any file but a data file")
    data = await io.get(name)
    return describe(data, io.path(name), name, revision, found or "", limit)


async def _by_end(io: Io, name: str, size: int, end: bytes, said: str | None) -> str | None:
    found = kinds.by_end(end)
    if found != kinds.LEGACY_DATA_FILE or said == kinds.DATA_FILE:
        return found
    if said == kinds.TABLE_VERSION:
        return kinds.TABLE_VERSION
    (position,) = struct.unpack_from("<Q", end, len(end) - FOOTER.size)
    room = size - FOOTER.size - 4 - position
    if room < 0:
        return kinds.TABLE_VERSION
    head = await io.get(name, position, 4)
    block = await io.get(name, position + 4, min(struct.unpack("<I", head)[0], room))
    return kinds.TABLE_VERSION if kinds.is_manifest(block) else found


def describe(data: bytes, path: str, name: str, revision: Revision, kind: str = "", limit: int = 20) -> Node:
    """A file by its bytes, one of a kind that is read as a whole."""
    found = kind or kinds.by_content(path, data)
    if found is None:
        raise InvalidArgument(f"{path}: {len(data)} bytes that are not a known kind of file of a table")
    if found == kinds.TABLE_VERSION:
        return _table_version(data, path, name, limit)
    try:
        node = _DESCRIBE[found](data, path, revision)
    except ArtifactError as error:
        return Node(kind=found, name=name, fields=(("size_bytes", U64(len(data))),), damage=(of_error(error),))
    return Node(
        kind=found,
        name=name,
        fields=(("size_bytes", U64(len(data))), *node.fields),
        damage=node.damage,
        children=node.children,
    )


def _table_version(data: bytes, path: str, name: str, limit: int) -> Node:
    try:
        manifest = table_manifest.decode(data, path)
    except ArtifactError as error:
        return damaged(kinds.TABLE_VERSION, name, of_error(error))
    return versions.of_manifest(manifest, path, name, limit)


def _plain(kind: str, fields: Fields) -> Node:
    return Node(kind=kind, name="", fields=fields)


def manifest_fields(found: RegionManifest) -> Fields:
    """What a region manifest says besides its generations."""
    return (
        ("version", U64(found.version)),
        ("region_id", found.region_id),
        ("spec_id", found.spec_id),
        ("epoch", U64(found.epoch)),
        ("position_replay_after", U64(found.position_replay_after)),
        ("position_last_seen", U64(found.position_last_seen)),
        ("generation_current", U64(found.generation_current)),
        ("generations", tuple(U64(one.generation) for one in found.flushed)),
        ("shard_fields", {key: value.hex() for key, value in found.shard_fields}),
        ("sealed", found.sealed),
        ("unknown_bytes", len(found.unknown)),
    )


def _region_manifest(data: bytes, path: str, revision: Revision) -> Node:
    found = region_manifest.decode(data, revision, path)
    children = tuple(
        Node(
            kind="generation",
            name=one.path,
            fields=(
                ("generation", U64(one.generation)),
                ("in_memory_bytes", _wide(one.in_memory_bytes)),
                ("physical_rows", _wide(one.physical_rows)),
                ("primary_key_bytes", _wide(one.primary_key_bytes)),
            ),
        )
        for one in found.flushed
    )
    return Node(kind=kinds.REGION_MANIFEST, name="", fields=manifest_fields(found), children=children)


def _wide(number: int | None) -> U64 | None:
    return None if number is None else U64(number)


def _version_hint(data: bytes, path: str, _: Revision) -> Node:
    found = hint.decode(data, path)
    if found is None:
        raise ArtifactError(
            "MANIFEST-026", path, "it is not an object with a version: readers look for the newest without it"
        )
    return _plain(kinds.VERSION_HINT, (("version", U64(found)),))


def _json(clause: str) -> Describe:
    def describe_json(data: bytes, path: str, _: Revision) -> Node:
        try:
            found = json_text.parse(data)
        except (ValueError, RecursionError) as error:
            raise ArtifactError(clause, path, f"it is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ArtifactError(clause, path, "it is not a JSON object")
        return _plain("", tuple((str(key), _of_json(found[key])) for key in sorted(found)))

    return describe_json


def _of_json(value: object) -> Value:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return U64(value)
    return short(value) if isinstance(value, str) else short(json.dumps(value))


def schema_node(schema: pa.Schema) -> Node:
    """An Arrow schema."""
    children = tuple(
        Node(kind="column", name=field.name, fields=(("type", str(field.type)), ("nullable", field.nullable)))
        for field in schema
    )
    metadata = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in (schema.metadata or {}).items()}
    return Node(kind="schema", name="schema", fields=(("metadata", texts(metadata)),), children=children)


def wal_fields(entry: wal.WalEntry) -> Fields:
    """What an entry says besides its rows."""
    return (
        ("container", "arrow"),
        ("epoch", U64(entry.epoch)),
        ("generation", _wide(entry.generation)),
        ("barrier", entry.barrier),
        ("rows", U64(entry.rows.num_rows)),
        ("batches", len(entry.rows.to_batches())),
    )


def _wal_entry(data: bytes, path: str, revision: Revision) -> Node:
    used = revision if revision.wal_container == "arrow" else R
    entry = wal.decode(data, used, path)
    stored = (("metadata", texts(wal.stored_metadata(data, used))),)
    return Node(kind="", name="", fields=(*wal_fields(entry), *stored), children=(schema_node(entry.rows.schema),))


def _entry_0(data: bytes, path: str, _: Revision) -> Node:
    rows = entries_0.decode(data, path)
    return Node(kind="", name="", fields=(("rows", U64(rows.num_rows)),), children=(schema_node(rows.schema),))


def _form(data: bytes) -> int:
    return ARROW if data.startswith(b"ARROW1") else BITMAP


def deleted_offsets(data: bytes, path: str) -> deletion.Offsets:
    """Offsets of the rows that a deletion file names."""
    return deletion.decode(data, _form(data), _ROWS_MOST, path)


def _deletion_file(data: bytes, path: str, _: Revision) -> Node:
    form, offsets = _form(data), deleted_offsets(data, path)
    fields: list[tuple[str, Value]] = [("form", table_pb2.DeletionFile.DeletionFileType.Name(form).lower())]
    fields.append(("deleted_rows", U64(len(offsets))))
    if len(offsets):
        fields += [("first_offset", int(offsets[0])), ("last_offset", int(offsets[-1]))]
    return _plain(kinds.DELETION_FILE, tuple(fields))


def _transaction(data: bytes, path: str, _: Revision) -> Node:
    found = transactions.decode(data, path)
    if not found.uuid and not transactions.operation(found):
        raise ArtifactError("TXN-010", path, "the transaction has neither a UUID nor an operation")
    return versions.transaction_node(found, "")


def _bloom_filter(data: bytes, path: str, _: Revision) -> Node:
    if not data.startswith(bloom.MAGIC):
        bloom.decode(data, R, path)
        blocks = len(data) // split_block.BLOCK_BYTES
        known = len(data) == split_block.FILTER_BYTES
        return _plain("", (("form", "split-block"), ("blocks", blocks), ("understood", known)))
    read = bloom.decode(data, REVISIONS["B"], path)
    (length,) = struct.unpack_from("<I", data, len(bloom.MAGIC))
    start = len(bloom.MAGIC) + 4
    header: Mapping[str, object] = json_text.parse(data[start : start + length])
    known = not isinstance(read, bloom.AlwaysPositive)
    shown: Fields = tuple((key, _of_number(header[key])) for key in sorted(header))
    return _plain("", (("form", "self-describing"), ("understood", known), *shown))


def _of_number(value: object) -> Value:
    return value if isinstance(value, float) else _of_json(value)


def _index_details(data: bytes, path: str, revision: Revision) -> Node:
    return of_details(data, path, revision, "")


_DESCRIBE: dict[str, Describe] = {
    kinds.REGION_MANIFEST: _region_manifest,
    kinds.VERSION_HINT: _version_hint,
    kinds.TABLE_VERSION_HINT: _json("TXN-021"),
    kinds.TAG: _json("GC-003"),
    kinds.BRANCH: _json("GC-003"),
    kinds.WAL_ENTRY: _wal_entry,
    kinds.ENTRY_0: _entry_0,
    kinds.DELETION_FILE: _deletion_file,
    kinds.TRANSACTION: _transaction,
    kinds.BLOOM_FILTER: _bloom_filter,
    kinds.INDEX_DETAILS: _index_details,
}
