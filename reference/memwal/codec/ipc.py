"""Arrow IPC messages before they are decoded: how large their compressed buffers say that they become.

A decoder reserves what a buffer says, so that a few damaged or hostile bytes could ask for any amount of memory.
Source: Apache Arrow, "Columnar Format": Serialization and Interprocess Communication; `Message.fbs`, `Schema.fbs`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from ..errors import ArtifactError

EXPANDED_BYTES = 256 << 20
"""What the buffers of one message may always become together."""
EXPANDED_RATIO = 100
"""Where they say more, it is at most so many times what the message has stored."""

FILE_START = b"ARROW1"
"""What a file starts with, and a stream does not."""
FILE_START_BYTES = 8
"""Where the stream begins that a file holds."""

_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_HEADER_TYPE, _HEADER = 1, 2
"""Places of fields in the table Message."""
_DICTIONARY_ROWS = 1
"""In the table DictionaryBatch."""
_BUFFERS, _COMPRESSION = 2, 3
"""In the table RecordBatch."""
_PREFIX = struct.Struct("<q")
"""In front of each compressed buffer: its length when it is not; -1 for one that is stored as it is."""


def check_expansion(message: pa.Message, path: str, clause: str, offset: int | None = None) -> None:
    """Raise `ArtifactError` if decoding ``message`` would take more memory than its size can be meant to."""
    try:
        lengths = list(_expanded(message))
    except (struct.error, IndexError) as error:
        raise ArtifactError(clause, path, f"it is not a readable Arrow message: {error}", offset) from error
    stored = message.body.size if message.body is not None else 0
    most = max(EXPANDED_BYTES, EXPANDED_RATIO * stored)
    if sum(lengths) > most:
        reason = f"{stored} compressed bytes say that they become {sum(lengths)}, and {most} is the most that is read"
        raise ArtifactError(clause, path, reason, offset)


def check_all(data: bytes, path: str, clause: str) -> None:
    """`check_expansion` of every message of a stream or a file. Raises what pyarrow does for bytes that are neither."""
    start = FILE_START_BYTES if data.startswith(FILE_START) else 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(memoryview(data)[start:])):
        check_expansion(message, path, clause)


def _expanded(message: pa.Message) -> Iterator[int]:
    """The length that each compressed buffer of ``message`` says."""
    data = memoryview(message.metadata)
    root = _number(data, 0, "<I")
    at = _field(data, root, _HEADER_TYPE)
    kind = data[at] if at else 0
    rows = _table(data, root, _HEADER) if kind in (_DICTIONARY_BATCH, _RECORD_BATCH) else 0
    if rows and kind == _DICTIONARY_BATCH:
        rows = _table(data, rows, _DICTIONARY_ROWS)
    if not rows or not _field(data, rows, _COMPRESSION) or message.body is None:
        return
    body, buffers = memoryview(message.body), _table(data, rows, _BUFFERS)
    for number in range(_number(data, buffers, "<I") if buffers else 0):
        position, size = struct.unpack_from("<qq", data, buffers + 4 + 16 * number)
        if size:
            yield max(0, _PREFIX.unpack_from(body, position)[0])


def _field(data: memoryview, table: int, number: int) -> int:
    """Where field ``number`` of a flatbuffers table is; 0 if it is absent."""
    entries = table - _number(data, table, "<i")
    place = 4 + 2 * number
    if place >= _number(data, entries, "<H"):
        return 0
    relative = _number(data, entries + place, "<H")
    return table + relative if relative else 0


def _table(data: memoryview, table: int, number: int) -> int:
    """Where the table or vector is that field ``number`` refers to; 0 if it is absent."""
    at = _field(data, table, number)
    return at + _number(data, at, "<I") if at else 0


def _number(data: memoryview, at: int, form: str) -> int:
    found: int = struct.unpack_from(form, data, at)[0]
    return found
