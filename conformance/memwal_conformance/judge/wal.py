"""WAL entries, decoded by the judge: Arrow IPC streams framed by hand (revisions B and R), Lance files (revision A)."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .wire import DamagedBytes, little_endian

CONTINUATION = 0xFFFFFFFF
EPOCH_KEY = b"writer_epoch"
GENERATION_KEY = b"generation"
_DECIMAL = re.compile(r"0|[1-9][0-9]*")
_LANCE_FOOTER_BYTES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedWalEntry:
    """One WAL entry."""

    epoch: int
    generation: int | None
    """Revision R only."""
    rows: pa.Table
    """All columns as stored, in write order."""


def decode(data: bytes, container: str) -> JudgedWalEntry:
    """Decode an entry; ``container`` is ``arrow`` or ``lance``. Raises `DamagedBytes`."""
    rows = lance_table(data) if container == "lance" else _arrow(data)
    metadata = rows.schema.metadata or {}
    epoch = _decimal(metadata, EPOCH_KEY)
    if epoch is None:
        raise DamagedBytes("the schema metadata have no writer_epoch")
    return JudgedWalEntry(epoch=epoch, generation=_decimal(metadata, GENERATION_KEY), rows=rows)


def _decimal(metadata: dict[bytes, bytes], key: bytes) -> int | None:
    if key not in metadata:
        return None
    text = metadata[key].decode("utf-8", "replace")
    if not _DECIMAL.fullmatch(text) or int(text) >= 1 << 64:
        raise DamagedBytes(f"{key.decode()} is not an unsigned decimal number: {text!r}")
    return int(text)


def _arrow(data: bytes) -> pa.Table:
    end = stream_end(data)
    if end != len(data):
        raise DamagedBytes(f"{len(data) - end} bytes follow the end of the stream", end)
    try:
        with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DamagedBytes(f"not a readable Arrow stream: {error}") from error


def stream_end(data: bytes) -> int:
    """Where the end-of-stream mark of an Arrow IPC stream ends, found by walking over its messages.

    Raises `DamagedBytes` if a message or the mark is missing. (Columnar format, "IPC Streaming Format".)
    """
    at, messages = 0, 0
    while True:
        if at == len(data):
            raise DamagedBytes("the stream has no end-of-stream mark", at)
        if little_endian(data, at, 4) != CONTINUATION:
            raise DamagedBytes("no message begins here", at)
        size = little_endian(data, at + 4, 4)
        at += 8
        if size == 0:
            if messages == 0:
                raise DamagedBytes("the stream has no schema", at)
            return at
        if at + size > len(data):
            raise DamagedBytes("a message is cut", at)
        body = _body_bytes(data[at : at + size], at)
        at += size + body
        if at > len(data):
            raise DamagedBytes("the body of a message is cut", at - body)
        messages += 1


def _body_bytes(metadata: bytes, offset: int) -> int:
    """bodyLength: the fourth field of the flatbuffer table Message."""
    table = little_endian(metadata, 0, 4)
    back = little_endian(metadata, table, 4)
    virtual = table - (back - (1 << 32) if back >> 31 else back)
    if little_endian(metadata, virtual, 2) < 12:
        return 0
    place = little_endian(metadata, virtual + 10, 2)
    length = little_endian(metadata, table + place, 8) if place else 0
    if length >= 1 << 62:
        raise DamagedBytes("a message has an impossible body length", offset)
    return length


def lance_table(data: bytes) -> pa.Table:
    """Rows of a Lance file, with its schema metadata. Raises `DamagedBytes`."""
    from lance.file import LanceFileReader

    if len(data) < _LANCE_FOOTER_BYTES or data[-4:] != b"LANC":
        raise DamagedBytes("not a Lance file, or cut: no LANC mark at the end")
    with tempfile.TemporaryDirectory(prefix="memwal-judge-") as folder:
        file = Path(folder) / "entry.lance"
        file.write_bytes(data)
        try:
            reader = LanceFileReader(str(file))
            table = reader.read_all().to_table()
            return table.replace_schema_metadata(reader.metadata().schema.metadata)
        except (OSError, ValueError, RuntimeError, pa.ArrowException) as error:
            raise DamagedBytes(f"not a readable Lance file: {str(error).splitlines()[0]}") from error
        except BaseException as error:
            # The native reader panics on some damaged files; its panic type is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise DamagedBytes("not a readable Lance file: the native reader panicked") from error
