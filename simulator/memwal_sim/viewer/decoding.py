"""Objects for people: what kind an object is by its name, what its bytes say in one line, and all of it as a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from memwal import paths
from memwal.codec import (
    bloom,
    data_file,
    deletion,
    hint,
    protobuf,
    region_manifest,
    table_manifest,
    wal,
)
from memwal.codec.pb.lance import transaction_pb2
from memwal.errors import ArtifactError
from memwal.revisions import Revision

from .trees import Node, dataclass_nodes, node, table, text

HEX_MAX = 1024
"""Bytes that are shown of what cannot be decoded."""
ROWS_FROM_MAX_BYTES = 1 << 20
"""Largest data file whose rows are shown."""
_LINE_BYTES = 16
_ROWS_MAX = 1 << 32
"""No deletion file names a row above this: its offsets have 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The bytes of one object, for people."""

    kind: str
    """Such as ``region manifest``; ``bytes`` for what is none of ours."""
    size_bytes: int
    summary: str
    """One line; empty if there is nothing to say."""
    nodes: tuple[Node, ...] = ()
    problem: str = ""
    """Why the bytes could not be decoded; empty if they could, or if there is nothing to decode."""
    dump: str = ""
    """The first bytes in hexadecimal where there are no nodes."""


Shown = tuple[str, tuple[Node, ...]]
"""Summary and nodes."""
Show = Callable[[bytes, Revision, str], Shown]
"""Bytes, revision and path -> what they say; raises `ArtifactError` for bytes that are refused."""


def decode(path: str, data: bytes, revision: Revision) -> Decoded:
    """What the object ``path`` with these bytes is. Never raises: bytes that are refused are shown with the reason."""
    kind, show = _kind(path)
    try:
        summary, nodes = show(data, revision, path)
    except ArtifactError as error:
        where = "" if error.offset is None else f" at byte {error.offset}"
        problem = f"{error.reason}{where} [{error.clause}]"
        return Decoded(
            kind=kind, size_bytes=len(data), summary="cannot be decoded", problem=problem, dump=hex_dump(data)
        )
    return Decoded(kind=kind, size_bytes=len(data), summary=summary, nodes=nodes, dump="" if nodes else hex_dump(data))


def part(path: str, data: bytes, first: int) -> Decoded:
    """What ``data`` is: bytes of the object ``path`` from ``first`` on; negative: counted from the end."""
    kind, _ = _kind(path)
    which = f"bytes {first:,} to {first + len(data):,}"
    if first < 0:
        which = f"the {len(data):,} bytes from {-first:,} before the end"
    return Decoded(kind=f"part of {kind}", size_bytes=len(data), summary=which, dump=hex_dump(data))


def hex_dump(data: bytes) -> str:
    """Lines of offset, bytes and characters for the first `HEX_MAX` bytes."""
    lines = []
    for start in range(0, min(len(data), HEX_MAX), _LINE_BYTES):
        line = data[start : start + _LINE_BYTES]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
        lines.append(f"{start:06x}  {line.hex(' ').ljust(3 * _LINE_BYTES)} {shown}")
    if len(data) > HEX_MAX:
        lines.append(f"… {len(data) - HEX_MAX:,} bytes more")
    return "\n".join(lines)


def _kind(path: str) -> tuple[str, Show]:
    folder, _, name = path.rpartition("/")
    parent = folder.rpartition("/")[2]
    in_region = f"{paths.MEM_WAL}/" in path
    if in_region and path.endswith(paths.VERSION_HINT):
        return "version hint", _hint
    if in_region and parent == "manifest" and name.endswith(".binpb"):
        return "region manifest", _region_manifest
    if in_region and parent == "wal":
        return "WAL entry", _wal_entry
    if name == paths.BLOOM_FILTER:
        return "bloom filter", _bloom
    if parent == paths.VERSIONS and ".manifest" in name:
        return "table manifest", _table_manifest
    if parent == paths.TRANSACTIONS:
        return "transaction", _transaction
    if parent == paths.DELETIONS:
        return "deletion file", _deletion
    if name.endswith(".lance"):
        return "data file" if parent == paths.DATA else "Lance file", _data_file
    return "bytes", _text


def _hint(data: bytes, _revision: Revision, path: str) -> Shown:
    version = hint.decode(data, path)
    if version is None:
        raise ArtifactError("MANIFEST-031", path, "no version in it; a reader goes on without the hint")
    return f"version {version}", (Node("version", str(version)),)


def _region_manifest(data: bytes, revision: Revision, path: str) -> Shown:
    found = region_manifest.decode(data, revision, path)
    flushed = ", ".join(str(each.generation) for each in found.flushed) or "none"
    summary = f"epoch {found.epoch}, replay after {found.position_replay_after}, flushed {flushed}"
    return summary + (", sealed" if found.sealed else ""), tuple(dataclass_nodes(found))


def _wal_entry(data: bytes, revision: Revision, path: str) -> Shown:
    entry = wal.decode(data, revision, path)
    what = "barrier" if entry.barrier or not entry.rows.num_rows else _count(entry.rows.num_rows, "row")
    facts = [each for each in dataclass_nodes(entry) if each.name != "rows"]
    metadata = Node("schema metadata", children=tuple(node(*pair) for pair in _metadata(data, revision, path)))
    types = Node("schema", children=tuple(Node(field.name, str(field.type)) for field in entry.rows.schema))
    return f"epoch {entry.epoch}, {what}", (*facts, metadata, types, node("rows", entry.rows))


def _metadata(data: bytes, revision: Revision, path: str) -> list[tuple[str, str]]:
    """Schema metadata of an entry that was decoded already."""
    schema = data_file.decode(data, path).schema if revision.wal_container == "lance" else _stream_schema(data)
    found = schema.metadata or {}
    return [(key.decode(errors="replace"), value.decode(errors="replace")) for key, value in sorted(found.items())]


def _stream_schema(data: bytes) -> pa.Schema:
    with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
        return reader.schema


def _bloom(data: bytes, revision: Revision, path: str) -> Shown:
    found = bloom.decode(data, revision, path)
    if isinstance(found, bloom.AlwaysPositive):
        return "of a format that is not known: every key may be there", ()
    return f"{len(data):,} bytes", ()


def _table_manifest(data: bytes, _revision: Revision, path: str) -> Shown:
    found = table_manifest.decode(data, path)
    nodes = [*node("", found.message).children]
    if found.indices:
        nodes.append(node("index section", found.indices))
    if found.transaction is not None:
        nodes.append(node("inline transaction", found.transaction))
    parts = [
        f"version {found.message.version}",
        _count(len(found.message.fragments), "fragment"),
        _count(len(found.indices), "index", "indexes"),
    ]
    return ", ".join(parts), tuple(nodes)


def _transaction(data: bytes, _revision: Revision, path: str) -> Shown:
    found: Any = protobuf.parse(transaction_pb2.Transaction, data, clause="TXN-010", path=path)
    operation = found.WhichOneof("operation") or "no operation"
    return f"{operation.replace('_', ' ')} on version {found.read_version}", node("", found).children


def _deletion(data: bytes, _revision: Revision, path: str) -> Shown:
    kind = deletion.BITMAP if path.endswith(deletion.EXTENSIONS[deletion.BITMAP]) else deletion.ARROW
    offsets = deletion.decode(data, kind, _ROWS_MAX, path)
    return _count(len(offsets), "row"), (node("rows deleted", tuple(map(int, offsets))),)


def _data_file(data: bytes, _revision: Revision, path: str) -> Shown:
    if len(data) > ROWS_FROM_MAX_BYTES:
        return f"{len(data):,} bytes", ()
    found = data_file.decode(data, path)
    return _count(found.num_rows, "row"), (Node("rows", f"{found.num_rows:,}", rows=table(found)),)


def _text(data: bytes, _revision: Revision, _path: str) -> Shown:
    try:
        found = data.decode()
    except UnicodeDecodeError:
        return "", ()
    if not found or not all(char.isprintable() or char.isspace() for char in found):
        return "", ()
    return text(found)[:60], (Node("text", text(found)),)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
