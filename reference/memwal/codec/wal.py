"""WAL entries: bytes <-> `WalEntry`, as Arrow IPC stream (B, R) or Lance file (A).

An entry holds the whole writes of one WAL flush in write order, and the writer's epoch in schema metadata. An entry
without rows is a barrier: it marks a claim (AMB-24) and carries nothing else.

A stream ends with its end mark and nothing behind it, in every revision. Native readers of R accept a stream without
one, and native writers always write it: here it is required in R too, since without it a stream that was cut between
two batches cannot be told from a whole one, and half a write would be replayed (AMB-11, 16).

Source: MemWAL revision A, "WAL"; revision B, "WAL Entry Format"; AMB-11, 12, 15, 20.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from struct import Struct

import pyarrow as pa

from .. import cellwise
from ..clauses import implements
from ..errors import ArtifactError, EngineBug
from ..ids import UINT64_MAX, Epoch, Generation
from ..revisions import Revision
from ..words import counted
from . import data_file, file_layout, ipc, marks
from .marks import Mark

WRITER_EPOCH = b"writer_epoch"
GENERATION = b"generation"
FENCE_SENTINEL = b"fence_sentinel"

CONTAINER_CLAUSES = ("WAL-008", "WAL-009")
"""Clauses by which `decode` refuses bytes that are no whole Lance file or Arrow stream."""

_SCHEMAS = 64
"""Of so many schemas the first messages of streams are kept."""
_PREFIX = Struct("<iI")
"""In front of each message of a stream: the continuation mark, and how many bytes the message has without its body."""
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,19}")


Metadata = dict[bytes, bytes]
"""Of a schema."""


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
    done: tuple[Mark, ...] = ()
    """Tasks that are finished with this entry (AMB-149)."""


@implements("WAL-008", "WAL-009", "WAL-010", "WAL-011", "WAL-032", "AMB-11", "AMB-12")
def encode(entry: WalEntry, revision: Revision) -> bytes:
    """Bytes of an entry; the schema metadata of the rows themselves is not kept."""
    metadata = {WRITER_EPOCH: str(entry.epoch).encode()}
    if revision.entry_generation and entry.generation is not None:
        metadata[GENERATION] = str(entry.generation).encode()
    if revision.entry_generation and entry.barrier:
        metadata[FENCE_SENTINEL] = b"true"
    if entry.done:
        metadata[marks.DONE.encode()] = marks.encode(entry.done).encode()
    data = _ENCODE[revision.wal_container](entry.rows, metadata)
    told, rows = _ENVELOPE[revision.wal_container](data)
    if told != metadata or rows != entry.rows.num_rows:
        raise EngineBug(f"{entry.rows.num_rows} rows with {metadata} were encoded, and readers find {rows} with {told}")
    return data


def _encode_stream(rows: pa.Table, metadata: Metadata) -> bytes:
    first = _first_message(_Exactly(rows.schema), tuple(metadata.items()))
    return b"".join((first, *(batch.serialize() for batch in rows.to_batches() if batch.num_rows), _END_MARKS[0]))


class _Exactly:
    """A schema that equals another one only if the metadata are the same, too."""

    __slots__ = ("schema",)

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return len(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exactly) and bool(self.schema.equals(other.schema, check_metadata=True))


# What a stream begins with takes as long as a row or two, and a writer's entries begin alike.
@lru_cache(maxsize=_SCHEMAS)
def _first_message(columns: _Exactly, metadata: tuple[tuple[bytes, bytes], ...]) -> bytes:
    data: bytes = columns.schema.with_metadata(dict(metadata)).serialize().to_pybytes()
    return data


@lru_cache(maxsize=_SCHEMAS)
def _schema_of(message: bytes) -> tuple[pa.Schema, Metadata]:
    """The schema that a message is, and its metadata."""
    schema = pa.ipc.read_schema(pa.py_buffer(message))
    return schema, dict(schema.metadata)


def _encode_lance(rows: pa.Table, metadata: Metadata) -> bytes:
    return data_file.encode(rows.replace_schema_metadata(metadata))


_ENCODE: dict[str, Callable[[pa.Table, Metadata], bytes]] = {"arrow": _encode_stream, "lance": _encode_lance}


Envelope = tuple[Metadata, int]
"""Schema metadata, and number of rows."""


def _stream_envelope(data: bytes) -> Envelope:
    """Of a stream as `_encode_stream` writes it."""
    source, end = pa.BufferReader(data), len(data) - len(_END_MARKS[0])
    schema, metadata = _schema_of(data[: source.seek(_PREFIX.size + _PREFIX.unpack_from(data)[1])])
    rows = 0
    while source.tell() < end:
        rows += pa.ipc.read_record_batch(pa.ipc.read_message(source), schema).num_rows
    return metadata, rows


def _lance_envelope(data: bytes) -> Envelope:
    described = file_layout.descriptor(data, "", clause="WAL-008")
    told = {key.encode(): value for key, value in described.schema.metadata.items()}
    return told, described.length


_ENVELOPE: dict[str, Callable[[bytes], Envelope]] = {"arrow": _stream_envelope, "lance": _lance_envelope}


def stored_metadata(data: bytes, revision: Revision) -> dict[str, bytes]:
    """Schema metadata of an entry that `decode` takes, as it is stored."""
    told = _DECODE[revision.wal_container](data, "").schema.metadata
    return {key.decode(errors="replace"): value for key, value in told.items()}


@implements("WAL-009", "WAL-033", "AMB-11", "AMB-12", "AMB-20")
def decode(data: bytes, revision: Revision, path: str) -> WalEntry:
    """Parse an entry; raises `ArtifactError` for bytes that are cut anywhere, trail, or lack a readable epoch.

    Accepts compressed and dictionary-encoded streams; their columns keep the types that the stream says, see `plain`.
    """
    return _entry(_DECODE[revision.wal_container](data, path), revision, path)


@implements("AMB-15")
def salvage(data: bytes, revision: Revision, path: str) -> tuple[WalEntry, int]:
    """The rows of an entry whose values are all what their types say, and how many others it has.

    For entries that `decode` refuses. Raises `ArtifactError` as it does for bytes that are no whole file or stream, or
    lack a readable epoch: nothing is known of those.
    """
    rows, others = _SALVAGE[revision.wal_container](data, path)
    return _entry(rows, revision, path), others


def _entry(rows: pa.Table, revision: Revision, path: str) -> WalEntry:
    if len(set(rows.schema.names)) != rows.num_columns:
        raise ArtifactError("WAL-009", path, f"column names are not unique: {rows.schema.names}")
    metadata = rows.schema.metadata or {}
    epoch = _number(metadata, WRITER_EPOCH, path)
    if epoch is None:
        raise ArtifactError("WAL-010", path, "the schema metadata have no writer_epoch")
    generation = _number(metadata, GENERATION, path) if revision.entry_generation else None
    sentinel = revision.entry_generation and metadata.get(FENCE_SENTINEL) == b"true"
    if sentinel and rows.num_rows:
        raise ArtifactError("AMB-24", path, f"it is a fence sentinel and has {counted(rows.num_rows, 'row')}")
    return WalEntry(
        epoch=Epoch(epoch),
        rows=rows.replace_schema_metadata(None),
        generation=Generation(generation) if generation is not None else None,
        barrier=not rows.num_rows,
        done=marks.decode(metadata.get(marks.DONE.encode()), path),
    )


def _number(metadata: dict[bytes, bytes], key: bytes, path: str) -> int | None:
    text = metadata.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or int(text) > UINT64_MAX:
        raise ArtifactError("WAL-010", path, f"{key.decode()} is {text!r}, not an unsigned 64-bit decimal number")
    return int(text)


def _decode_stream(data: bytes, path: str) -> pa.Table:
    schema, batches, start = _batches(data, path)
    try:
        for batch in batches:
            _check(batch)
        return pa.Table.from_batches(batches, schema)
    except _UNREADABLE as error:
        raise ArtifactError("WAL-009", path, f"it is not a readable Arrow IPC stream: {error}", start) from error


def _batches(data: bytes, path: str) -> tuple[pa.Schema, list[pa.RecordBatch], int]:
    """Schema and batches, whose values are not looked at yet, and where the first message behind the schema starts."""
    start = _check_framing(data, path)
    try:
        with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
            schema, batches = reader.schema, list(reader)
        _ = schema.names  # decodes them
        return schema, batches, start
    except _UNREADABLE as error:
        raise ArtifactError("WAL-009", path, f"it is not a readable Arrow IPC stream: {error}", start) from error


def _salvage_stream(data: bytes, path: str) -> tuple[pa.Table, int]:
    schema, batches, _ = _batches(data, path)
    return _whole_rows(schema, batches)


def _whole_rows(schema: pa.Schema, batches: list[pa.RecordBatch]) -> tuple[pa.Table, int]:
    """The rows of ``batches`` whose values are all what their types say, in their order, and how many others."""
    rows = pa.Table.from_batches([part for batch in batches for part in _whole_parts(batch)], schema)
    return rows, sum(batch.num_rows for batch in batches) - rows.num_rows


def _whole_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Those parts of ``batch`` that are whole, as large as halving finds them."""
    found, half = _copy(batch), batch.num_rows // 2
    if found is not None:
        yield found
    elif half:
        yield from _whole_parts(batch.slice(0, half))
        yield from _whole_parts(batch.slice(half))


