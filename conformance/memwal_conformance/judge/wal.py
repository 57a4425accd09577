"""WAL entries, decoded by the judge: Arrow IPC streams framed by hand (revisions B and R), Lance files (revision A)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .wire import DamagedBytes, little_endian

CONTINUATION = 0xFFFFFFFF
EPOCH_KEY = b"writer_epoch"
GENERATION_KEY = b"generation"
_EPOCH = dict.fromkeys("ABR", "WAL-010")
_DECIMAL = re.compile(r"[0-9]{1,20}")
_LANCE_FOOTER_BYTES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedWalEntry:
    """One WAL entry."""

    epoch: int
    generation: int | None
    """Revision R only."""
    rows: pa.Table
    """All columns as stored, in write order."""
    forms: tuple[tuple[str, str], ...] = ()
    """What of its form the text leaves open and others write otherwise, each with the number of the note."""


def decode(data: bytes, container: str) -> JudgedWalEntry:
    """Decode an entry; ``container`` is ``arrow`` or ``lance``. Raises `DamagedBytes`."""
    rows = lance_table(data) if container == "lance" else _arrow(data)
    forms = [] if container == "lance" else [(form, "AMB-11") for form in _end_of(data)]
    metadata = rows.schema.metadata or {}
    epoch = _decimal(metadata, EPOCH_KEY)
    if epoch is None:
        raise DamagedBytes("the schema metadata have no writer_epoch", clauses=_EPOCH)
    if metadata[EPOCH_KEY] != str(epoch).encode():
        forms.append((f"writer_epoch is written {metadata[EPOCH_KEY].decode()!r}", "AMB-12"))
    return JudgedWalEntry(epoch=epoch, generation=_decimal(metadata, GENERATION_KEY), rows=rows, forms=tuple(forms))


def _decimal(metadata: dict[bytes, bytes], key: bytes) -> int | None:
    if key not in metadata:
        return None
    text = metadata[key].decode("utf-8", "replace")
    if not _DECIMAL.fullmatch(text) or int(text) >= 1 << 64:
        raise DamagedBytes(f"{key.decode()} is not an unsigned decimal number: {text!r}", clauses=_EPOCH)
    return int(text)


def _end_of(data: bytes) -> Iterator[str]:
    """How the end of a stream departs from one end-of-stream mark and nothing behind it."""
    end, marked = stream_end(data)
    if not marked:
        yield "the stream has no end-of-stream mark"
    elif end != len(data):
        yield f"{len(data) - end} bytes follow the end of the stream"


def _arrow(data: bytes) -> pa.Table:
    stream_end(data)
    try:
        with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DamagedBytes(f"not a readable Arrow stream: {error}") from error


def stream_end(data: bytes) -> tuple[int, bool]:
    """Where an Arrow IPC stream ends, found by walking over its messages, and whether with its end-of-stream mark.

    Without one it ends where the bytes do (AMB-11). Raises `DamagedBytes` if a message is missing or cut. (Columnar
    format, "IPC Streaming Format".)
    """
    at, messages = 0, 0
    while True:
        if at == len(data) and messages:
            return at, False
        if little_endian(data, at, 4) != CONTINUATION:
            raise DamagedBytes("no message begins here", at)
        size = little_endian(data, at + 4, 4)
        at += 8
        if size == 0:
            if messages == 0:
                raise DamagedBytes("the stream has no schema", at)
            return at, True
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
            # The native reader panics on some damaged files; its panic type is not an Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise DamagedBytes("not a readable Lance file: the native reader panicked") from error
