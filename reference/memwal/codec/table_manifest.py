"""Table manifest files: bytes <-> the protobuf messages inside.

A file is ``[u32 length][IndexSection]`` and ``[u32 length][Transaction]`` (each optional), ``[u32 length][Manifest]``,
then a 16-byte tail: u64 position of the Manifest's length field, u16 0, u16 2, ``LANC``. The Manifest holds the
positions of the optional sections; they are set when a file is written and never carried over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ..clauses import implements
from ..errors import ArtifactError
from . import protobuf
from .file_layout import MAGIC
from .pb.lance import table_pb2, transaction_pb2

_TAIL = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAJOR, _MINOR = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableManifest:
    """One table version as stored. The messages are treated as immutable: copy before changing."""

    message: table_pb2.Manifest
    """The Manifest, unknown fields included."""
    indices: tuple[table_pb2.IndexMetadata, ...] = ()
    """The index section; empty if there is none."""
    transaction: transaction_pb2.Transaction | None = None
    """The inline transaction, if the file holds one."""


@implements("FORMAT-013")
def encode(manifest: TableManifest) -> bytes:
    """Bytes of a manifest file with the given index section and, if any, the inline transaction."""
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    for field in ("index_section", "transaction_section", "transaction_section_current"):
        message.ClearField(field)
    out = bytearray()
    if manifest.indices:
        message.index_section = len(out)
        out += _section(protobuf.serialise(table_pb2.IndexSection(indices=manifest.indices)))
    if manifest.transaction is not None:
        message.transaction_section_current = len(out)
        out += _section(protobuf.serialise(manifest.transaction))
    position = len(out)
    out += _section(protobuf.serialise(message))
    return bytes(out + _TAIL.pack(position, _MAJOR, _MINOR, MAGIC))


def _section(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


@implements("FORMAT-007", "FORMAT-013", "FORMAT-054", "FORMAT-056", "FORMAT-057", "FORMAT-058")
def decode(data: bytes, path: str) -> TableManifest:
    """Parse a manifest file; raises `ArtifactError` with the offset of what is cut or wrong."""
    if len(data) < _TAIL.size:
        raise ArtifactError("FORMAT-004", path, f"{len(data)} bytes are too few for a table manifest", len(data))
    tail = len(data) - _TAIL.size
    position, _, _, magic = _TAIL.unpack(data[tail:])
    if magic != MAGIC:
        raise ArtifactError(
            "FORMAT-004", path, "it does not end with LANC: it was cut, or it is not a manifest", tail + 12
        )
    section = _read_section(data, position, tail, path)
    if position + _LENGTH.size + len(section) != tail:
        raise ArtifactError("FORMAT-004", path, "the manifest does not end where the tail begins", position)
    message = protobuf.parse(table_pb2.Manifest, section, clause="FORMAT-004", path=path)
    _drop_deletions_of_no_type(message)
    if message.version < 1:
        raise ArtifactError("FORMAT-004", path, "the manifest has no version", position)
    indices: tuple[table_pb2.IndexMetadata, ...] = ()
    if message.HasField("index_section"):
        found = _read_section(data, message.index_section, position, path)
        indices = tuple(protobuf.parse(table_pb2.IndexSection, found, clause="FORMAT-004", path=path).indices)
    transaction = None
    for field in ("transaction_section_current", "transaction_section"):
        if message.HasField(field):
            found = _read_section(data, getattr(message, field), position, path)
            transaction = protobuf.parse(transaction_pb2.Transaction, found, clause="FORMAT-004", path=path)
            break
    return TableManifest(message=message, indices=indices, transaction=transaction)


@implements("FORMAT-066", "AMB-145")
def _drop_deletions_of_no_type(message: table_pb2.Manifest) -> None:
    """A DeletionFile without any field is none: its name would be that of a file that was never written."""
    for fragment in message.fragments:
        if fragment.HasField("deletion_file") and not fragment.deletion_file.ByteSize():
            fragment.ClearField("deletion_file")


def _read_section(data: bytes, start: int, limit: int, path: str) -> bytes:
    if start + _LENGTH.size > limit:
        raise ArtifactError("FORMAT-004", path, f"a section at {start} lies beyond {limit}", start)
    (length,) = _LENGTH.unpack(data[start : start + _LENGTH.size])
    end = start + _LENGTH.size + length
    if end > limit:
        raise ArtifactError("FORMAT-004", path, f"a section of {length} bytes at {start} ends beyond {limit}", start)
    return data[start + _LENGTH.size : end]