def _copy(part: pa.RecordBatch) -> pa.RecordBatch | None:
    """``part`` in memory of its own, so that only its values are looked at; None if one is not what its type says."""
    try:
        part.validate()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        copied = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
        _check(copied)
    except _UNREADABLE:
        return None
    return copied


def _check(batch: pa.RecordBatch) -> None:
    """Raise `pyarrow.ArrowInvalid` for a value that is not what its type says, and for NULL where there may be none."""
    batch.validate(full=True)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise pa.ArrowInvalid(f"NULL in column {field.name!r}, which must not have it")
        if where := cellwise.null_within(column, repr(field.name)):
            raise pa.ArrowInvalid(f"NULL in {where}, which must not have it")


_UNREADABLE = (pa.ArrowException, OSError, ValueError, EOFError)
"""What pyarrow raises on damaged bytes; names that are no text come as ValueError."""


def _check_framing(data: bytes, path: str) -> int:
    """Walk the messages of a stream up to its end mark; returns where the first one behind the schema starts.

    A reader of batches stops quietly at the end of the bytes, in front of the first dictionary too; only the walk
    tells a stream that ends from one that is cut between two messages.
    """
    source = pa.BufferReader(data)
    starts = [0]
    try:
        messages = pa.ipc.MessageReader.open_stream(source)
        while True:
            ipc.check_expansion(messages.read_next_message(), path, "WAL-009", starts[-1])
            starts.append(source.tell())
    except StopIteration:
        end = source.tell()
    except _UNREADABLE as error:
        raise ArtifactError("WAL-009", path, f"it is not a readable Arrow IPC stream: {error}", starts[-1]) from error
    if data[starts[-1] : end] not in _END_MARKS:
        raise ArtifactError("WAL-009", path, "its stream has no end mark: the entry was cut", starts[-1])
    if end != len(data):
        raise ArtifactError("WAL-009", path, f"{len(data) - end} bytes trail the stream", end)
    return starts[min(1, len(starts) - 1)]


