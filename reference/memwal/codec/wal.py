"""WAL entries: bytes <-> `WalEntry`, as Arrow IPC stream (B, R) or Lance file (A).

An entry holds the whole writes of one WAL flush in write order, and the writer's epoch in schema metadata. An entry
without rows is a barrier: it marks a claim (AMB-24) and carries nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from ..clauses import implements
from ..errors import ArtifactError
from ..ids import UINT64_MAX, Epoch, Generation
from ..revisions import Revision
from . import data_file

WRITER_EPOCH = b"writer_epoch"
GENERATION = b"generation"
FENCE_SENTINEL = b"fence_sentinel"

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalEntry:
    """One WAL entry."""

    epoch: Epoch
    """Epoch of the claim under which the writer wrote it."""
    rows: pa.Table
    """Rows of all writes, in order; one chunk per record batch."""
    generation: Generation | None = None
    """MemTable generation that the rows belong to (R); None where the revision does not record it."""
    barrier: bool = False
    """Whether this entry marks a claim; then it has no rows."""


@implements("WAL-008", "WAL-009", "WAL-010", "WAL-011", "WAL-032", "AMB-11", "AMB-12")
def encode(entry: WalEntry, revision: Revision) -> bytes:
    """Bytes of an entry; the schema metadata of the rows themselves is not kept."""
    metadata = {WRITER_EPOCH: str(entry.epoch).encode()}
    if revision.entry_generation and entry.generation is not None:
        metadata[GENERATION] = str(entry.generation).encode()
    if revision.entry_generation and entry.barrier:
        metadata[FENCE_SENTINEL] = b"true"
    return _ENCODE[revision.wal_container](entry.rows.replace_schema_metadata(metadata))


def _encode_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows.to_batches():
            if batch.num_rows:
                writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


_ENCODE: dict[str, Callable[[pa.Table], bytes]] = {"arrow": _encode_stream, "lance": data_file.encode}


@implements("WAL-033")
def decode(data: bytes, revision: Revision, path: str) -> WalEntry:
    """Parse an entry; raises `ArtifactError` for bytes that are cut anywhere, trail, or lack a readable epoch."""
    rows = _DECODE[revision.wal_container](data, path)
    metadata = rows.schema.metadata or {}
    epoch = _number(metadata, WRITER_EPOCH, path)
    if epoch is None:
        raise ArtifactError("WAL-010", path, "the schema metadata have no writer_epoch")
    generation = _number(metadata, GENERATION, path)
    barrier = metadata.get(FENCE_SENTINEL) == b"true" or not rows.num_rows
    if barrier and rows.num_rows:
        raise ArtifactError("AMB-24", path, f"a fence sentinel with {rows.num_rows} rows")
    return WalEntry(
        epoch=Epoch(epoch),
        rows=rows.replace_schema_metadata(None),
        generation=Generation(generation) if generation is not None else None,
        barrier=barrier,
    )


def _number(metadata: dict[bytes, bytes], key: bytes, path: str) -> int | None:
    text = metadata.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > UINT64_MAX:
        raise ArtifactError("WAL-010", path, f"{key.decode()} is {text!r}, not an unsigned 64-bit decimal number")
    return int(text)


def _decode_stream(data: bytes, path: str) -> pa.Table:
    source = pa.BufferReader(data)
    start = 0
    try:
        with pa.ipc.open_stream(source) as reader:
            schema, batches = reader.schema, []
            while True:
                start = source.tell()
                try:
                    batch = reader.read_next_batch()
                    batch.validate(full=True)
                    batches.append(batch)
                except StopIteration:
                    break
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise ArtifactError("WAL-009", path, f"not a readable Arrow IPC stream: {error}", start) from error
    if start == len(data):
        raise ArtifactError("WAL-009", path, "no end-of-stream mark: the entry is cut", start)
    if source.tell() != len(data):
        raise ArtifactError("WAL-009", path, f"{len(data) - source.tell()} bytes trail the stream", source.tell())
    return pa.Table.from_batches(batches, schema)


def _decode_lance(data: bytes, path: str) -> pa.Table:
    return data_file.decode(data, path, clause="WAL-008")


_DECODE: dict[str, Callable[[bytes, str], pa.Table]] = {"arrow": _decode_stream, "lance": _decode_lance}