_END_MARKS = (b"\xff\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00")
"""A message of length 0, with and (in streams of before Arrow 0.15) without the continuation mark."""


def _decode_lance(data: bytes, path: str) -> pa.Table:
    rows = data_file.decode(data, path, clause="WAL-008")
    try:
        for batch in rows.to_batches():
            _check(batch)
    except _UNREADABLE as error:
        raise ArtifactError("WAL-008", path, f"it is not a readable Lance file: {error}") from error
    return rows


def _salvage_lance(data: bytes, path: str) -> tuple[pa.Table, int]:
    rows = data_file.decode_unchecked(data, path, clause="WAL-008")
    return _whole_rows(rows.schema, rows.to_batches())


_DECODE: dict[str, Callable[[bytes, str], pa.Table]] = {"arrow": _decode_stream, "lance": _decode_lance}
_SALVAGE: dict[str, Callable[[bytes, str], tuple[pa.Table, int]]] = {"arrow": _salvage_stream, "lance": _salvage_lance}


@implements("AMB-11")
def plain(entry: WalEntry, schema: pa.Schema) -> WalEntry:
    """``entry`` with those columns plain that are dictionary-encoded in it and plain in ``schema``.

    How rows are encoded is up to their writer. Other differences are left for the caller to judge.
    """
    rows, types = entry.rows, dict(zip(schema.names, schema.types, strict=True))
    for number, field in enumerate(entry.rows.schema):
        wanted = types.get(field.name, field.type)
        if field.type != wanted and _plain_type(field.type) == wanted:
            column = rows.column(number).cast(wanted)
            rows = rows.set_column(number, field.with_type(wanted), column)
    return entry if rows is entry.rows else replace(entry, rows=rows)


def _plain_type(arrow: pa.DataType) -> pa.DataType:
    """``arrow`` without dictionary encoding, also inside lists and structs."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in arrow])
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(_plain_field(arrow), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(_plain_field(arrow))
    return pa.list_(_plain_field(arrow)) if pa.types.is_list(arrow) else arrow


def _plain_field(arrow: pa.DataType) -> pa.Field:
    return arrow.value_field.with_type(_plain_type(arrow.value_type))
